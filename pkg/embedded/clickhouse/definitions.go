package clickhouse

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A failed write (see failures) leaves the file of a definition empty: that of a table or database, or of a mutation.
// Unlike a part that is broken, such a file keeps the engine from starting. So the definitions at the start and before
// an ALTER are kept as links, in a directory of their own, and statements that write one are refused when there is
// hardly any room.

const (
	keptDefinitions = "definitions"
	// leastRoom is how much of the disk must be free for a statement that writes a definition, in bytes.
	leastRoom = 8 << 20
)

// definitionFiles returns the paths of the definitions of tables and databases in a data directory, and of mutations.
func definitionFiles(data string) (definitions, mutations []string, err error) {
	for _, pattern := range []string{"db/metadata/*.sql", "db/store/*/*/*.sql", "db/store/*/*/mutation_*.txt"} {
		found, err := filepath.Glob(filepath.Join(globEscape.Replace(data), pattern))
		if err != nil {
			return nil, nil, err
		}
		if strings.HasSuffix(pattern, ".txt") {
			mutations = found
		} else {
			definitions = append(definitions, found...)
		}
	}
	return definitions, mutations, nil
}

var globEscape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// keptName is the path of the link to a definition, definitionOf that of the definition of a link.
func keptName(data, path string) string {
	inside, _ := filepath.Rel(data, path) // both have the same beginning
	return filepath.Join(data, keptDefinitions, strings.ReplaceAll(inside, "/", "%"))
}

func definitionOf(data, link string) string {
	return filepath.Join(data, strings.ReplaceAll(filepath.Base(link), "%", "/"))
}

// keepDefinitions links all definitions that are not empty. Writing a definition replaces the file, so a link keeps
// what it was.
func keepDefinitions(data string) error {
	files, _, err := definitionFiles(data)
	if err == nil {
		err = os.MkdirAll(filepath.Join(data, keptDefinitions), 0o700)
	}
	for _, path := range files {
		if err == nil {
			err = keepDefinition(path, keptName(data, path))
		}
	}
	return err
}

// forgetDropped removes the links to definitions that are gone, so that a new table does not get that of an old one.
func forgetDropped(data string) error {
	links, err := filepath.Glob(filepath.Join(globEscape.Replace(data), keptDefinitions, "*"))
	for _, link := range links {
		if _, missing := os.Stat(definitionOf(data, link)); errors.Is(missing, fs.ErrNotExist) {
			err = errors.Join(err, os.Remove(link))
		}
	}
	return err
}

func keepDefinition(path, link string) error {
	now, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) { // another statement has dropped it
		return nil
	}
	if err != nil || now.Size() == 0 {
		return err
	}
	kept, err := os.Stat(link)
	if err == nil && os.SameFile(now, kept) {
		return nil
	}
	if err == nil {
		err = os.Remove(link)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return linkOrCopy(path, link)
}

// linkOrCopy makes a file that does not exist. Some file systems have no links, such as those of shared folders.
func linkOrCopy(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// repairDefinitions replaces empty definitions, which keep the engine from starting, by their links. It removes those
// without a link: they are newer than the last start, and were not acknowledged. In a directory that has no links yet
// an empty definition may be older, and stays.
func repairDefinitions(data string) error {
	if _, err := os.Stat(filepath.Join(data, keptDefinitions)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	definitions, mutations, err := definitionFiles(data)
	if err != nil {
		return err
	}
	for _, path := range append(definitions, mutations...) {
		now, err := os.Stat(path)
		if err == nil && now.Size() == 0 {
			err = repairDefinition(path, keptName(data, path))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repairDefinition replaces the file in one step: a kill in between must not leave the table without a definition.
func repairDefinition(path, link string) error {
	next := filepath.Join(filepath.Dir(link), "next")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a start that was killed
		return err
	}
	err := linkOrCopy(link, next)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Remove(path)
	}
	if err != nil {
		return err
	}
	return os.Rename(next, path)
}

// definingVerbs begin statements that write a definition, but for those that dropsPattern matches: they make room.
var (
	definingVerbs = []string{"create", "alter", "delete", "update"}
	dropsPattern  = regexp.MustCompile(`(?is)\bDROP\s+(DETACHED\s+)?PART(ITION)?\b`)
)

// beforeDefinition keeps the present definitions before a statement that writes one. It returns an exception if there
// is hardly any room.
func (f *front) beforeDefinition(query string) error {
	kind := strings.ToLower(verb(query))
	if !slices.Contains(definingVerbs, kind) || dropsPattern.MatchString(query) {
		return nil
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(f.cfg.Data, &disk); err != nil {
		return fmt.Errorf("find out how much of the disk is free: %w", err)
	}
	if free := uint64(disk.Bavail) * uint64(disk.Bsize); free < leastRoom { // the types differ between systems
		return newException(codeNotEnoughSpace, "NOT_ENOUGH_SPACE",
			"Cannot change a table: %d MiB of the disk are free, at least %d are needed", free>>20, leastRoom>>20)
	}
	f.defining.Lock()
	defer f.defining.Unlock()
	keep := forgetDropped // CREATE replaces nothing
	if kind == "alter" {
		keep = keepDefinitions
	}
	if err := keep(f.cfg.Data); err != nil {
		return fmt.Errorf("keep the definitions of tables: %w", err)
	}
	return nil
}
