package node

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapGrowth is the most that the heap may grow by between two collections, in bytes, and leastGrowth and mostGrowth
	// are bounds of that in percent of what lives. Mostly some tens of megabytes do, so memory is cheaper than the time of
	// the collector, which with its own 100 percent takes about a tenth of the CPU of an event. The embedded log keeps an
	// index in memory that grows for a quarter of an hour, and five times that would be most of what a relay takes.
	heapGrowth = 192 << 20
	// A relay that has little to do needs no more than what it allocates in heapPause, in seconds: collections that are so
	// seldom cost nothing that shows.
	heapPause   = 10
	leastGrowth = 100
	mostGrowth  = 400
	heapLimit   = 1 << 30 // bytes
)

// heap lets the garbage collector run less often than it would, by what lives and how fast more is allocated.
type heap struct {
	read    func() heapUse
	percent func(percent int) // of what lives, by which the heap grows until the next one
	limit   func(bytes int64) // where they come as often as they must
}

// heapUse is in bytes.
type heapUse struct {
	live      uint64 // in use after the last collection
	allocated uint64 // since the start
}

// newHeap leaves alone what GOGC and GOMEMLIMIT in the environment say.
func newHeap(getenv func(string) string) *heap {
	h := &heap{read: readHeap, percent: func(int) {}, limit: func(int64) {}}
	if getenv("GOGC") == "" {
		h.percent = func(percent int) { debug.SetGCPercent(percent) }
	}
	if getenv("GOMEMLIMIT") == "" {
		h.limit = func(bytes int64) { debug.SetMemoryLimit(bytes) }
	}
	return h
}

// Run follows what lives and what is allocated until ctx ends. Setting it stops everything for some microseconds, so
// that is done when it would change by a tenth.
func (h *heap) Run(ctx context.Context) error {
	h.limit(heapLimit)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	before, rate := h.read(), uint64(0) // bytes a second, in the mean of the last ones
	for last := 0; ; {
		use := h.read()
		rate = (7*rate + use.allocated - before.allocated) / 8
		before = use
		if percent := growth(use.live, rate); 10*max(percent-last, last-percent) >= percent {
			h.percent(percent)
			last = percent
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// growth is in percent of live, which is in bytes; rate is in bytes a second.
func growth(live, rate uint64) int {
	return int(min(max(100*min(rate*heapPause, heapGrowth)/max(live, 1), leastGrowth), mostGrowth))
}

func readHeap() heapUse {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return heapUse{live: sample[0].Value.Uint64(), allocated: sample[1].Value.Uint64()}
}
