package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/stream"
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

// runMigrate creates what serve needs.
func runMigrate(ctx context.Context, s Settings, stdout io.Writer) error {
	return migrate(ctx, s, stdout)
}

func streamMigrate(ctx context.Context, s Settings) ([]string, error) {
	partitions, copies := s.Partitions, s.Replication
	if partitions == 0 {
		partitions = 32
	}
	if copies == 0 {
		copies = 3
	}
	return stream.Migrate(ctx, s.stream(), int32(partitions), int16(copies))
}
