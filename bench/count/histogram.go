package count

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram has 128 buckets for each power of two of microseconds, so a quantile is at most 0.8 % too
// low, up to 2.4 hours; what took longer counts as that.
const (
	subBits    = 7
	maxExp     = 33
	maxMicros  = 1<<maxExp - 1
	numBuckets = (maxExp - subBits + 1) << subBits
)

// Histogram counts durations. Its methods may be called at the same time.
type Histogram struct {
	counts [numBuckets]atomic.Int64
	max    atomic.Int64 // microseconds
}

// Add counts one duration; a negative one, of clocks that disagree, counts as 0.
func (h *Histogram) Add(d time.Duration) {
	us := min(max(d.Microseconds(), 0), maxMicros)
	h.counts[bucket(us)].Add(1)
	for {
		old := h.max.Load()
		if us <= old || h.max.CompareAndSwap(old, us) {
			return
		}
	}
}

func bucket(us int64) int {
	exp := bits.Len64(uint64(us)) - subBits - 1
	if exp <= 0 {
		return int(us)
	}
	return exp<<subBits + int(us>>exp)
}

// lowest is the smallest duration of a bucket, in microseconds.
func lowest(i int) int64 {
	if i < 2<<subBits {
		return int64(i)
	}
	exp := i>>subBits - 1
	return int64(i-exp<<subBits) << exp
}

// Read returns what was counted so far.
func (h *Histogram) Read() Distribution {
	d := Distribution{MaxMicros: h.max.Load()}
	for i := range h.counts {
		if n := h.counts[i].Load(); n > 0 {
			d.Buckets = append(d.Buckets, Bucket{i, n})
		}
	}
	return d
}

// Bucket is a bucket's index and how many durations are in it; in JSON a pair.
type Bucket struct {
	Index int
	N     int64
}

// MarshalJSON writes [index, n].
func (b Bucket) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "[%d,%d]", b.Index, b.N), nil }

// UnmarshalJSON reads [index, n].
func (b *Bucket) UnmarshalJSON(raw []byte) error {
	var pair [2]int64
	if err := json.Unmarshal(raw, &pair); err != nil {
		return err
	}
	if pair[0] < 0 || pair[0] >= numBuckets {
		return fmt.Errorf("histogram has no bucket %d", pair[0])
	}
	b.Index, b.N = int(pair[0]), pair[1]
	return nil
}

// Distribution is a histogram at rest: the buckets that are not empty, in order.
type Distribution struct {
	MaxMicros int64    `json:"max_us"`
	Buckets   []Bucket `json:"buckets"`
}

// N is how many durations there are.
func (d Distribution) N() (n int64) {
	for _, b := range d.Buckets {
		n += b.N
	}
	return n
}

// Quantile returns the duration that a share of q is not longer than; 1 is the exact maximum, and nothing counted is 0.
func (d Distribution) Quantile(q float64) time.Duration {
	rank := int64(q * float64(d.N()))
	if q >= 1 || len(d.Buckets) == 0 {
		return time.Duration(d.MaxMicros) * time.Microsecond
	}
	for _, b := range d.Buckets {
		if rank -= b.N; rank < 0 {
			return time.Duration(lowest(b.Index)) * time.Microsecond
		}
	}
	return time.Duration(d.MaxMicros) * time.Microsecond
}

// Since returns what d counted that an earlier reading of the same histogram had not; its maximum is that of its highest bucket.
func (d Distribution) Since(earlier Distribution) Distribution {
	var out Distribution
	had := make(map[int]int64, len(earlier.Buckets))
	for _, b := range earlier.Buckets {
		had[b.Index] = b.N
	}
	for _, b := range d.Buckets {
		if n := b.N - had[b.Index]; n > 0 {
			out.Buckets = append(out.Buckets, Bucket{b.Index, n})
			out.MaxMicros = lowest(b.Index)
		}
	}
	return out
}

// Merge returns both together.
func (d Distribution) Merge(other Distribution) Distribution {
	var sum [numBuckets]int64
	for _, b := range append(append([]Bucket(nil), d.Buckets...), other.Buckets...) {
		sum[b.Index] += b.N
	}
	out := Distribution{MaxMicros: max(d.MaxMicros, other.MaxMicros)}
	for i, n := range sum {
		if n > 0 {
			out.Buckets = append(out.Buckets, Bucket{i, n})
		}
	}
	return out
}
