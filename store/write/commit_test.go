package write_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/features/leaks/findings"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// fakeDisk is a disk whose sync waits until the test lets it return a result.
type fakeDisk struct {
	syncStarted chan struct{}
	syncResult  chan error
}

func newFakeDisk() *fakeDisk {
	return &fakeDisk{syncStarted: make(chan struct{}), syncResult: make(chan error)}
}

func (d *fakeDisk) sync() error {
	d.syncStarted <- struct{}{}
	return <-d.syncResult
}

// committedOffset returns the committed offset of the writer's group in a partition.
func (b *bench) committedOffset(topic string, index int32) int64 {
	b.Helper()
	r := must.Get(stream.NewReader(b.Stream, "test"))(b)
	defer r.Close()
	group := stream.StoreGroup
	if topic == stream.Findings {
		group = stream.StoreFindingsGroup
	}
	marks := must.Get(r.Committed(context.WithoutCancel(b.Context()), group, topic))(b)
	return max(0, marks[stream.Partition{Topic: topic, Index: index}]) // -1: nothing is committed yet
}

// TestCommitWaitsForTheDisk: inserted rows can be read at once, and their offsets are committed only after a sync. Rows
// that are inserted during a sync are committed by the next one. A stop waits for the last sync.
func TestCommitWaitsForTheDisk(t *testing.T) {
	b := newBench(t)
	disk := newFakeDisk()
	w, stop := b.WriterWithDeps(write.WriterConfig{}, write.WriterDeps{Sync: disk.sync})
	r := b.Reader(w)
	read := func(want int) {
		t.Helper()
		if page, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 10}); err != nil ||
			len(page.Rows) != want || !page.AsOf.IsZero() {
			t.Fatalf("read %d events, as of %v, %v; want %d", len(page.Rows), page.AsOf, err, want)
		}
	}
	b.ProduceEvents(b.Event(0))
	read(1)
	<-disk.syncStarted
	b.ProduceEvents(b.Event(0))
	read(2)
	is.Equal(t, b.committedOffset(stream.Events, 0), 0, "offset … is committed during the sync")
	disk.syncResult <- nil
	<-disk.syncStarted
	if n := b.committedOffset(stream.Events, 0); n != 1 {
		t.Errorf("offset %d is committed after the first sync, want 1, which was stored when it began", n)
	}
	disk.syncResult <- nil
	storetest.Eventually(t, func() bool { return b.committedOffset(stream.Events, 0) == 2 })
	b.ProduceEvents(b.Event(0))
	read(3)
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	<-disk.syncStarted
	select {
	case <-stopped:
		t.Error("the writer stopped before the last sync")
	case <-time.After(50 * time.Millisecond):
	}
	disk.syncResult <- nil
	<-stopped
	is.Equal(t, b.committedOffset(stream.Events, 0), 3, "offset … is committed after the stop")
}

// TestFailedSyncEndsTheWriter: after a failed sync nothing is committed any more, and Run returns its error, even while
// ClickHouse, which uses the same disk, takes no rows.
func TestFailedSyncEndsTheWriter(t *testing.T) {
	b := newBench(t)
	p := storetest.NewProxy(t)
	diskErr := errors.New("input/output error")
	w, err := write.NewWriter(write.WriterConfig{
		URL: p.URL(b.Bench), FlushEvery: time.Second, Drain: 200 * time.Millisecond}, write.WriterDeps{
		Log: b.Logger, Stream: b.Stream, Producer: b.Producer, Sync: func() error {
			p.Cut()
			b.ProduceEvents(b.Event(0))
			time.Sleep(300 * time.Millisecond) // the record is read and waits for a flush
			return diskErr
		},
	})
	must.Do(t, err)
	b.ProduceEvents(b.Event(0))
	if err := w.Run(t.Context()); !errors.Is(err, diskErr) || !strings.Contains(err.Error(), "durable") {
		t.Errorf("the writer ended with %v", err)
	}
	is.Equal(t, b.committedOffset(stream.Events, 0), 0, "offset … is committed")
}

// newBenchWithFakeBroker returns a bench on a broker whose answers a test can make fail, with the shared ClickHouse.
func newBenchWithFakeBroker(t *testing.T) (*bench, *kfake.Cluster) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	must.Do(t, err)
	t.Cleanup(cluster.Close)
	b := newBench(t)
	b.Stream.Brokers = cluster.ListenAddrs()
	if _, err := stream.Migrate(t.Context(), b.Stream, storetest.Partitions, 1); err != nil {
		t.Fatal(err)
	}
	if b.Producer, err = stream.NewProducer(b.Stream, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Producer.Close)
	return b, cluster
}

