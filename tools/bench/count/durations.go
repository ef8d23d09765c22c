package count

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The histogram counts microseconds with two significant digits, up to 2.4 hours; longer durations count as 2.4 hours.
const (
	maxMicros  = 1<<33 - 1
	digitsKept = 2
)

// Durations is an HDR histogram of durations. The zero value is empty. As text it is the compressed V2 encoding of
// HdrHistogram in base64, which its tools read. It is not safe for concurrent use.
type Durations struct{ h *hdrhistogram.Histogram }

// Add counts one duration. A negative one, from clocks that differ, counts as 0.
func (d *Durations) Add(t time.Duration) {
	if d.h == nil {
		d.h = hdrhistogram.New(1, maxMicros, digitsKept)
	}
	_ = d.h.RecordValue(min(max(t.Microseconds(), 0), maxMicros)) // fails only for values out of range
}

// N returns how many durations were counted.
func (d Durations) N() int64 {
	if d.h == nil {
		return 0
	}
	return d.h.TotalCount()
}

// Quantile returns the q-quantile, at most 0.8 % too long; 0 if nothing was counted.
func (d Durations) Quantile(q float64) time.Duration {
	if d.h == nil {
		return 0
	}
	return time.Duration(d.h.ValueAtQuantile(100*q)) * time.Microsecond
}

// Merge adds the durations of others.
func (d *Durations) Merge(others ...Durations) {
	for _, other := range others {
		switch {
		case other.h == nil:
		case d.h == nil:
			d.h = other.h.Clone()
		default:
			d.h.Merge(other.h)
		}
	}
}

// Clone returns a copy that later calls do not change.
func (d Durations) Clone() (out Durations) {
	out.Merge(d)
	return out
}

// Since returns the durations that d has counted since an earlier copy of it.
func (d Durations) Since(earlier Durations) Durations {
	if d.h == nil || earlier.h == nil {
		return d
	}
	now := d.h.Export()
	for i, n := range earlier.h.Export().Counts {
		now.Counts[i] -= n
	}
	return Durations{hdrhistogram.Import(now)}
}

// MarshalText encodes the histogram; an empty one is an empty text.
func (d Durations) MarshalText() ([]byte, error) {
	if d.N() == 0 {
		return nil, nil
	}
	return d.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
}

// UnmarshalText decodes the output of MarshalText.
func (d *Durations) UnmarshalText(text []byte) (err error) {
	if d.h = nil; len(text) > 0 {
		d.h, err = hdrhistogram.Decode(text)
	}
	return err
}
