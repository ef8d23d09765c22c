package feed_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/streamtest"
)

const (
	account    = "acc_1"
	partitions = 3
	day        = 24 * time.Hour
)

func TestMain(m *testing.M) { kit.Main(m) }

// harness is a log with a feed on it, and the events that were written.
type harness struct {
	testing.TB
	feed       *feed.Feed
	producer   *stream.Producer
	ids        *id.Generator
	trimmed    map[int32]int64 // by partition: the reported start offset of the log
	hidesStart bool            // the log does not report its start offset
	storeCalls int             // calls of the store
	erased     map[id.ID]bool
	stop       func()
	reads      chan chan struct{} // if set, each read of the log waits until the channel that it sends is closed

	mu     sync.Mutex
	events map[int32][]event.AtOffset // by partition, in order
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	_, conf := streamtest.Broker(t, partitions)
	var err error
	w := &harness{TB: t, ids: id.NewGenerator(nil), trimmed: map[int32]int64{}, events: map[int32][]event.AtOffset{}}
	if w.producer, err = stream.NewProducer(conf, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.producer.Close)
	reader := must.Get(stream.NewReader(conf, "test"))(t)
	t.Cleanup(reader.Close)
	w.feed = must.Get(feed.New(feed.Deps{
		Log: slog.New(slog.DiscardHandler), Topic: trimmedLog{reader, w}, Store: w, Now: time.Now, Retention: 30 * day,
		Erased: func(d id.ID) bool { return w.erased[d] }}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		is.OK(t, w.feed.Run(ctx))
	})
	w.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(w.stop)
	return w
}

// trimmedLog is a log that reports a later start than it has.
type trimmedLog struct {
	*stream.Reader
	w *harness
}

// OffsetsForTime returns no offset before the reported start, as if all trimmed records were older than t.
func (l trimmedLog) OffsetsForTime(ctx context.Context, topic string, t time.Time) (map[stream.Partition]int64, error) {
	at, err := l.Reader.OffsetsForTime(ctx, topic, t)
	for p := range at {
		at[p] = max(at[p], l.w.trimmed[p.Index])
	}
	return at, err
}

func (l trimmedLog) Starts(ctx context.Context, topics ...string) (map[stream.Partition]int64, error) {
	starts, err := l.Reader.Starts(ctx, topics...)
	for p := range starts {
		if !l.w.hidesStart {
			starts[p] = max(starts[p], l.w.trimmed[p.Index])
		}
	}
	return starts, err
}

func (l trimmedLog) ReadRanges(
	ctx context.Context, ranges []stream.Range, each func(stream.Partition, []*stream.Record) error) error {
	if l.w.reads != nil {
		proceed := make(chan struct{})
		l.w.reads <- proceed
		<-proceed
	}
	for _, r := range ranges {
		if r.From < l.w.trimmed[r.Index] {
			return stream.ErrTrimmed
		}
	}
	return l.Reader.ReadRanges(ctx, ranges, each)
}

// EventsByOffset implements a store that has everything.
func (w *harness) EventsByOffset(_ context.Context, q event.OffsetQuery) (event.OffsetPage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.storeCalls++
	page := event.OffsetPage{Next: q.To, Since: q.Since}
	for _, x := range w.events[q.Partition] {
		if x.Endpoint == q.Endpoint && x.Offset >= q.From && x.Offset < q.To && !x.ReceivedAt().Before(q.Since) &&
			len(page.Rows) < q.Limit {
			page.Rows = append(page.Rows, x)
		}
	}
	return page, nil
}

// put writes an event of an endpoint to a partition.
func (w *harness) put(endpoint string, partition int32, body []byte) {
	w.Helper()
	d := must.Get(w.ids.New(partition))(w)
	e := &event.Event{ID: d, Account: account, Endpoint: endpoint, Source: event.SourceAPI,
		Verdict: event.VerdictUnverified, Body: body}
	w.producer.Produce(stream.Events, partition, e.Record(), func(r *stream.Record, err error) {
		if err != nil {
			w.Error(err)
		}
		w.mu.Lock()
		w.events[partition] = append(w.events[partition], event.AtOffset{Event: e, Offset: r.Offset, Size: len(body)})
		w.mu.Unlock()
	})
}

func (w *harness) flush() {
	w.Helper()
	must.Do(w, w.producer.Flush(w.Context()))
}

func (w *harness) watch(endpoint string, from *feed.Cursor, partitions ...int32) *feed.Watcher {
	w.Helper()
	x := must.Get(w.feed.Watch(w.Context(), account, endpoint, partitions, from))(w)
	w.Cleanup(x.Close)
	return x
}

