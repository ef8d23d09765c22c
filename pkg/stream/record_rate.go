package stream

import (
	"sync/atomic"
	"time"
)

const (
	// rateSpan is how long records are counted before the tempo is judged.
	rateSpan = 10 * time.Millisecond
	// highRate is the tempo, in records a second, from which on records had better gather: two or more come
	// in each unorderedLinger.
	highRate = 2000
)

// A tempo tells whether records come fast. Its methods may be called by many goroutines; a record that is counted
// into a neighbouring span does no harm.
type recordRate struct {
	spanStart atomic.Int64 // of the span, in nanoseconds of an arbitrary clock
	count     atomic.Int64 // in the span
	high      atomic.Bool  // as the last span was
}

// note counts a record that comes at now, of the same clock in every call, and reports whether they come fast.
func (t *recordRate) countRecord(now time.Duration) bool {
	began := t.spanStart.Load()
	if span := now - time.Duration(began); span >= rateSpan && t.spanStart.CompareAndSwap(began, int64(now)) {
		t.high.Store(float64(t.count.Swap(0)) >= highRate*span.Seconds())
	}
	t.count.Add(1)
	return t.high.Load()
}
