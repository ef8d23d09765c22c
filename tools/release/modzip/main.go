// Command modzip packs a module of Go for GOPROXY: modzip MODULE VERSION DIRECTORY OUT. OUT then has what a proxy
// answers for that version, and the checksum in go.sum is that of a download from the repository.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	const path, version, directory, out, count = 1, 2, 3, 4, 5
	err := errors.New("usage: modzip MODULE VERSION DIRECTORY OUT")
	if len(os.Args) == count {
		err = pack(module.Version{Path: os.Args[path], Version: os.Args[version]}, os.Args[directory], os.Args[out])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "modzip:", err)
		os.Exit(1)
	}
}

func pack(m module.Version, directory, out string) error {
	mod, err := os.ReadFile(filepath.Join(directory, "go.mod"))
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := zip.CreateFromDir(&packed, m, directory); err != nil {
		return err
	}
	out = filepath.Join(out, m.Path, "@v")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list": []byte(m.Version + "\n"), m.Version + ".info": fmt.Appendf(nil, "{\"Version\":%q}\n", m.Version),
		m.Version + ".mod": mod, m.Version + ".zip": packed.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