// TestFailedCommitIsRetried: a commit that the broker refuses is retried although no new records come, together with
// what came meanwhile.
func TestFailedCommitIsRetried(t *testing.T) {
	for name, disk := range map[string]func() error{"with the disk": func() error { return nil }, "with the insert": nil} {
		t.Run(name, func(t *testing.T) {
			b, cluster := newBenchWithFakeBroker(t)
			reg := prometheus.NewRegistry()
			w, _ := b.WriterWithDeps(write.WriterConfig{}, write.WriterDeps{Metrics: reg, Sync: disk})
			r := b.Reader(w)
			removeFault := cluster.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.TopicAuthorizationFailed, Count: -1}).Remove
			failures := func() float64 { return storetest.Metric(t, reg, "relay_store_commit_failures_total") }
			for range 2 {
				b.ProduceEvents(b.Event(0))
				b.WaitCaughtUp(r)
				before := failures()
				storetest.Eventually(t, func() bool { return failures() > before })
			}
			is.Equal(t, b.committedOffset(stream.Events, 0), 0, "offset … is committed while commits fail")
			removeFault()
			storetest.Eventually(t, func() bool { return b.committedOffset(stream.Events, 0) == 2 })
		})
	}
}

// TestRebalanceDoesNotWaitForTheDisk: a writer whose sync hangs hands its partitions over, and the next owner commits
// what it had not committed.
func TestRebalanceDoesNotWaitForTheDisk(t *testing.T) {
	b := newBench(t)
	syncStarted, syncMayEnd := make(chan struct{}, 1), make(chan struct{})
	first, _ := b.WriterWithDeps(write.WriterConfig{}, write.WriterDeps{Sync: func() error {
		select {
		case syncStarted <- struct{}{}:
		default:
		}
		<-syncMayEnd
		return nil
	}})
	release := sync.OnceFunc(func() { close(syncMayEnd) })
	t.Cleanup(release) // runs before the cleanup of the first writer, which waits for the sync
	accept := func() {
		for i := range storetest.Partitions {
			b.ProduceEvents(b.Event(i))
		}
	}
	accept()
	b.WaitCaughtUp(b.Reader(first))
	<-syncStarted
	second, _ := b.WriterWithDeps(write.WriterConfig{}, write.WriterDeps{Sync: func() error { return nil }})
	// The first writer waits 5 s for its commit. Without that bound it would wait until the group expels it, after 30
	// s.
	storetest.EventuallyWithin(t, 25*time.Second, func() bool {
		for p := range second.Progress().Owned {
			if p.Topic == stream.Events {
				return true
			}
		}
		return false
	})
	release()
	accept()
	storetest.Eventually(t, func() bool {
		n := int64(0)
		for i := range storetest.Partitions {
			n += b.committedOffset(stream.Events, int32(i))
		}
		return n == 2*storetest.Partitions
	})
	is.Equal(t, b.QuerySum("SELECT uniqExact(id) FROM events"), 2*storetest.Partitions, "events are stored")
}

// The last hits include those that were acknowledged before the call. A deleted finding has none, and a later hit is
// its first again.
func TestForgottenFindingsAreDeleted(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	table := write.NewFindingTable(r, findings.Reader{Cluster: r.Cluster}.CaughtUp)
	old, young := time.Now().UTC().Add(-time.Hour).Truncate(time.Millisecond), time.Now().UTC().Truncate(time.Millisecond)
	at := func(at time.Time) func(*finding.Hit) { return func(h *finding.Hit) { h.At = at } }
	b.ProduceHits(b.Hit(1, at(old)), b.Hit(2, at(young)), b.Hit(2, at(old)))
	ids := []string{storetest.FindingID(1), storetest.FindingID(2), storetest.FindingID(3)}
	want := func(what string, times ...time.Time) {
		t.Helper()
		last := must.Get(table.LastHits(t.Context(), storetest.Account, ids))(t)
		must.Equal(t, len(last), len(times), "%s: %v", what, last)
		for i, at := range times {
			if !last[ids[i]].Equal(at) {
				t.Errorf("%s: finding %d was hit at %v, want %v", what, i+1, last[ids[i]], at)
			}
		}
	}
	want("at first", old, young)
	must.Do(t, table.DeleteFindings(t.Context(), storetest.Account, ids[1:]))
	want("after the deletion", old)
	b.ProduceHits(b.Hit(2, at(old)))
	want("hit again", old, old)
	if last, err := table.LastHits(t.Context(), "acc_other", ids); err != nil || len(last) != 0 {
		t.Errorf("another account: %v, %v", last, err)
	}
	if _, err := write.NewFindingTable(r, func(context.Context) error { return errBehind }).
		LastHits(t.Context(), storetest.Account, ids); !errors.Is(err, errBehind) {
		t.Errorf("a store that is behind: %v", err)
	}
}

var errBehind = errors.New("the store is behind")