// next reads n events; a gap fails the test.
func (w *harness) next(x *feed.Watcher, n int) (got []feed.Item) {
	w.Helper()
	for len(got) < n {
		items, err := x.Next(w.Context(), 10*time.Second)
		if err != nil || len(items) == 0 {
			w.Fatalf("after %d events: %v", len(got), err)
		}
		for _, item := range items {
			if item.Gap != nil {
				w.Fatalf("after %d events a gap: %+v", len(got), *item.Gap)
			}
		}
		got = append(got, items...)
	}
	return got
}

// wantAll checks that the items are all events of an endpoint from an offset in each partition, in the order of each
// partition.
func (w *harness) wantAll(endpoint string, got []feed.Item, from map[int32]int64) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[int32][]string{}
	for _, item := range got {
		p := item.Event.ID.Partition()
		seen[p] = append(seen[p], item.Event.ID.String())
	}
	for p, events := range w.events {
		var want []string
		for _, x := range events {
			if x.Endpoint == endpoint && x.Offset >= from[p] {
				want = append(want, x.ID.String())
			}
		}
		if !slices.Equal(seen[p], want) {
			w.Fatalf("partition %d: %d events, want %d, in their order", p, len(seen[p]), len(want))
		}
	}
}

// A watcher that reads nothing keeps a bounded number of events in memory and misses none.
func TestWatcherBehindMissesNothing(t *testing.T) {
	w := newHarness(t)
	idle, busy := w.watch("ep_a", nil, 0), w.watch("ep_a", nil, 0)
	const n = 4*feed.MaxQueued + 7
	most := 0
	for i := range n {
		w.put("ep_a", 0, fmt.Appendf(nil, "%d", i))
		w.put("ep_b", 0, nil)
		if i%200 == 0 {
			w.flush()
			most = max(most, w.feed.QueuedBytes())
		}
	}
	w.wantAll("ep_a", w.next(busy, n), nil)
	if limit := 2 * feed.MaxQueued * 1024; most > limit || most == 0 {
		t.Errorf("%d bytes waited, at most %d may", most, limit)
	}
	w.wantAll("ep_a", w.next(idle, n), nil)
	is.Equal(t, w.feed.QueuedBytes(), 0, "bytes are queued without a watcher")
	is.Equal(t, w.feed.Tails(), 1, "tails")
	idle.Close()
	busy.Close()
	is.Equal(t, w.feed.Tails(), 0, "tails without watchers")
}

// Large bodies fill the memory limit before a thousand events are queued.
func TestQueuedBytesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("puts 100 MB through a log, with the goroutines of the others")
	}
	w := newHarness(t)
	x := w.watch("ep_a", nil, 0)
	body := make([]byte, feed.MaxBody)
	for range 100 {
		w.put("ep_a", 0, body)
	}
	w.put("ep_a", 0, append(body, 0))
	w.flush()
	last := w.watch("ep_b", nil, 0)
	w.put("ep_b", 0, nil)
	w.next(last, 1) // the tail has read all of them
	if held := w.feed.QueuedBytes(); held > 66<<20 {
		t.Errorf("%d bytes wait", held)
	}
	got := w.next(x, 101)
	w.wantAll("ep_a", got, nil)
	for i, item := range got {
		if item.Event.Truncated() != (i == 100) || len(item.Event.Body) == 0 != (i == 100) {
			t.Fatalf("event %d: size %d, %d bytes", i, item.Event.Size, len(item.Event.Body))
		}
	}
}

// Watchers start, stop and resume from their cursors, on several partitions and a log that is trimmed meanwhile.
func TestEachEventOnce(t *testing.T) {
	seeds := uint64(2)
	if os.Getenv("RELAY_TORTURE") != "" {
		seeds = 50
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newHarness(t)
			rnd := rand.New(rand.NewPCG(seed, 1))
			all := []int32{0, 1, 2}
			x := w.watch("ep_a", nil, all[:2]...)
			var got []feed.Item
			last := x.Cursor()
			total := 0
			for range 60 {
				for range rnd.IntN(80) {
					p := int32(rnd.IntN(2))
					if total > 800 { // the endpoint has moved
						p = 2
					}
					if rnd.IntN(2) == 0 {
						w.put("ep_a", p, nil)
						total++
					} else {
						w.put("ep_b", p, nil)
					}
				}
				w.flush()
				if rnd.IntN(4) == 0 { // the log is trimmed, whether its records were read or not
					p := int32(rnd.IntN(3))
					w.mu.Lock()
					if n := len(w.events[p]); n > 0 {
						w.trimmed[p] = w.events[p][rnd.IntN(n)].Offset
					}
					w.mu.Unlock()
				}
				if total > 800 {
					must.Do(t, x.Follow(t.Context(), 2))
				}
				for range rnd.IntN(4) {
					items := must.Get(x.Next(t.Context(), time.Millisecond))(t)
					items = items[:rnd.IntN(len(items)+1)] // and the client leaves
					if got = append(got, items...); len(items) > 0 {
						last = items[len(items)-1].Cursor
					}
					x.Close()
					cursor := must.Get(feed.ParseCursor("ep_a", last.Encode("ep_a")))(t)
					x = w.watch("ep_a", &cursor, all[:2]...)
				}
			}
			must.Do(t, x.Follow(t.Context(), 2))
			w.wantAll("ep_a", append(got, w.next(x, total-len(got))...), nil)
		})
	}
}

