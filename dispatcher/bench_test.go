package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Cost of tracker, partition and lane per event, without decoding and sending.
func BenchmarkTrackerAndLane(b *testing.B) {
	p, _ := testPartition(b, stream.Events, 0)
	lanes := lane.New(lane.Config{MaxInFlight: 100_000, MaxInFlightBytes: 1 << 30, MaxSending: 100_000}, lane.Deps{
		Now: time.Now, Wake: func() {}, Rules: &fixedRules{lane.Eligibility{
			Endpoint: &config.Endpoint{}, Destination: &config.Destination{}, Known: true,
		}},
	})
	var l *lane.Lane
	p.lanePartition.StartWorker = func(started *lane.Lane) { l = started }
	work := &event.Work{Dest: "d"}
	lanes.Admit(&lane.Delivery{Slot: p.beginRecord(0, 1), Work: work, Size: 1000})
	last := lane.Result{Kind: lane.Succeeded, Delivery: l.Next(b.Context(), lane.Result{}).Delivery}
	offset := int64(1)
	b.ReportAllocs()
	for b.Loop() {
		lanes.Admit(&lane.Delivery{Slot: p.beginRecord(offset, 1), Work: work, Size: 1000})
		offset++
		slotOf(last.Delivery).deliveryDone()
		lanes.Release(last.Delivery)
		last.Delivery = l.Next(b.Context(), last).Delivery
	}
	must.Equal(b, p.tracker.commitOffset, offset-1, "commit offset: of %d", offset)
}

// fixedRules return the same result for every delivery.
type fixedRules struct{ lane.Eligibility }

func (*fixedRules) MaxInFlight(*event.Work) int                { return 64 }
func (r *fixedRules) Ordered(*event.Work) bool                 { return true }
func (r *fixedRules) Check(*event.Work, bool) lane.Eligibility { return r.Eligibility }
func (r *fixedRules) AwaitCurrent(context.Context) error       { return nil }
func (r *fixedRules) CheckLatest(context.Context, *event.Work) (lane.Eligibility, error) {
	return r.Eligibility, nil
}

// Completions in reverse order within 4,096 records, as behind a hanging destination.
func BenchmarkTrackerOutOfOrder(b *testing.B) {
	var t tracker
	t.start(0, 1, nil)
	const window = 4096
	next := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		t.add(next, 1)
		if next++; next%window == 0 {
			for o := next - 1; o >= next-window; o-- {
				t.done(o)
			}
		}
	}
}

// A commit while one request hangs that 600,000 others have passed.
func BenchmarkCommitBehindAHungRequest(b *testing.B) {
	p, _ := testPartition(b, stream.Events, 0)
	for o := range int64(600_000) {
		if slot := p.beginRecord(o, 1); o%100_000 != 0 {
			slot.deliveryDone()
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		p.retryCommit()
		if _, gaps, _, _ := p.nextCommit(); gaps != 6 {
			b.Fatal(gaps)
		}
	}
}

func BenchmarkDecodeEvent(b *testing.B) {
	work := benchWork(b)
	record := work.Event.Record()
	b.ReportAllocs()
	for b.Loop() {
		ev := must.Get(event.Decode(record))(b)
		cloneBody(ev)
	}
}

func benchWork(b *testing.B) *event.Work {
	return testWork(b, bytes.Repeat([]byte("x"), 1024),
		event.Field{Name: "Content-Type", Value: "application/json"}, event.Field{Name: "User-Agent", Value: "Provider/1.0"},
		event.Field{Name: "X-Request-Id", Value: "0123456789abcdef"}, event.Field{Name: "Accept", Value: "*/*"})
}

// The whole path on loopback with the log in this process: consume, deliver, outcome, commit. Time per event is wall
// time with 64 requests in flight and includes log and receiver. Run it with a fixed number of events, as
// -benchtime=50000x.
func BenchmarkDispatch(b *testing.B) {
	w := newWorld(b, 1)
	var delivered atomic.Int64
	arrived := make(chan struct{}, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		delivered.Add(1)
		select {
		case arrived <- struct{}{}:
		default:
		}
	}))
	defer srv.Close()
	w.endpoint(srv.URL)
	body := fmt.Sprintf(`{"type":"order.created","data":"%s"}`, bytes.Repeat([]byte("x"), 1000))
	window := make(chan struct{}, 4096) // less than the producer's buffer
	for range b.N {
		window <- struct{}{}
		w.producer.Produce(stream.Events, 0, w.newEvent(body).Record(), func(_ *stream.Record, err error) {
			is.OK(b, err)
			<-window
		})
	}
	must.Do(b, w.producer.Flush(b.Context()))
	b.ReportAllocs()
	b.ResetTimer()
	w.start(testConfig())
	for delivered.Load() < int64(b.N) {
		<-arrived
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	parked := 0
	for _, outcome := range w.outcomes(count(b.N, event.Delivered)) {
		if outcome.Reason == event.LaneFull {
			parked++
		}
	}
	b.ReportMetric(float64(parked)/float64(b.N), "parked/op")
}
