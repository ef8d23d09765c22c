// Command relay receives webhooks and application events, stores every one, and delivers each to the
// destinations of its endpoint: signed, retried, at least once. See README.md for how to run it and
// DESIGN.md for how it works.
package main

import (
	"context"
	_ "embed"
	"os"

	"github.com/eventrelay/relay/command"
)

//go:embed VERSION
var release string

// commit is set by make; go build by itself leaves it in the build information.
var commit string

func main() {
	ctx, stop := command.UntilSignal(context.Background())
	program := command.Program{Version: command.Version(release, commit)}
	code := program.Run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
