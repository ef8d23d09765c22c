package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilSignal returns a context that ends with SIGINT (Ctrl-C), SIGTERM or SIGHUP, which says that the terminal was
// closed; under nohup SIGHUP stays ignored. A SIGINT after that ends the process at once: whoever presses Ctrl-C again
// does not want to wait. Supervisors repeat SIGTERM, so that it does not.
func UntilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, signals...)
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt) })
	return ctx, stop
}