func TestGapsAreReported(t *testing.T) {
	w := newHarness(t)
	w.put("ep_a", 0, nil)
	w.flush()
	now := time.Now()
	f := func(c feed.Cursor, reason string) {
		t.Helper()
		x := w.watch("ep_a", &c, 0)
		items, err := x.Next(t.Context(), time.Second)
		if err != nil || len(items) == 0 || items[0].Gap == nil || items[0].Gap.Reason != reason ||
			!items[0].Gap.From.Equal(c.At) {
			t.Errorf("%+v: %+v, %v", c, items, err)
		}
	}
	f(feed.Cursor{At: now.Add(-31 * day), Next: map[int32]int64{0: 0}}, feed.GapRetention)
	f(feed.Cursor{At: now, Next: map[int32]int64{0: 5}}, feed.GapLog)
	x := w.watch("ep_a", &feed.Cursor{At: now.Add(-29 * day), Next: map[int32]int64{0: 0}}, 0)
	w.wantAll("ep_a", w.next(x, 1), nil)
}

// An endpoint moved to another partition while its client was gone, and that partition was trimmed since.
func TestPartitionMissingInTheCursor(t *testing.T) {
	w := newHarness(t)
	x := w.watch("ep_a", nil, 0)
	begin := x.Cursor()
	for i := range 20 {
		w.put([]string{"ep_a", "ep_b"}[i%2], 1, nil)
	}
	w.flush()
	w.trimmed[1] = 12
	again := w.watch("ep_a", &begin, 0, 1)
	w.wantAll("ep_a", w.next(again, 10), nil)
}

// A cursor that names other partitions makes the watcher read none of them, and keeps its offsets for a partition that
// the endpoint has moved to when this node learns of it.
func TestForgedCursor(t *testing.T) {
	w := newHarness(t)
	for range 3 {
		w.put("ep_a", 1, nil)
	}
	w.flush()
	forged := feed.Cursor{At: time.Now().Add(-time.Hour), Next: map[int32]int64{0: 0, 1: 1, 2: 0}}
	x := w.watch("ep_a", &forged, 0)
	if items, err := x.Next(t.Context(), 10*time.Millisecond); err != nil || len(items) > 0 || w.feed.Tails() != 1 {
		t.Fatalf("%d events from %d partitions, %v", len(items), w.feed.Tails(), err)
	}
	must.Do(t, x.Follow(t.Context(), 1))
	w.wantAll("ep_a", w.next(x, 2), map[int32]int64{1: 1})
}

// An API key has one read at a time for its watchers that are behind; another key does not wait for it.
func TestOneReadForEachKey(t *testing.T) {
	w := newHarness(t)
	w.put("ep_a", 0, nil)
	w.flush()
	begin := feed.Cursor{At: time.Now().Add(-time.Hour), Next: map[int32]int64{0: 0}}
	w.reads = make(chan chan struct{})
	next := func(key string) chan error {
		x, done := w.watch("ep_a", &begin, 0), make(chan error, 1)
		go func() {
			_, err := x.Next(event.WithCaller(t.Context(), key, ""), time.Minute)
			done <- err
		}()
		return done
	}
	first := next("key_a")
	running := <-w.reads
	second := next("key_a")
	other := next("key_b")
	close(<-w.reads) // that of key_b, whichever began first
	is.OK(t, <-other)
	select {
	case <-w.reads:
		t.Error("a key has two reads at a time")
	case <-second:
		t.Error("a read did not wait")
	default:
	}
	close(running)
	close(<-w.reads)
	is.OK(t, errors.Join(<-first, <-second))
}

