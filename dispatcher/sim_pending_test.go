package dispatcher

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// 40,000 retries of one partition wait in the log, a million with RELAY_TORTURE: the memory of the node does not grow
// with their number. It is measured while all wait and while they are sent, 500 a second. None is early, none is left.
func TestAMillionPendingInLittleMemory(t *testing.T) {
	pending, most := 40_000, 25<<20
	if testing.Short() {
		pending = 20_000
	}
	if full() {
		pending, most = 1_000_000, 50<<20
	}
	const (
		gap   = 2 * time.Millisecond
		until = 30 * time.Minute // when the first is due
		tier  = "retry.1h"
	)
	endpoint := simEndpoint("ep_1", "dst_1")
	endpoint.Destinations[0].MaxInFlight = 200
	simulate(t, simConfig(), []*config.Endpoint{endpoint}, func(s *sim) {
		start := time.Now().Add(until)
		due := func(i int) time.Time { return start.Add(time.Duration(i) * gap) }
		var delivered, early atomic.Int64
		s.answer = func(_ string, now time.Time) (time.Duration, int) {
			if n := int(delivered.Add(1)); now.Before(due(n - 1)) {
				early.Add(1)
			}
			return 50 * time.Millisecond, 200
		}
		base := heapInUse()
		s.deepen(tier, pending, func(i int) *stream.Record {
			eventID, err := s.ids.New(0)
			is.OK(t, err)
			work := &event.Work{
				Event: &event.Event{
					ID: eventID, Account: endpoint.Account, Endpoint: endpoint.ID, Source: event.SourceProvider,
					Verdict: event.VerdictVerified,
					Type:    "order.created", Method: http.MethodPost, Body: make([]byte, 1000),
				},
				Dest: "dst_1", Trigger: event.TriggerRetry, Attempt: 2, Due: due(i),
			}
			record, err := work.Record()
			if err != nil {
				t.Error(err)
				return nil
			}
			record.Timestamp = work.Due.Add(-time.Hour)
			return record
		})
		time.Sleep(until / 2)
		held := heapInUse() - base
		is.Equal(t, delivered.Load(), 0, "were delivered long before they are due")
		for i := range 10 {
			time.Sleep(time.Until(due(pending * (i + 1) / 10)))
			held = max(held, heapInUse()-base)
			s.memory("while they fire")
		}
		time.Sleep(time.Minute)
		if n := delivered.Load(); n != int64(pending) || early.Load() > 0 || s.open() != 0 {
			t.Errorf("%d of %d were delivered, %d early; %d records are not committed", n, pending, early.Load(), s.open())
		}
		t.Logf("%d pending: at most %.1f MB held", pending, float64(held)/(1<<20))
		if held > most {
			t.Errorf("%d bytes are held of %d pending, at most %d may be", held, pending, most)
		}
	})
}

// heapInUse is how many bytes of the heap are in use.
func heapInUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
