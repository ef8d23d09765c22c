package alert

import "time"

// window counts successes and failures over a sliding span of time.
type window struct {
	span   time.Duration
	from   int64 // number of the oldest bucket
	bucket [windowBuckets]struct{ ok, failed uint32 }
}

// windowBuckets is the number of buckets of a window: its length is exact to 5 %.
const windowBuckets = 20

func (w *window) bucketOf(t time.Time) int64 { return t.UnixNano() / int64(w.span/windowBuckets) }

// add counts one result at t. A result that is older than the window, because clocks differ, is ignored.
func (w *window) add(t time.Time, ok bool) {
	at := w.bucketOf(t)
	w.advance(at)
	if at < w.from {
		return
	}
	c := &w.bucket[at%windowBuckets]
	if ok {
		c.ok++
	} else {
		c.failed++
	}
}

// advance clears the buckets that are too old when the current one has the number at.
func (w *window) advance(at int64) {
	from := at - windowBuckets + 1
	if from <= w.from {
		return
	}
	for i := max(w.from, from-windowBuckets); i < from; i++ {
		w.bucket[i%windowBuckets] = struct{ ok, failed uint32 }{}
	}
	w.from = from
}

// sum returns the counts of the window that ends at t.
func (w *window) sum(t time.Time) (ok, failed int) {
	w.advance(w.bucketOf(t))
	for _, c := range w.bucket {
		ok += int(c.ok)
		failed += int(c.failed)
	}
	return ok, failed
}

// resize clears the window if its span changes.
func (w *window) resize(span time.Duration) {
	if w.span != span {
		*w = window{span: span}
	}
}
