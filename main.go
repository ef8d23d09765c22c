// Command relay receives webhooks and application events, stores every one, and delivers each to the
// destinations of its endpoint: signed, retried, at least once. See README.md for how to run it and
// DESIGN.md for how it works.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/eventrelay/relay/command"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command.Run(ctx, version, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
