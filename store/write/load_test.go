package write_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// outcomeProducer produces outcomes of events of the last days, in random partitions.
type outcomeProducer struct {
	*bench
	rnd        *rand.Rand
	days       []*id.Generator
	partitions int32
}

func newOutcomeProducer(b *bench, days int, partitions int32) *outcomeProducer {
	a := &outcomeProducer{bench: b, rnd: rand.New(rand.NewPCG(1, 1)), partitions: partitions}
	for day := range days {
		clock := time.Now().AddDate(0, 0, -day)
		a.days = append(a.days, id.NewGenerator(func() time.Time { clock = clock.Add(time.Millisecond); return clock }))
	}
	return a
}

func (a *outcomeProducer) produce(n int) {
	a.Helper()
	for range n {
		d := must.Get(a.days[a.rnd.IntN(len(a.days))].New(a.rnd.Int32N(a.partitions)))(a)
		o := a.Outcome(&event.Event{ID: d, Account: storetest.Account, Endpoint: "ep_1", Type: "order.created"}, "dst_a",
			event.Delivered)
		a.Producer.Produce(stream.Outcomes, d.Partition(), o.Record(), func(_ *stream.Record, err error) {
			if err != nil {
				a.Error(err)
			}
		})
	}
	must.Do(a, a.Producer.Flush(a.Context()))
}

// mostParts returns the number of parts in the partition that has most of them.
func (b *bench) mostParts() uint64 {
	b.Helper()
	return b.QuerySum("SELECT max(n) FROM (SELECT count() AS n FROM system.parts WHERE database = currentDatabase() AND " +
		"active GROUP BY table, partition_id)")
}

// flushCount returns the number of flushes so far.
func flushCount(t *testing.T, reg *prometheus.Registry) int {
	t.Helper()
	families := must.Get(reg.Gather())(t)
	for _, f := range families {
		if f.GetName() == "relay_store_flush_seconds" {
			return int(f.GetMetric()[0].GetHistogram().GetSampleCount())
		}
	}
	t.Fatal("no metric relay_store_flush_seconds")
	return 0
}

// TestPartsStayFlat stores outcomes of events of 30 days from 64 partitions: each flush inserts once per table, and the
// number of parts does not keep growing. The short form has a reader that causes one flush after the other, many times
// as often as a batch of so many days is flushed by itself; the long form has 1,000 outcomes a second for an hour.
func TestPartsStayFlat(t *testing.T) {
	const days, wide, perFlush = 30, 64, 500
	b := newBenchWithPartitions(t, wide)
	a, g, reg := newOutcomeProducer(b, days, wide), storetest.NewFaultProxy(b.Bench), prometheus.NewRegistry()
	cfg := write.WriterConfig{FlushRows: 2 * perFlush, ThrottleParts: 1_000_000}
	hour := storetest.Rounds(0, 0, 1) == 1
	if hour {
		cfg = write.WriterConfig{}
	}
	inserts := g.CountInserts("deliveries")
	w, _ := b.WriterWithMetrics(g.WriterConfig(cfg), reg)
	sent, most, half := 0, uint64(0), uint64(0)
	samplePartCount := func() {
		parts := b.mostParts()
		most = max(most, parts)
	}
	if hour {
		for began := time.Now(); time.Since(began) < time.Hour; {
			second := time.Now()
			a.produce(1_000)
			if sent += 1_000; sent%10_000 == 0 {
				samplePartCount()
			}
			if sent%300_000 == 0 {
				t.Logf("%v: %d outcomes, %d flushes, %d parts in a partition now, %d at most", time.Since(began).Round(time.Second),
					sent, flushCount(t, reg), b.mostParts(), most)
			}
			if half == 0 && time.Since(began) > time.Hour/2 {
				half, most = most, 0
			}
			_ = wait.For(t.Context(), time.Second-time.Since(second))
		}
	} else {
		r := b.Reader(w)
		for range storetest.Rounds(10, 14, 0) { // the budget allows a reader 25 flushes of so many days
			a.produce(perFlush)
			sent += perFlush
			b.WaitCaughtUp(r)
			samplePartCount()
		}
	}
	b.WaitCaughtUp(b.Reader(w))
	n := flushCount(t, reg)
	is.Equal(t, inserts(), n, "inserts into deliveries by %d flushes", n)
	is.Equal(t, b.QuerySum("SELECT uniqExact(id) FROM deliveries"), uint64(sent), "of %d deliveries are stored", sent)
	if hour && (most > 2*half || n > 3600/5+10) {
		t.Errorf("%d flushes; %d parts in a partition in the second half, %d in the first", n, most, half)
	}
	storetest.Eventually(t, func() bool { return b.mostParts() <= 8 }) // merges go on for a while after the last insert
	t.Logf("%d outcomes of %d days out of %d partitions, %d flushes: %d parts in a partition at most (%d in the first "+
		"half), %d at the end", sent, days, wide, n, most, half, b.mostParts())
}

