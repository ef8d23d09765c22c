package dispatcher

import (
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
)

// TestApacheKafka checks what the dispatcher expects of a real broker: metadata that is returned with the offset,
// append times in the tiers, and static members, one of which restarts under load without moving a partition of the
// other.
func TestApacheKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an Apache Kafka")
	}
	const partitions, events = 4, 400
	w := newWorldOn(t, stream.Config{Brokers: []string{kit.Kafka(t).Addr}, Prefix: id.Random("test.") + "."},
		loopback(t), partitions)
	seen := map[string]int{}
	s := &sink{}
	s.answer = func(_ int, r received) int { // each fifth event fails twice
		s.mu.Lock()
		defer s.mu.Unlock()
		n := seen[string(r.body)]
		seen[string(r.body)]++
		if len(r.body)%5 == 0 && n < 2 {
			return 503
		}
		return 200
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	w.endpoint(srv.URL)

	member := func(name string, changes *atomic.Int64) func() {
		cfg := testConfig()
		cfg.InstanceID = name
		_, stop := w.start(cfg, func(d *Deps) { d.OnOwned = func([]int32) { changes.Add(1) } })
		return stop
	}
	var changesA, changesB atomic.Int64
	stopA := member("node-a", &changesA)
	member("node-b", &changesB)
	var settled int64
	for i := range events {
		w.accept(w.spread(int32(i%partitions), fmt.Sprintf("%d %*s", i, i%5, "")))
		time.Sleep(10 * time.Millisecond)
		switch i {
		case events / 2:
			settled = changesB.Load()
			stopA()
			stopA = member("node-a", &changesA)
		}
	}
	last := map[id.ID]*event.Outcome{}
	for p := range int32(partitions) {
		for _, outcome := range w.outcomesOf(p, count(events/partitions, event.Delivered)) {
			if before := last[outcome.Event]; before != nil && outcome.Attempt.StartedAt.Before(before.NextAt) {
				t.Errorf("an attempt was %v early", before.NextAt.Sub(outcome.Attempt.StartedAt))
			}
			last[outcome.Event] = outcome
		}
	}
	if len(last) != events || len(seen) != events {
		t.Errorf("%d of %d events arrived, %d have an outcome", len(seen), events, len(last))
	}
	if n := changesB.Load(); n != settled {
		t.Errorf("the restart of one member changed the other's assignment %d times", n-settled)
	}
	stopA()
	w.shut()
	for p := range int32(partitions) {
		if n := w.committed(stream.Partition{Topic: stream.Events, Index: p}); n != events/partitions {
			t.Errorf("partition %d: committed %d of %d", p, n, events/partitions)
		}
	}
}
