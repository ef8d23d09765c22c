// Package kafka is an embedded Kafka broker: franz-go's kfake as one node with a data directory.
//
// Any Kafka client in, over TCP or a unix socket, or past the network from the same process; log files
// out, under the data directory. With Fsync on, the answer to
// a produce request for a durable topic leaves only after an fdatasync that started after the records
// were written has finished, and an offset commit reaches the broker only after everything that was
// acknowledged before it is on disk, so that no committed offset ever lies beyond the end of a log.
// That holds for every client, in this process or in another, because it is done at the connection: a
// listener wraps each connection, learns from the request headers what every answer is for, and holds
// back what must wait. Answers to one connection stay in order; fetches have connections of their own
// in every client we use and are passed through without a copy.
//
// Group commit: a barrier starts at once when none is running, and what arrives meanwhile waits for the
// next one. No tick, so an idle broker answers after one fdatasync and a busy one batches by itself. The
// durable topics and the others have barriers of their own: the second of outcomes that an offset commit
// flushes does not delay the event that is being accepted.
//
// An error of fdatasync or fsync is final. Nothing is acknowledged after it and Run returns it: the
// kernel has dropped the pages, so trying again would report success for data that is gone.
//
// What survives SIGKILL: records, topics with their settings, committed offsets with their metadata,
// static members. What does not: other group members, share groups, transactions, the log start after
// DeleteRecords, and the producers' sequence numbers, so a request that was in flight may be stored twice.
//
// A write that fails, as on a full disk, is UNKNOWN_SERVER_ERROR to the producer. kfake has counted the
// batch's sequence numbers all the same and would take a repetition for a duplicate: a client must treat
// that error as final, as franz-go and the Java client do. kfake does everything in one
// goroutine, compaction too, so there should be no compacted topics. Retention by time or size may empty a
// partition, which then starts again at offset 0: it is for topics that no group consumes.
//
// Backpressure: a client that sends on without reading answers is blocked by its connection.
//
// Invariants:
//   - no acknowledgement before its sync: TestAckWaitsForSync, TestSyncErrorIsFinal
//   - after a power failure every acknowledged record and offset is there, and no offset beyond the end of
//     its log: TestPowerLoss, TestPowerLossByTopic, TestCommitWaitsForRecords, TestWhatIsSyncedWhen
//   - SIGKILL loses nothing that was acknowledged: TestSIGKILL, TestRepairedOffsets
//   - a log never ends before an offset that was given out: TestRestart
//   - what is deleted leaves the disk, and does not come back after a SIGKILL but for a segment:
//     TestDeletedLeavesTheDisk
//   - one sync serves all that wait: TestGroupCommit
//   - a client in the same process is a client like any other: TestDialFromWithin
//   - with a secret, nobody gets an answer without it; beyond loopback there is one: TestSecret, TestValidate
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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/eventrelay/relay/pkg/stream"
)

// Deps are what a Server uses of its surroundings.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil = none
}

// Server is one embedded broker.
type Server struct {
	cfg   Config
	log   *slog.Logger
	stats *metrics
	disk  *disk
	probe func(ctx context.Context, root string) error // probeLayout
	ready chan struct{}

	addr     string        // set before ready is closed
	listener *dualListener // likewise
}

// New checks the configuration. It starts nothing and touches no file.
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
		cfg: cfg, log: deps.Log, stats: newMetrics(deps.Metrics),
		disk: newDisk(cfg.DataDir), probe: probeLayout, ready: make(chan struct{}),
	}, nil
}

// Ready is closed when the broker answers.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr is the address that clients connect to. It is known once Ready is closed.
func (s *Server) Addr() string {
	select {
	case <-s.ready:
		return s.addr
	default:
		return ""
	}
}

// Run serves until ctx ends, then finishes the answers that wait for the disk, writes the broker's state
// and returns nil. A data directory that another process holds, a directory that cannot be read and an
// error of fsync are returned.
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

	g := newGate(s.disk, s.stats, s.cfg.Durable, durability == groupBarrier)
	ln := &gatedListener{gate: g}
	cluster, err := s.startBroker(ln, durability)
	if err != nil {
		return fmt.Errorf("start broker on %s: %w", s.cfg.DataDir, err)
	}

	lanes, stopLanes := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLanes()
	var running sync.WaitGroup
	for _, b := range g.barriers() {
		running.Go(func() { b.run(lanes) })
	}

	s.addr = ln.Addr().String()
	close(s.ready)
	where := s.addr
	if strings.HasPrefix(s.cfg.Listen, unixPrefix) { // the address that clients are told is none
		where = s.cfg.Listen
	}
	s.log.Info("embedded kafka ready", "addr", where, "data", s.cfg.DataDir, "durability", durability.String())

	select {
	case <-ctx.Done():
	case <-g.broken:
	}
	cluster.Close()
	ln.conns.Wait() // held answers leave while the barriers still run
	stopLanes()
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

// durability says who makes acknowledged records survive a power failure.
type durability int

const (
	pageCache    durability = iota // nobody: the kernel writes back within half a minute
	groupBarrier                   // the barriers of this package
	syncWrites                     // kfake, one fsync per batch in its only goroutine
)

func (d durability) String() string {
	return [...]string{"page cache", "group fsync", "fsync per batch"}[d]
}

// prepare readies the files of the data directory for kfake and chooses the durability.
func (s *Server) prepare(ctx context.Context) (durability, error) {
	for _, name := range []string{"groups.log", "pids.log"} {
		if err := s.repairLog(filepath.Join(s.cfg.DataDir, name)); err != nil {
			return 0, err
		}
	}
	// Written at a clean stop only. After a SIGKILL they would be stale, and every idempotent producer that
	// is still alive would be refused as out of order; after a failed write they would claim a batch that
	// is not there. Without them a request that was in flight may be stored twice.
	if err := os.Remove(filepath.Join(s.cfg.DataDir, "seq_windows.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("drop old producer sequences: %w", err)
	}
	if !s.cfg.Fsync {
		return pageCache, nil
	}
	if err := s.probe(ctx, s.cfg.DataDir); err != nil {
		s.log.Warn("embedded kafka keeps its files in another way than expected: every batch is synced alone, which is slow",
			"err", err)
		return syncWrites, nil
	}
	// What the process before left in the page cache may be read and committed from now on.
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

// versions caps Produce at the last version that names topics instead of giving their ids: the gate
// reads the names from the answers.
func versions() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.Produce), 12)
	return v
}

// segmentBytes is how large a segment file grows. What is deleted leaves the disk by whole segments, and of each
// partition the last one stays: with all topics of the service on four partitions that is 1 GiB at most, which a
// start reads in 1.4 s. 100 MiB, kfake's default, would be six times that.
const segmentBytes = 16 << 20

// keepLastRecord makes DeleteRecords leave the last record of a partition. kfake learns the end of a log
// from its segment files alone: a partition without one starts again at offset 0 after a restart, below
// the offsets that its consumers have committed. kfake remembers every connection that came by a control function, so
// this is only for requests of clients that stay.
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

// brokerLog passes kfake's warnings and errors on.
type brokerLog struct{ log *slog.Logger }

func (l brokerLog) Logf(level kfake.LogLevel, msg string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.log.Error("embedded kafka", "msg", fmt.Sprintf(msg, args...))
	case kfake.LogLevelWarn:
		l.log.Warn("embedded kafka", "msg", fmt.Sprintf(msg, args...))
	}
}
