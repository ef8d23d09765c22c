// Package kafka is a Kafka of one node for tests and benchmarks: franz-go's kfake with a data directory. Begin reading
// at Server.Run, then gate.go and conn.go.
//
// With Fsync on it costs what a durable broker costs: the answer to a produce request for a durable topic leaves only
// after an fdatasync that began after the records were written, and an offset commit reaches the broker only after
// everything that was acknowledged before it is synced. A listener wraps each connection, learns from the request
// headers which request an answer belongs to, and holds answers that must wait. Answers to one connection stay in
// order; fetches pass without a copy. A barrier starts at once if none is running, and requests that arrive meanwhile
// share the next one.
//
// kfake runs everything in one goroutine. After a SIGKILL records, topics and committed offsets are still there.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/eventrelay/relay/pkg/stream"
)

// Deps are the dependencies of a Server.
type Deps struct{ Log *slog.Logger }

// Server is one embedded broker.
type Server struct {
	cfg   Config
	log   *slog.Logger
	disk  *disk
	ready chan struct{}

	addr     string        // set before ready is closed
	listener *dualListener // set before ready is closed
}

// New validates the configuration. It starts nothing and touches no file.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check embedded kafka settings: %w", err)
	}
	if cfg.Durable == nil {
		cfg.Durable = stream.DurableTopic
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		cfg: cfg, log: deps.Log,
		disk: newDisk(cfg.DataDir), ready: make(chan struct{}),
	}, nil
}

// Ready is closed once the broker answers.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr returns the address that clients connect to; it is empty until Ready is closed.
func (s *Server) Addr() string {
	select {
	case <-s.ready:
		return s.addr
	default:
		return ""
	}
}

// Run serves until ctx ends, then sends the answers that wait for a sync, writes the broker's state and returns nil. It
// returns an error if another process uses the data directory, if the directory cannot be read, or if a sync fails.
func (s *Server) Run(ctx context.Context) error {
	if err := s.prepare(); err != nil {
		return err
	}
	g := newGate(s.disk, s.cfg.Durable, s.cfg.Fsync)
	ln := &gatedListener{gate: g}
	cluster, err := s.startBroker(ln)
	if err != nil {
		return fmt.Errorf("start broker on %s: %w", s.cfg.DataDir, err)
	}

	barrierCtx, stopBarriers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBarriers()
	var running sync.WaitGroup
	for _, b := range g.barriers() {
		running.Go(func() { b.run(barrierCtx) })
	}

	s.addr = ln.Addr().String()
	close(s.ready)
	select {
	case <-ctx.Done():
	case <-g.broken:
	}
	cluster.Close()
	ln.conns.Wait() // held answers need the barriers
	stopBarriers()
	running.Wait()
	if err := g.failure(); err != nil {
		return fmt.Errorf("sync log to disk: %w", err)
	}
	if s.cfg.Fsync {
		if err := s.disk.syncAll(); err != nil {
			return fmt.Errorf("sync log to disk at the end: %w", err)
		}
	}
	return nil
}

// prepare makes the data directory, and removes the producers' sequence numbers: kfake writes them at a clean stop
// only, so after a SIGKILL every idempotent producer that is still alive would get an out-of-order error.
func (s *Server) prepare() error {
	if err := os.MkdirAll(s.cfg.DataDir, 0o700); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(s.cfg.DataDir, "seq_windows.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Server) startBroker(ln *gatedListener) (*kfake.Cluster, error) {
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID("relay-test"),
		kfake.DataDir(s.cfg.DataDir),
		kfake.WithLogger(brokerLog{s.log}),
		kfake.MaxVersions(versions()),
		kfake.BrokerConfigs(map[string]string{
			"message.max.bytes": fmt.Sprint(s.cfg.MaxMessageBytes),
			"log.segment.bytes": fmt.Sprint(segmentBytes),
			// Offsets of a group without members would expire after a week, also while the
			// broker is down.
			"offsets.retention.minutes": "2147483647",
		}),
		kfake.ListenFn(func(string, string) (net.Listener, error) {
			l, err := net.Listen("tcp", s.cfg.Listen)
			if err == nil {
				s.listener = newDualListener(l)
				ln.Listener = s.listener
			}
			return ln, err
		}),
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, err
	}
	keepLastRecord(cluster)
	return cluster, nil
}

// versions caps Produce at version 12, the last one that names topics instead of their ids (KIP-516): the gate reads
// the names from the answers.
func versions() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.Produce), 12)
	return v
}

// segmentBytes is the size of a segment file. Deleted records leave the disk by whole segments, and the last segment of
// each partition stays: with all topics of the service on four partitions about 1 GiB, which a start reads in 1.4 s.
// kfake's default of 100 MiB would take six times that.
const segmentBytes = 16 << 20

// keepLastRecord makes DeleteRecords keep the last record of a partition. kfake finds the end of a log from its segment
// files alone: after a restart a partition without one would begin at offset 0, below the offsets that its consumers
// committed. kfake never forgets a connection that a control function has seen, so control functions are only for
// requests of long-lived clients.
func keepLastRecord(cluster *kfake.Cluster) {
	cluster.ControlKey(int16(kmsg.DeleteRecords), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := kreq.(*kmsg.DeleteRecordsRequest)
		if !ok {
			return nil, nil, false
		}
		for _, t := range req.Topics {
			for i := range t.Partitions {
				p := &t.Partitions[i]
				info := cluster.PartitionInfo(t.Topic, p.Partition)
				if info == nil {
					continue
				}
				if last := max(info.HighWatermark-1, info.LogStartOffset); p.Offset == -1 || p.Offset == info.HighWatermark {
					p.Offset = last
				}
			}
		}
		return nil, nil, false
	})
}

// brokerLog passes kfake's warnings and errors to the log.
type brokerLog struct{ log *slog.Logger }

func (l brokerLog) Logf(level kfake.LogLevel, msg string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.log.Error("embedded kafka reports an error", "detail", fmt.Sprintf(msg, args...))
	case kfake.LogLevelWarn:
		l.log.Warn("embedded kafka reports a warning", "detail", fmt.Sprintf(msg, args...))
	}
}
