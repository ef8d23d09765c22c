package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapGrowth is what the heap may grow by between two collections, in bytes, and leastGrowth and mostGrowth are bounds of that in
	// percent of what lives. Mostly some tens of megabytes do, so memory is cheaper than the time of the collector, which
	// with its own 100 percent takes about a tenth of the CPU of an event. The embedded log keeps an index in memory that grows for a
	// quarter of an hour, and five times that would be most of what a relay takes.
	heapGrowth  = 192 << 20
	leastGrowth = 100
	mostGrowth  = 400
	heapLimit   = 1 << 30 // bytes
)

// heap lets the garbage collector run less often than it would, by what lives.
type heap struct {
	live    func() uint64     // bytes that were in use after the last collection
	percent func(percent int) // of what lives, by which the heap grows until the next one
	limit   func(bytes int64) // where they come as often as they must
}

// newHeap leaves alone what GOGC and GOMEMLIMIT in the environment say.
func newHeap(getenv func(string) string) *heap {
	h := &heap{live: heapLive, percent: func(int) {}, limit: func(int64) {}}
	if getenv("GOGC") == "" {
		h.percent = func(percent int) { debug.SetGCPercent(percent) }
	}
	if getenv("GOMEMLIMIT") == "" {
		h.limit = func(bytes int64) { debug.SetMemoryLimit(bytes) }
	}
	return h
}

// Run follows what lives until ctx ends. Setting it stops everything for some microseconds, so that is done when it
// would change by a tenth.
func (h *heap) Run(ctx context.Context) error {
	h.limit(heapLimit)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for last := 0; ; {
		if percent := growth(h.live()); 10*max(percent-last, last-percent) >= percent {
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

// growth is in percent of live, which is in bytes.
func growth(live uint64) int {
	return int(min(max(100*heapGrowth/max(live, 1), leastGrowth), mostGrowth))
}

func heapLive() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
