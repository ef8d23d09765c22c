package ledger_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/features/ledger"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/streamtest"
)

// BenchmarkAudit measures the CPU time of an audit per event with one delivery. It includes the log, which runs in
// this process: the log reads, sends and answers, the audit fetches and decodes.
//
// Measured: go test ./ledger -run ^$ -bench Audit -benchtime 5x
func BenchmarkAudit(b *testing.B) {
	const events = 20_000
	_, c := streamtest.Broker(b, 1)
	fill(b, c, events)
	b.ReportAllocs()
	before := kit.CPUTime(b)
	for b.Loop() {
		r, err := ledger.Audit(b.Context(), c, ledger.Span{})
		if err != nil || r.Accepted != events || r.Delivered != events {
			b.Fatal(r.Counts, err)
		}
	}
	b.ReportMetric(float64((kit.CPUTime(b)-before).Nanoseconds())/1000/events/float64(b.N), "µs-cpu/event")
}

// fill writes delivered events of a usual size into the log.
func fill(b *testing.B, c stream.Config, n int) {
	p := must.Get(stream.NewProducer(c, "bench"))(b)
	defer p.Close()
	ids := id.NewGenerator(time.Now)
	var wg sync.WaitGroup
	put := func(topic string, r *stream.Record) {
		wg.Add(1)
		p.Produce(topic, 0, r, func(_ *stream.Record, err error) {
			defer wg.Done()
			is.OK(b, err)
		})
	}
	headers := make([]event.Field, 14)
	for i := range headers {
		headers[i] = event.Field{Name: fmt.Sprintf("X-Header-%d", i), Value: "some value of a usual length"}
	}
	body := []byte(strings.Repeat("x", 1000))
	for i := range n {
		eventID := must.Get(ids.New(0))(b)
		attempt := must.Get(ids.New(0))(b)
		e := &event.Event{
			ID: eventID, Account: "acc_1", Endpoint: "ep_01jd0000000000000000000000", Source: event.SourceProvider,
			Verdict: event.VerdictVerified,
			Type:    "order.paid", Method: "POST", Dests: []string{"dst_01jd0000000000000000000000"}, Header: headers,
			Body: body,
		}
		put(stream.Events, e.Record())
		put(stream.Outcomes, (&event.Outcome{
			Event: e.ID, Account: e.Account, Endpoint: e.Endpoint, Dest: e.Dests[0], Type: e.Type, Status: event.Delivered,
			Code: 200, At: time.Now(),
			Attempt: &event.Attempt{ID: attempt, StartedAt: time.Now(), Trigger: event.TriggerInitial, OK: true, Code: 200,
				URL: "https://example.com/hook", Method: "POST", RequestHeader: event.LinesOf(headers)},
		}).Record())
		if i%1000 == 999 {
			wg.Wait()
		}
	}
	wg.Wait()
}
