// Command pack writes the programs and the package of the SDK, which the relay serves under /tools, to a directory:
// pack DIRECTORY VERSION.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/eventrelay/relay/sdk"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	const directory, version, count = 0, 1, 2
	if len(args) != count {
		return errors.New("usage: pack DIRECTORY VERSION")
	}
	tools, err := sdk.Tools(sdk.FixtureRunner())
	if err != nil {
		return err
	}
	for _, t := range tools {
		name := t.Name + "-" + args[version] + t.Extension
		if err := os.WriteFile(filepath.Join(args[directory], name), t.Content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
