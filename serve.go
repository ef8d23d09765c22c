package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
)

// runServe runs a node on the engines that the settings name.
func runServe(ctx context.Context, s Settings, log *slog.Logger, stdout io.Writer) error {
	if err := os.MkdirAll(s.DataDir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
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
