package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/private"
)

// runServe runs a node on the engines that the settings name.
func runServe(ctx context.Context, s Settings, log *slog.Logger, stdout io.Writer) error {
	if err := private.Dir(s.DataDir, lockFile); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	unlock, err := lockDataDir(s.DataDir)
	if err != nil {
		return err
	}
	defer unlock()
	st := newStack(ctx, log)
	n, err := startNode(st, s, log, prometheus.NewRegistry())
	if err != nil {
		return errors.Join(err, st.stop())
	}
	fmt.Fprintf(stdout, "EventRelay is ready at %s\n", n.url)
	return st.wait()
}
