package stream

import (
	"sync/atomic"
	"time"
)

const (
	// rateSpan is how long records are counted before the rate is computed.
	rateSpan = 10 * time.Millisecond
	// highRate is the number of records a second from which on they share requests: two or more arrive in each
	// unorderedLinger.
	highRate = 2000
)

// recordRate reports whether records arrive fast. Its methods may be called concurrently; a record that is counted into
// a neighbouring span does no harm.
type recordRate struct {
	spanStart atomic.Int64 // in nanoseconds of an arbitrary clock
	count     atomic.Int64 // in the span
	high      atomic.Bool  // in the last span
}

// countRecord counts a record that arrives at now, a time of the same clock in every call, and reports whether records
// arrive fast.
func (t *recordRate) countRecord(now time.Duration) bool {
	began := t.spanStart.Load()
	if span := now - time.Duration(began); span >= rateSpan && t.spanStart.CompareAndSwap(began, int64(now)) {
		t.high.Store(float64(t.count.Swap(0)) >= highRate*span.Seconds())
	}
	t.count.Add(1)
	return t.high.Load()
}