// TestWriterCatchesUp makes ClickHouse available again after events and outcomes have gathered in Kafka. While more of
// them come, the writer catches up at least twice as fast as they come, lists are answered, and a new event is found by
// its id. The rate is computed from CPU time, so that a busy machine does not decide the result.
func TestWriterCatchesUp(t *testing.T) {
	const live = 1_000 // events a second
	n := live * storetest.Rounds(5, 10, 3600)
	b := newBench(t)
	p, reg := storetest.NewProxy(t), prometheus.NewRegistry()
	p.Cut()
	w, _ := b.WriterWithMetrics(write.WriterConfig{URL: p.URL(b.Bench)}, reg)
	r := b.ReaderWith(cluster.Config{URL: p.URL(b.Bench), RetentionDays: 30, FenceWait: 50 * time.Millisecond}, w)
	whole := b.Reader(w)
	send := func(n int) (last *event.Event) {
		for i := range n {
			last = b.Event(i, func(e *event.Event) { e.Body = make([]byte, 1000) })
			for topic, record := range map[string]*stream.Record{
				stream.Events: last.Record(), stream.Outcomes: b.Outcome(last, "dst_a", event.Delivered).Record()} {
				b.Producer.Produce(topic, last.ID.Partition(), record, func(_ *stream.Record, err error) {
					if err != nil {
						b.Error(err)
					}
				})
			}
		}
		must.Do(t, b.Producer.Flush(t.Context()))
		return last
	}
	for sent := 0; sent < n; sent += live {
		send(live)
	}
	began, spent := time.Now(), kit.CPUTime(t)
	p.Restore()
	ctx, done := context.WithCancel(t.Context())
	var caught, worst time.Duration
	var wg sync.WaitGroup
	wg.Go(func() {
		defer done()
		storetest.EventuallyWithin(t, 10*time.Minute, func() bool {
			return b.QuerySum("SELECT uniqExact(id) FROM deliveries") >= uint64(n)
		})
		caught, spent = time.Since(began), kit.CPUTime(t)-spent
	})
	reads, more := 0, 0
	for ctx.Err() == nil {
		e := send(live / 20)
		more += live / 20
		read := time.Now()
		if d, err := r.Event(t.Context(), storetest.Account, e.ID); err != nil || d.Event.ID != e.ID {
			t.Errorf("cannot read the newest event: %v", err)
		}
		if storetest.Metric(t, reg, "relay_store_unavailable_shards") == 0 {
			if _, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 10}); err != nil {
				t.Errorf("list: %v", err)
			}
			reads++
		}
		worst = max(worst, time.Since(read))
		_ = wait.For(ctx, time.Second/20-time.Since(read))
	}
	wg.Wait()
	b.WaitCaughtUp(whole)
	if got := b.QuerySum("SELECT uniqExact(id) FROM events"); got != uint64(n+more) {
		t.Errorf("%d of %d events are stored", got, n+more)
	}
	perEvent := spent / time.Duration(n)
	factor := float64(time.Second) / float64(perEvent) / live
	t.Logf("%d events and outcomes in %v, %.1f times %d a second; %v of CPU each, which is %.1f times as fast as one "+
		"core must be; %d lists meanwhile, the longest read %v",
		n, caught, float64(n)/caught.Seconds()/live, live, perEvent, factor, reads, worst)
	if factor < 2 {
		t.Errorf("one core stores events %.1f times as fast as they come (%d a second), want 2 at least", factor, live)
	}
}
