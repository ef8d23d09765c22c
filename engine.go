package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/embedded/clickhouse"
	"github.com/eventrelay/relay/pkg/embedded/kafka"
	"github.com/eventrelay/relay/pkg/embedded/redis"
	"github.com/eventrelay/relay/pkg/stream"
)

// embeddedEngine is one of the engines that the binary carries.
type embeddedEngine interface {
	Run(context.Context) error
	Ready() <-chan struct{}
	Addr() string
}

// runEngine runs one embedded engine as a process of its own.
func runEngine(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usageError{fmt.Errorf("which engine? relay engine kafka|redis|clickhouse --listen host:port --data directory")}
	}
	name := args[0]
	if name == "help" || name == "-h" || name == "--help" {
		fmt.Fprintln(stdout, "Usage: relay engine kafka|redis|clickhouse [flags]; relay engine NAME --help lists the flags")
		return nil
	}
	fs := flag.NewFlagSet("relay engine "+name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	listen := fs.String("listen", "127.0.0.1:0", "address to serve on; port 0 takes a free one")
	data := fs.String("data", "", "data directory; redis keeps nothing")
	library := fs.String("library", environment("RELAY_CHDB_LIB"), "clickhouse: path of libchdb.so")
	fsync := fs.Bool("fsync", true, "acknowledge only what is on disk")
	if err := fs.Parse(args[1:]); err != nil {
		return usageError{err}
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	engine, err := newEngine(name, *listen, *data, *library, *fsync, log, prometheus.NewRegistry())
	if err != nil {
		return usageError{err}
	}
	st := newStack(ctx, log)
	st.start(name, engine.Run)
	if st.ready(engine.Ready()) == nil {
		fmt.Fprintf(stdout, "%s listens on %s\n", name, engine.Addr())
	}
	return st.wait()
}

func newEngine(name, listen, data, library string, fsync bool, log *slog.Logger, metrics prometheus.Registerer) (embeddedEngine, error) {
	switch name {
	case "kafka":
		return newKafka(listen, data, fsync, log, metrics)
	case "redis":
		return redis.New(redis.Config{Listen: listen}, redis.Deps{Log: log})
	case "clickhouse":
		cfg := clickhouse.DefaultConfig()
		cfg.Listen, cfg.Data, cfg.Library, cfg.Fsync = listen, data, library, fsync
		return clickhouse.New(cfg, clickhouse.Deps{Log: log})
	}
	return nil, fmt.Errorf("unknown engine %q: kafka, redis or clickhouse", name)
}

func newKafka(listen, data string, fsync bool, log *slog.Logger, metrics prometheus.Registerer) (*kafka.Server, error) {
	cfg := kafka.DefaultConfig()
	cfg.Listen, cfg.DataDir, cfg.Fsync, cfg.MaxMessageBytes = listen, data, fsync, stream.MaxMessageBytes
	return kafka.New(cfg, kafka.Deps{Log: log, Metrics: metrics})
}
