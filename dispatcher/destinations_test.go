package dispatcher

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/prometheus/client_golang/prometheus"
)

// destinationRig is the collector with a clock of its own.
type destinationRig struct {
	*destinations
	t     *testing.T
	clock time.Time
}

func newDestinationRig(t *testing.T) *destinationRig {
	r := &destinationRig{t: t, clock: time.Unix(1_700_000_000, 0)}
	r.destinations = newDestinations(func() time.Time { return r.clock })
	return r
}

func (r *destinationRig) send(destination string, ok bool, n int) {
	for range n {
		r.observe(destination, ok, 100*time.Millisecond)
	}
}

// scrape returns requests and failures by destination.
func (r *destinationRig) scrape() (attempts, failures map[string]float64) {
	r.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.destinations)
	families := must.Get(registry.Gather())(r.t)
	attempts, failures = map[string]float64{}, map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := m.GetLabel()[0].GetValue()
			if s := m.GetSummary(); s != nil {
				attempts[name] = float64(s.GetSampleCount())
			} else {
				failures[name] = m.GetCounter().GetValue()
			}
		}
	}
	return attempts, failures
}

// With few destinations each has its series from its first request on.
func TestFewDestinationsHaveTheirOwnSeries(t *testing.T) {
	r := newDestinationRig(t)
	r.send("dst_a", true, 3)
	r.send("dst_b", false, 2)
	attempts, failures := r.scrape()
	if len(attempts) != 3 || attempts["dst_a"] != 3 || attempts["dst_b"] != 2 || attempts["other"] != 0 ||
		failures["dst_a"] != 0 || failures["dst_b"] != 2 {
		t.Errorf("requests %v, failures %v", attempts, failures)
	}
}

// With 300,000 destinations there are 101 series, among them the busiest and the worst; all others are counted once,
// as other, and memory is bounded.
func TestMetricsPerDestinationAreBounded(t *testing.T) {
	r := newDestinationRig(t)
	sent := 0.0
	for minute := range 3 {
		for i := range 100_000 {
			r.send(fmt.Sprintf("dst_%d_%d", minute, i), true, 1)
		}
		for i := range topDestinations {
			r.send(fmt.Sprintf("dst_0_%d", i), true, 40)
			r.send(fmt.Sprintf("dst_0_%d", 500+i), false, 20)
		}
		sent += 100_000 + topDestinations*60
		if n := len(r.ranked); n > maxRanked {
			t.Errorf("%d destinations are ranked", n)
		}
		r.clock = r.clock.Add(rankEvery)
	}
	before, _ := r.scrape()
	for i := range topDestinations {
		r.send(fmt.Sprintf("dst_0_%d", i), true, 7)
		r.send(fmt.Sprintf("dst_0_%d", 500+i), false, 5)
	}
	r.send("dst_none", true, 9)
	attempts, failures := r.scrape()
	if len(attempts) != 2*topDestinations+1 || len(failures) != len(attempts) {
		t.Fatalf("%d destinations have requests, %d have failures", len(attempts), len(failures))
	}
	for i := range topDestinations {
		busy, worst := fmt.Sprintf("dst_0_%d", i), fmt.Sprintf("dst_0_%d", 500+i)
		if attempts[busy]-before[busy] != 7 || attempts[worst]-before[worst] != 5 || failures[worst] == 0 {
			t.Fatalf("%s: %v requests; %s: %v and %v failures", busy, attempts[busy], worst, attempts[worst], failures[worst])
		}
	}
	is.Equal(t, attempts["other"]-before["other"], 9, "other has grown by")
	total := 0.0
	for _, n := range attempts {
		total += n
	}
	if sent += topDestinations*12 + 9; total > sent {
		t.Errorf("the series count %v requests, and %v were sent", total, sent)
	}
}

// Who sends nothing any more loses the place to who does; its series does not come back with an old value.
func TestDestinationsLeaveTheTop(t *testing.T) {
	r := newDestinationRig(t)
	for i := range 2 * topDestinations {
		r.send(fmt.Sprintf("dst_old_%d", i), i%2 == 0, 1000)
	}
	for range 12 {
		r.clock = r.clock.Add(rankEvery)
		for i := range 2 * topDestinations {
			r.send(fmt.Sprintf("dst_new_%d", i), i%2 == 0, 10)
		}
	}
	r.clock = r.clock.Add(rankEvery)
	r.send("dst_old_0", true, 1)
	attempts, _ := r.scrape()
	for name, n := range attempts {
		if len(name) > 7 && name[:7] == "dst_old" && n > 1 {
			t.Errorf("%s has %v requests", name, n)
		}
	}
	if attempts["dst_new_0"] == 0 || attempts["dst_new_1"] == 0 {
		t.Errorf("the new destinations are missing in %v", attempts)
	}
}

// The metrics live longer than an event, all texts of which share the memory of its headers.
func TestMetricsKeepNoTextOfAnEvent(t *testing.T) {
	r := newDestinationRig(t)
	text := "dst_1 and all headers"
	r.send(text[:5], false, 1)
	for _, name := range append(slices.Collect(maps.Keys(r.ranked)), slices.Collect(maps.Keys(r.exported))...) {
		if name != "dst_1" || unsafe.StringData(name) == unsafe.StringData(text) {
			t.Errorf("%s keeps the text of an event", name)
		}
	}
}
