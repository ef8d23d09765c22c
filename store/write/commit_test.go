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

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/internal/storetest"
	"github.com/eventrelay/relay/store/write"
)

// durable is a disk: each sync waits until the test lets it go on, with what it returns.
type durable struct {
	begun chan struct{}
	end   chan error
}

func newDurable() *durable { return &durable{begun: make(chan struct{}), end: make(chan error)} }

func (d *durable) sync() error {
	d.begun <- struct{}{}
	return <-d.end
}

// committed is how far the writer's group has come in a topic.
func (b *bench) committed(topic string, index int32) int64 {
	b.Helper()
	r, err := stream.NewReader(b.Stream, "test")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	marks, err := r.Committed(context.WithoutCancel(b.Context()), store.Group, topic)
	if err != nil {
		b.Fatal(err)
	}
	return max(0, marks[stream.Partition{Topic: topic, Index: index}]) // -1: nothing yet
}

// TestCommitWaitsForTheDisk: what was inserted is read at once, and committed only after the disk has it; while the
// disk is at it more is written, which the next commit has. A stop waits for the last one.
func TestCommitWaitsForTheDisk(t *testing.T) {
	b := newBench(t)
	disk := newDurable()
	w, stop := b.WriterWithDeps(write.WriterConfig{}, write.WriterDeps{Sync: disk.sync})
	r := b.Reader(w)
	read := func(want int) {
		t.Helper()
		if page, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 10}); err != nil ||
			len(page.Rows) != want || !page.AsOf.IsZero() {
			t.Fatalf("%d events are read, as of %v, %v; want %d", len(page.Rows), page.AsOf, err, want)
		}
	}
	b.ProduceEvents(b.Event(0))
	read(1)
	<-disk.begun
	b.ProduceEvents(b.Event(0))
	read(2)
	if n := b.committed(stream.Events, 0); n != 0 {
		t.Errorf("%d committed while the disk is at it", n)
	}
	disk.end <- nil
	<-disk.begun
	if n := b.committed(stream.Events, 0); n != 1 {
		t.Errorf("%d committed after the first sync, want what was there when it began", n)
	}
	disk.end <- nil
	storetest.Eventually(t, func() bool { return b.committed(stream.Events, 0) == 2 })
	b.ProduceEvents(b.Event(0))
	read(3)
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	<-disk.begun
	select {
	case <-stopped:
		t.Error("stopped before the disk had everything")
	case <-time.After(50 * time.Millisecond):
	}
	disk.end <- nil
	<-stopped
	if n := b.committed(stream.Events, 0); n != 3 {
		t.Errorf("%d committed after the stop", n)
	}
}

// TestBrokenDisk: after a sync that failed nothing is committed any more, and the writer ends, though ClickHouse, which
// has the same disk, takes no rows either.
func TestBrokenDisk(t *testing.T) {
	b := newBench(t)
	p := storetest.NewProxy(t)
	broken := errors.New("input/output error")
	w, err := write.NewWriter(write.WriterConfig{URL: p.URL(b.Bench), Drain: 200 * time.Millisecond}, write.WriterDeps{
		Log: b.Logger, Stream: b.Stream, Producer: b.Producer, Sync: func() error {
			p.Cut()
			b.ProduceEvents(b.Event(0))
			time.Sleep(300 * time.Millisecond) // it is read, and waits to be written
			return broken
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.ProduceEvents(b.Event(0))
	if err := w.Run(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "durable") {
		t.Errorf("the writer ended with %v", err)
	}
	if n := b.committed(stream.Events, 0); n != 0 {
		t.Errorf("%d committed", n)
	}
}

// onBroker is a bench on a broker that can be told to fail, with the shared ClickHouse.
func onBroker(t *testing.T) (*bench, *kfake.Cluster) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
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

// TestCommitIsMadeAgain: a commit that the broker refuses is made again, though nothing new comes; what came meanwhile
// goes with it.
func TestCommitIsMadeAgain(t *testing.T) {
	for name, disk := range map[string]func() error{"with the disk": func() error { return nil }, "with the insert": nil} {
		t.Run(name, func(t *testing.T) {
			b, cluster := onBroker(t)
			reg := prometheus.NewRegistry()
			w, _ := b.WriterWithDeps(write.WriterConfig{}, write.WriterDeps{Metrics: reg, Sync: disk})
			r := b.Reader(w)
			mend := cluster.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.TopicAuthorizationFailed, Count: -1}).Remove
			refused := func() float64 { return storetest.Metric(t, reg, "relay_store_commit_failures_total") }
			for range 2 {
				b.ProduceEvents(b.Event(0))
				b.WaitCaughtUp(r)
				before := refused()
				storetest.Eventually(t, func() bool { return refused() > before })
			}
			if n := b.committed(stream.Events, 0); n != 0 {
				t.Errorf("%d committed while commits are refused", n)
			}
			mend()
			storetest.Eventually(t, func() bool { return b.committed(stream.Events, 0) == 2 })
		})
	}
}

// TestRebalanceDoesNotWaitForTheDisk: a writer whose disk hangs hands partitions over, and what it had not committed is
// committed by whoever has them then.
func TestRebalanceDoesNotWaitForTheDisk(t *testing.T) {
	b := newBench(t)
	begun, free := make(chan struct{}, 1), make(chan struct{})
	first, _ := b.WriterWithDeps(write.WriterConfig{}, write.WriterDeps{Sync: func() error {
		select {
		case begun <- struct{}{}:
		default:
		}
		<-free
		return nil
	}})
	release := sync.OnceFunc(func() { close(free) })
	t.Cleanup(release) // before the first ends, which waits for its disk
	accept := func() {
		for i := range storetest.Partitions {
			b.ProduceEvents(b.Event(i))
		}
	}
	accept()
	b.WaitCaughtUp(b.Reader(first))
	<-begun
	second, _ := b.WriterWithDeps(write.WriterConfig{}, write.WriterDeps{Sync: func() error { return nil }})
	// The first waits for its commit for five seconds. Without a bound it would do so until the group gives it up, after
	// thirty.
	storetest.EventuallyWithin(t, 25*time.Second, func() bool { return len(second.Progress().Owned) > 0 })
	release()
	accept()
	storetest.Eventually(t, func() bool {
		n := int64(0)
		for i := range storetest.Partitions {
			n += b.committed(stream.Events, int32(i))
		}
		return n == 2*storetest.Partitions
	})
	if n := b.QuerySum("SELECT uniqExact(id) FROM events"); n != 2*storetest.Partitions {
		t.Errorf("%d events are stored, want %d", n, 2*storetest.Partitions)
	}
}
