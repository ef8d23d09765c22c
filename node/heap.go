package node

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapGrowth is by how many bytes the heap may grow between two collections; leastGrowth and mostGrowth bound that in
	// percent of the live heap. The live heap is mostly some tens of megabytes, so memory is cheaper than the collector's
	// time: at Go's default of 100 percent it takes about a tenth of the CPU of an event. The embedded log's index grows
	// for a quarter of an hour, so a fixed high percentage would multiply it too.
	heapGrowth = 192 << 20
	// heapPause is the longest pause between two collections, in seconds, that more memory is used for. Collections every
	// 10 s cost nothing measurable, so an idle relay needs no longer pause.
	heapPause   = 10
	leastGrowth = 100
	mostGrowth  = 400
	heapLimit   = 1 << 30 // soft memory limit (GOMEMLIMIT), in bytes
	// Memory that is not live is returned to the system when less than quietRate, in bytes a second, is allocated, and it
	// is more than spareMemory and more than what is live: an import of 100,000 endpoints left 300 MB behind, which no
	// collection of an idle node came for.
	quietRate   = 4 << 20
	spareMemory = 128 << 20
)

// heap makes the garbage collector run less often, depending on the live heap and the rate of allocation.
type heap struct {
	read    func() heapUse
	percent func(percent int) // sets GOGC
	limit   func(bytes int64) // sets GOMEMLIMIT
	release func()            // collects, and returns memory to the system
}

// heapUse is what the runtime reports of the heap, in bytes.
type heapUse struct {
	live      uint64 // in use after the last collection
	allocated uint64 // since the start
	held      uint64 // that the system has given and not got back
}

// newHeap creates what makes the garbage collector run less often.
func newHeap(*Node) (runFunc, error) { return heapFor(os.Getenv).Run, nil }

// heapFor returns a heap that leaves GOGC or GOMEMLIMIT alone if the environment sets it.
func heapFor(getenv func(string) string) *heap {
	h := &heap{read: readHeap, percent: func(int) {}, limit: func(int64) {}, release: debug.FreeOSMemory}
	if getenv("GOGC") == "" {
		h.percent = func(percent int) { debug.SetGCPercent(percent) }
	}
	if getenv("GOMEMLIMIT") == "" {
		h.limit = func(bytes int64) { debug.SetMemoryLimit(bytes) }
	}
	return h
}

// Run adjusts the collector once a second until ctx ends. Setting the percentage stops the world for some microseconds,
// so it is set only when it changes by a tenth.
func (h *heap) Run(ctx context.Context) error {
	h.limit(heapLimit)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	before, rate := h.read(), uint64(0) // bytes per second, moving average
	released := uint64(0)               // what was allocated by then: what is held in fragments cannot be returned
	for last := 0; ; {
		use := h.read()
		rate = (7*rate + use.allocated - before.allocated) / 8
		before = use
		if percent := growth(use.live, rate); 10*max(percent-last, last-percent) >= percent {
			h.percent(percent)
			last = percent
		}
		if rate < quietRate && use.allocated > released+spareMemory && use.held > use.live+max(use.live, spareMemory) {
			h.release()
			released = use.allocated
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// growth returns by how many percent of live (bytes) the heap may grow; rate is in bytes per second.
func growth(live, rate uint64) int {
	return int(min(max(100*min(rate*heapPause, heapGrowth)/max(live, 1), leastGrowth), mostGrowth))
}

func readHeap() heapUse {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(sample)
	n := func(i int) uint64 { return sample[i].Value.Uint64() }
	return heapUse{live: n(0), allocated: n(1), held: n(2) + n(3) + n(4)}
}
