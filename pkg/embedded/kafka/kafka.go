// Package kafka is an embedded Kafka broker: franz-go's kfake as one node with a data directory. Begin reading at
// Server.Run, then gate.go and conn.go.
//
// Clients connect over TCP, a unix socket, or an in-memory pipe from the same process. The package makes kfake durable.
// With Fsync on, the answer to a produce request for a durable topic leaves only after an fdatasync that began after
// the records were written. An offset commit reaches the broker only after everything that was acknowledged before it
// is synced, so that no committed offset lies beyond the end of a log. This holds for every client, because it is done
// at the connection: a listener wraps each connection, learns from the request headers which request an answer belongs
// to, and holds answers that must wait. Answers to one connection stay in order; fetches, for which our clients use
// connections of their own, pass without a copy.
//
// Group commit: a barrier starts at once if none is running, and requests that arrive meanwhile share the next one.
// There is no timer: an idle broker answers after one fdatasync, a busy one batches by itself. Durable topics and other
// topics have barriers of their own, so that the sync of a second of outcomes before an offset commit does not delay
// new events.
//
// An error of fdatasync or fsync is final: nothing is acknowledged after it, and Run returns it. The kernel has dropped
// the dirty pages, so a second fsync would succeed although the data is lost.
//
// After a SIGKILL records, topics with their settings, committed offsets with their metadata, and static members are
// still there. Other group members, share groups, transactions, the start of a log after DeleteRecords, and the
// producers' sequence numbers are lost, so a request that was in flight may be stored twice.
//
// A failed write, as on a full disk, is UNKNOWN_SERVER_ERROR for the producer. kfake has nevertheless counted the
// batch's sequence numbers and would discard a repetition as a duplicate: a client must treat the error as final, as
// franz-go and the Java client do. kfake runs everything in one goroutine, including compaction, so there should be no
// compacted topics. Retention by time or size may empty a partition, which then begins again at offset 0: use it only
// for topics that no group reads.
//
// Backpressure: TCP blocks a client that sends requests without reading answers.
//
// Invariants:
//   - No acknowledgement before its sync: TestAckWaitsForSync, TestSyncErrorIsFinal
//   - After a power failure every acknowledged record and offset is there, and no offset beyond the end of
//     its log: TestPowerLoss, TestPowerLossByTopic, TestCommitWaitsForRecords, TestWhenFilesAreSynced
//   - SIGKILL loses nothing that was acknowledged: TestSIGKILL, TestRepairedOffsets
//   - A log never ends below an offset that a producer or consumer has seen: TestRestart
//   - Deleted records leave the disk; after a SIGKILL at most those of one segment come back:
//     TestDeletedLeavesTheDisk
//   - One sync serves all requests that wait: TestGroupCommit
//   - A client in the same process gets the same guarantees: TestDialInProcess
//   - With a secret no client gets an answer without it; beyond loopback a secret is required: TestSecret, TestValidate
package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
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
	probe func(ctx context.Context, root string) error // probeLayout
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
		disk: newDisk(cfg.DataDir), probe: probeLayout, ready: make(chan struct{}),
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
	unlock, err := lockDir(s.cfg.DataDir)
	if err != nil {
		return err
	}
	defer unlock()
	durability, err := s.prepare(ctx)
	if err != nil {
		return err
	}

	g := newGate(s.disk, s.cfg.Durable, durability == groupBarrier)
	ln := &gatedListener{gate: g}
	cluster, err := s.startBroker(ln, durability)
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
	where := s.addr
	if strings.HasPrefix(s.cfg.Listen, unixPrefix) { // the address for clients is a placeholder
		where = s.cfg.Listen
	}
	s.log.Info("embedded kafka ready", "addr", where, "data", s.cfg.DataDir, "durability", durability.String())

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
	if durability == groupBarrier {
		if err := s.disk.syncAll(); err != nil {
			return fmt.Errorf("sync log to disk at the end: %w", err)
		}
	}
	return nil
}

// durability says what makes acknowledged records survive a power failure.
type durability int

const (
	pageCache    durability = iota // nothing: the kernel writes back within 30 s
	groupBarrier                   // the barriers of this package
	syncWrites                     // kfake: one fsync per batch in its only goroutine
)

func (d durability) String() string {
	return [...]string{"page cache", "group fsync", "fsync per batch"}[d]
}

// prepare repairs the files in the data directory for kfake and chooses the durability.
func (s *Server) prepare(ctx context.Context) (durability, error) {
	for _, name := range []string{"groups.log", "pids.log"} {
		if err := s.repairLog(filepath.Join(s.cfg.DataDir, name)); err != nil {
			return 0, err
		}
	}
	// kfake writes the producers' sequence numbers at a clean stop only. After a SIGKILL they would be stale, and every
	// idempotent producer that is still alive would get an out-of-order error; after a failed write they would claim a
	// batch that is not there. Without them a request that was in flight may be stored twice.
	if err := os.Remove(filepath.Join(s.cfg.DataDir, "seq_windows.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("remove old producer sequence numbers: %w", err)
	}
	if !s.cfg.Fsync {
		return pageCache, nil
	}
	if err := s.probe(ctx, s.cfg.DataDir); err != nil {
		s.log.Warn("embedded kafka has an unknown file layout: it syncs every batch alone, which is slow",
			"error", err)
		return syncWrites, nil
	}
	// Consumers may read and commit records that an earlier process left in the page cache.
	if err := s.disk.syncAll(); err != nil {
		return 0, fmt.Errorf("sync log to disk at the start: %w", err)
	}
	return groupBarrier, nil
}

func (s *Server) startBroker(ln *gatedListener, d durability) (*kfake.Cluster, error) {
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID(stream.EmbeddedCluster),
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
			l, err := listen(s.cfg.Listen)
			if err == nil {
				s.listener = newDualListener(l)
				ln.Listener = s.listener
			}
			return ln, err
		}),
	}
	if s.cfg.Secret != "" {
		opts = append(opts, kfake.EnableSASL())
		for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
			opts = append(opts, kfake.Superuser(mechanism, User, s.cfg.Secret))
		}
	}
	if d == syncWrites {
		opts = append(opts, kfake.SyncWrites())
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
