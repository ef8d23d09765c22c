package kafka

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/stream"
)

// Main runs a broker as a process of its own until ctx ends. It prints its address when it takes requests.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cfg := DefaultConfig()
	cfg.MaxMessageBytes = stream.MaxMessageBytes
	flags := flag.NewFlagSet("kafka", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.Listen, "listen", cfg.Listen, "address to listen on; port 0 chooses a free one")
	flags.StringVar(&cfg.DataDir, "data", "", "data directory")
	flags.BoolVar(&cfg.Fsync, "fsync", cfg.Fsync, "acknowledge only what is on disk")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := New(cfg, Deps{Log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return s.Run(ctx) })
	select {
	case <-s.Ready():
		fmt.Fprintf(stdout, "kafka listens on %s\n", s.Addr())
	case <-ctx.Done():
	}
	return running.Wait()
}
