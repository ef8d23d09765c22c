package node

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestHeapGrowsByWhatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live, allocated atomic.Uint64
		var set []int
		var limits []int64
		h := heap{
			read:    func() heapUse { return heapUse{live.Load(), allocated.Load()} },
			percent: func(percent int) { set = append(set, percent) },
			limit:   func(bytes int64) { limits = append(limits, bytes) },
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.Run(ctx) }()
		time.Sleep(time.Second / 2) // between two looks
		for _, mb := range []uint64{10, 48, 96, 100, 128, 192, 900, 20} {
			live.Store(mb << 20)
			allocated.Add(200 << 20)
			time.Sleep(time.Second)
		}
		for range 60 { // it has little to do
			allocated.Add(1 << 20)
			time.Sleep(time.Second)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		// Nothing was allocated at first; 100 MB are not far from 96. When there is little to do it is made less step by
		// step.
		if want := []int{100, 400, 200, 150, 100, 400}; len(set) < len(want) || !slices.Equal(set[:len(want)], want) {
			t.Errorf("set to %v, want %v first", set, want)
		}
		idle := set[min(6, len(set)):]
		if len(idle) == 0 || idle[len(idle)-1] > 110 || !slices.IsSortedFunc(idle, func(a, b int) int { return b - a }) {
			t.Errorf("set to %v with little to do", idle)
		}
		if !slices.Equal(limits, []int64{1 << 30}) {
			t.Errorf("limits %v", limits)
		}
	})
}

func TestHeapIsReadOfTheRuntime(t *testing.T) {
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

// What the environment says about the collector stays.
func TestHeapLeavesTheEnvironment(t *testing.T) {
	f := func(name, value string, wantPercent, wantLimit bool) {
		t.Helper()
		// Values of their own first, so that it is seen whether they change.
		percent, limit := debug.SetGCPercent(77), debug.SetMemoryLimit(5<<30)
		defer func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) }()
		h := newHeap(func(asked string) string {
			if asked == name {
				return value
			}
			return ""
		})
		h.percent(300)
		h.limit(heapLimit)
		if got := debug.SetGCPercent(77) == 300; got != wantPercent {
			t.Errorf("%s=%s: growth is set: %v", name, value, got)
		}
		if got := debug.SetMemoryLimit(-1) == heapLimit; got != wantLimit {
			t.Errorf("%s=%s: limit is set: %v", name, value, got)
		}
	}
	f("", "", true, true)
	f("GOGC", "100", false, true)
	f("GOMEMLIMIT", "2GiB", true, false)
}