// TestEventAppendedLate: a watcher that resumes from the store gets an event that the log has appended 90 s after its
// time, while its partition had no leader, behind one that it has seen.
func TestEventAppendedLate(t *testing.T) {
	w := newHarness(t)
	x := w.watch("ep_a", nil, 0)
	w.put("ep_a", 0, nil)
	now := time.Now()
	w.ids = id.NewGenerator(func() time.Time { return now.Add(-90 * time.Second) })
	w.put("ep_a", 0, nil)
	w.flush()
	seen := w.next(x, 2)[0].Cursor
	w.trimmed[0] = 2
	again := w.watch("ep_a", &seen, 0)
	w.wantAll("ep_a", w.next(again, 1), map[int32]int64{0: 1})
}

// An event whose payload was erased is never delivered to a watcher, neither from the log nor from the store.
func TestErasedEventsAreSkipped(t *testing.T) {
	w := newHarness(t)
	x := w.watch("ep_a", nil, 0)
	begin := x.Cursor()
	for range 10 {
		w.put("ep_a", 0, nil)
	}
	w.flush()
	w.erased = map[id.ID]bool{w.events[0][3].ID: true, w.events[0][9].ID: true}
	w.events[0] = slices.DeleteFunc(slices.Clone(w.events[0]), func(x event.AtOffset) bool { return w.erased[x.ID] })
	w.wantAll("ep_a", w.next(x, 8), nil)
	again := w.watch("ep_a", &begin, 0)
	w.wantAll("ep_a", w.next(again, 8), nil)
	w.put("ep_a", 0, nil)
	w.flush()
	if got := w.next(again, 1); got[0].Event.Offset != 10 {
		t.Errorf("after an erased one: offset %d", got[0].Event.Offset)
	}
}

// The use of a tripwire among the events is none, whatever the id in place of the endpoint's.
func TestUsesAreSkipped(t *testing.T) {
	w := newHarness(t)
	x := w.watch("ep_a", nil, 0)
	made := must.Get(w.ids.New(0))(t)
	use := &event.Event{ID: made, Account: account, Endpoint: "ep_a", Source: event.SourceTripwire}
	w.producer.Produce(stream.Events, 0, use.Record(), func(*stream.Record, error) {})
	w.flush()
	w.put("ep_a", 0, nil)
	w.flush()
	w.wantAll("ep_a", w.next(x, 1), nil)
}

// The embedded log does not report its start offset after a restart.
func TestLogWithoutStartOffset(t *testing.T) {
	w := newHarness(t)
	x := w.watch("ep_a", nil, 0)
	begin := x.Cursor()
	for i := range 500 {
		w.put([]string{"ep_a", "ep_b"}[i%2], 0, nil)
	}
	w.flush()
	w.next(x, 250) // the tail has read them, so later watchers do not get them from memory
	w.trimmed[0], w.hidesStart = 400, true
	again := w.watch("ep_a", &begin, 0)
	w.wantAll("ep_a", w.next(again, 250), nil)
	if w.storeCalls == 0 || w.storeCalls > 3 {
		t.Errorf("the store was asked %d times", w.storeCalls)
	}
}

func TestStoppedFeed(t *testing.T) {
	w := newHarness(t)
	x := w.watch("ep_a", nil, 0)
	w.stop()
	if _, err := x.Next(t.Context(), time.Minute); !errors.Is(err, feed.ErrStopped) {
		t.Errorf("a watcher hears %v", err)
	}
	if _, err := w.feed.Watch(t.Context(), account, "ep_b", []int32{1}, nil); !errors.Is(err, feed.ErrStopped) {
		t.Errorf("a new watcher hears %v", err)
	}
	x.Close()
	is.Equal(t, w.feed.Tails(), 0, "tails")
}

func TestCursor(t *testing.T) {
	c := feed.Cursor{At: time.UnixMilli(1_700_000_000_123).UTC(), Next: map[int32]int64{0: 0, 7: 1 << 40, 4095: 3}}
	text := c.Encode("ep_a")
	got := must.Get(feed.ParseCursor("ep_a", text))(t)
	is.Equal(t, fmt.Sprint(got), fmt.Sprint(c), got)
	for _, bad := range []string{
		"", "A", text + "A", text[:len(text)-1], text[1:], "é" + text, feed.Cursor{At: c.At}.Encode("ep_a"),
		feed.Cursor{At: c.At, Next: map[int32]int64{1 << 20: 1}}.Encode("ep_a")} {
		if got, err := feed.ParseCursor("ep_a", bad); !errors.Is(err, feed.ErrCursor) {
			t.Errorf("%q is %v, %v", bad, got, err)
		}
	}
	if _, err := feed.ParseCursor("ep_b", text); !errors.Is(err, feed.ErrCursor) {
		t.Errorf("the cursor of another endpoint: %v", err)
	}
}
