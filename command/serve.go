package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/pkg/private"
)

// runServe runs a node on the engines that the settings name.
func runServe(ctx context.Context, s settings, log *slog.Logger, stdout io.Writer) error {
	if err := private.EnsureDir(s.DataDir, lockFile); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	unlock, err := private.LockDir(s.DataDir, lockFile)
	if err != nil {
		return err
	}
	defer unlock()
	st := node.NewStack(ctx, log)
	n, err := node.Start(st, s.Config, log, prometheus.NewRegistry())
	if err != nil {
		return st.StopAfterFailedStart(err)
	}
	fmt.Fprintf(stdout, "EventRelay is ready at %s\n", n.URL())
	return st.Wait()
}
