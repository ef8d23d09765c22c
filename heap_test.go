package main

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
		var live atomic.Uint64
		var set []int
		var limits []int64
		h := heap{
			live:    live.Load,
			percent: func(percent int) { set = append(set, percent) },
			limit:   func(bytes int64) { limits = append(limits, bytes) },
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.Run(ctx) }()
		time.Sleep(time.Second / 2) // between two looks
		for _, mb := range []uint64{10, 48, 96, 100, 128, 192, 900, 20} {
			live.Store(mb << 20)
			time.Sleep(time.Second)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		// Nothing lives before the first collection; 100 MB are not far from 96.
		if want := []int{400, 200, 150, 100, 400}; !slices.Equal(set, want) {
			t.Errorf("set to %v, want %v", set, want)
		}
		if !slices.Equal(limits, []int64{1 << 30}) {
			t.Errorf("limits %v", limits)
		}
	})
}

func TestHeapIsReadOfTheRuntime(t *testing.T) {
	kept := make([]byte, 64<<20)
	runtime.GC()
	if live := heapLive(); live < 64<<20 {
		t.Errorf("%d bytes live", live)
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
