package count

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The histogram counts microseconds, two digits that matter, up to 2.4 hours; what took longer counts as that.
const (
	maxMicros  = 1<<33 - 1
	digitsKept = 2
)

// Durations is an HDR histogram of durations. The zero value is empty. As text it is the histogram's compressed V2
// encoding in base64, which the tools for HDR histograms read. It is for one caller at a time.
type Durations struct{ h *hdrhistogram.Histogram }

// Add counts one duration; a negative one, of clocks that disagree, counts as 0.
func (d *Durations) Add(t time.Duration) {
	if d.h == nil {
		d.h = hdrhistogram.New(1, maxMicros, digitsKept)
	}
	_ = d.h.RecordValue(min(max(t.Microseconds(), 0), maxMicros)) // only a value out of range fails
}

// N is how many durations there are.
func (d Durations) N() int64 {
	if d.h == nil {
		return 0
	}
	return d.h.TotalCount()
}

// Quantile returns the duration that a share of q is not longer than, at most 0.8 % too long; nothing counted is 0.
func (d Durations) Quantile(q float64) time.Duration {
	if d.h == nil {
		return 0
	}
	return time.Duration(d.h.ValueAtQuantile(100*q)) * time.Microsecond
}

// Merge adds what others counted.
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

// Since returns what d counted that an earlier copy of it had not.
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

// MarshalText writes the histogram, nothing when it is empty.
func (d Durations) MarshalText() ([]byte, error) {
	if d.N() == 0 {
		return nil, nil
	}
	return d.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
}

// UnmarshalText reads what MarshalText wrote.
func (d *Durations) UnmarshalText(text []byte) (err error) {
	if d.h = nil; len(text) > 0 {
		d.h, err = hdrhistogram.Decode(text)
	}
	return err
}
