package stream

import (
	"sync/atomic"
	"time"
)

const (
	// tempoSpan is how long records are counted before the tempo is judged.
	tempoSpan = 10 * time.Millisecond
	// busyRate is the tempo, in records a second, from which on records had better gather: two or more come
	// in each busyLinger.
	busyRate = 2000
)

// A tempo tells whether records come fast. Its methods may be called by many goroutines; a record that is counted
// into a neighbouring span does no harm.
type tempo struct {
	began atomic.Int64 // of the span, in nanoseconds of an arbitrary clock
	count atomic.Int64 // in the span
	busy  atomic.Bool  // as the last span was
}

// note counts a record that comes at now, of the same clock in every call, and reports whether they come fast.
func (t *tempo) note(now time.Duration) bool {
	began := t.began.Load()
	if span := now - time.Duration(began); span >= tempoSpan && t.began.CompareAndSwap(began, int64(now)) {
		t.busy.Store(float64(t.count.Swap(0)) >= busyRate*span.Seconds())
	}
	t.count.Add(1)
	return t.busy.Load()
}
