// Command relay-bench measures a relay on this machine: see tools/bench/README.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/eventrelay/relay/tools/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := bench.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
