package clickhouse

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNoLibrary means that libchdb does not exist where FindLibrary looks.
var ErrNoLibrary = errors.New("libchdb is missing: run `make build`, or set RELAY_CHDB_LIB to its path")

// FindLibrary returns the path of libchdb: the explicit path if there is one, else lib/ beside the executable, where
// `make build` puts it.
func FindLibrary(explicit string) (string, error) {
	path := explicit
	if path == "" {
		executable, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find the executable: %w", err)
		}
		if executable, err = filepath.EvalSymlinks(executable); err != nil {
			return "", fmt.Errorf("resolve the executable: %w", err)
		}
		path = filepath.Join(filepath.Dir(executable), "lib", libraryName)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w (looked for %s)", ErrNoLibrary, path)
	}
	if err != nil {
		return "", fmt.Errorf("find libchdb: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%w (%s is not a file)", ErrNoLibrary, path)
	}
	// An absolute path, because the loader would search its own directories for a bare name.
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", path, err)
	}
	return absolute, nil
}

// libraryName is the name of the file in chDB's packages.
const libraryName = "libchdb.so"
