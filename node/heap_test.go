package node

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/test/is"
)

// The heap may grow by 192 MB, within 100 to 400 percent of the live heap, and by less when little is allocated.
func TestGrowthFollowsLiveHeap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live, allocated atomic.Uint64
		var set []int
		var limits []int64
		h := heap{
			read:    func() heapUse { return heapUse{live: live.Load(), allocated: allocated.Load()} },
			percent: func(percent int) { set = append(set, percent) },
			limit:   func(bytes int64) { limits = append(limits, bytes) },
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.Run(ctx) }()
		time.Sleep(time.Second / 2) // between two reads
		for _, mb := range []uint64{10, 48, 96, 100, 128, 192, 900, 20} {
			live.Store(mb << 20)
			allocated.Add(200 << 20)
			time.Sleep(time.Second)
		}
		for range 60 { // little is allocated
			allocated.Add(1 << 20)
			time.Sleep(time.Second)
		}
		stop()
		is.OK(t, <-ended)
		// At first nothing was allocated. From 96 to 100 MB the percentage changes too little to be set. While little is
		// allocated it falls step by step.
		if want := []int{100, 400, 200, 150, 100, 400}; len(set) < len(want) || !slices.Equal(set[:len(want)], want) {
			t.Errorf("set to %v, want %v first", set, want)
		}
		idle := set[min(6, len(set)):]
		if len(idle) == 0 || idle[len(idle)-1] > 110 || !slices.IsSortedFunc(idle, func(a, b int) int { return b - a }) {
			t.Errorf("set to %v while little is allocated", idle)
		}
		is.List(t, limits, []int64{1 << 30}, "limits")
	})
}

// What an import leaves behind goes back to the system once little is allocated, and once only.
func TestSpareMemoryIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards use and released
		use := heapUse{live: 100 << 20, allocated: 200 << 20, held: 240 << 20}
		released := 0
		locked := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
		h := heap{read: func() (now heapUse) { locked(func() { now = use }); return now }, percent: func(int) {},
			limit: func(int64) {}, release: func() { locked(func() { released++ }) }} // all of it is in fragments
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.Run(ctx) }()
		f := func(want int, change func()) {
			t.Helper()
			for range 60 {
				locked(change)
				time.Sleep(time.Second)
			}
			synctest.Wait()
			is.Equal(t, released, want, "returned … times")
		}
		f(1, func() {})
		f(1, func() { use.held, use.allocated = 400<<20, use.allocated+100<<20 })
		f(2, func() { use.allocated += 1 << 20 })
		locked(func() { use.held = 220 << 20 })
		f(2, func() { use.allocated += 3 << 20 })
		stop()
		is.OK(t, <-ended)
	})
}

// readHeap returns the figures of the Go runtime.
func TestReadHeap(t *testing.T) {
	kept := make([]byte, 64<<20)
	runtime.GC()
	before := readHeap()
	if before.live < 64<<20 {
		t.Errorf("%d bytes live", before.live)
	}
	runtime.KeepAlive(kept)
	kept = make([]byte, 64<<20)
	if more := readHeap().allocated - before.allocated; more < 64<<20 || more > 1<<30 {
		t.Errorf("%d bytes allocated", more)
	}
	runtime.KeepAlive(kept)
}

// GOGC and GOMEMLIMIT in the environment are not overwritten.
func TestHeapRespectsEnvironment(t *testing.T) {
	f := func(name, value string, wantPercent, wantLimit bool) {
		t.Helper()
		// Set values that heapFor does not use, so that a change shows.
		percent, limit := debug.SetGCPercent(77), debug.SetMemoryLimit(5<<30)
		defer func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) }()
		h := heapFor(func(variable string) string {
			if variable == name {
				return value
			}
			return ""
		})
		h.percent(300)
		h.limit(heapLimit)
		is.Equal(t, debug.SetGCPercent(77) == 300, wantPercent, "%s=%s: growth is set", name, value)
		is.Equal(t, debug.SetMemoryLimit(-1) == heapLimit, wantLimit, "%s=%s: limit is set", name, value)
	}
	f("", "", true, true)
	f("GOGC", "100", false, true)
	f("GOMEMLIMIT", "2GiB", true, false)
}
