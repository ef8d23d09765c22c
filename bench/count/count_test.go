package count

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMarks(t *testing.T) {
	t.Parallel()
	want := Mark{Run: 7, Number: 123456, Due: time.Unix(0, 1_760_000_000_123_456_789)}
	text := want.String()
	if len(text) != MarkWidth {
		t.Fatalf("%q has %d bytes, want %d", text, len(text), MarkWidth)
	}
	for _, body := range []string{text, `{"data":{"mark":"` + text + `","x":1}}`, "a=1&mark=" + text} {
		if got, ok := Find([]byte(body)); !ok || got.Run != want.Run || got.Number != want.Number || !got.Due.Equal(want.Due) {
			t.Errorf("%q: %v %t, want %v", body, got, ok, want)
		}
	}
	for _, body := range []string{"", "relaybench.", text[:MarkWidth-1], strings.Replace(text, "1234", "12x4", 1), strings.Replace(text, "007", "999", 1),
		strings.Replace(text, ".0000123456.", ".9999999999.", 1)} {
		if got, ok := Find([]byte(body)); ok {
			t.Errorf("%q is a mark: %v", body, got)
		}
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	var h Histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(rand.ExpFloat64()*5_000) * time.Microsecond
		all = append(all, d)
		h.Add(d)
	}
	h.Add(-time.Second)
	all = append(all, 0)
	slices.Sort(all)
	raw, err := json.Marshal(h.Read())
	if err != nil {
		t.Fatal(err)
	}
	var d Distribution
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	if d.N() != int64(len(all)) {
		t.Errorf("%d durations, want %d", d.N(), len(all))
	}
	for _, q := range []float64{0, 0.1, 0.5, 0.9, 0.99, 0.999} {
		got, want := d.Quantile(q), all[int(q*float64(len(all)))]
		if got > want || float64(got) < 0.992*float64(want)-1000 {
			t.Errorf("quantile %v is %v, want %v or at most 0.8 %% less", q, got, want)
		}
	}
	if got := d.Quantile(1); got != all[len(all)-1] {
		t.Errorf("maximum is %v, want %v", got, all[len(all)-1])
	}
	if (Distribution{}).Quantile(0.5) != 0 {
		t.Error("nothing has a median")
	}
}

func TestEveryBucketBeginsWhereItSays(t *testing.T) {
	t.Parallel()
	for i := range numBuckets {
		if got := bucket(lowest(i)); got != i {
			t.Fatalf("bucket %d begins at %d µs, which is in bucket %d", i, lowest(i), got)
		}
	}
	var h Histogram
	h.Add(100 * time.Hour)
	if got := h.Read().Quantile(0.5); got < 2*time.Hour {
		t.Errorf("what is too long counts as %v", got)
	}
	var b Bucket
	if json.Unmarshal([]byte(`[3456,1]`), &b) == nil || json.Unmarshal([]byte(`[-1,1]`), &b) == nil {
		t.Error("a bucket that is not there was read")
	}
}

func TestDistributionsTogetherAndApart(t *testing.T) {
	t.Parallel()
	var h Histogram
	h.Add(time.Millisecond)
	before := h.Read()
	h.Add(time.Millisecond)
	h.Add(time.Second)
	late := h.Read().Since(before)
	if late.N() != 2 || late.Quantile(0) > time.Millisecond || late.Quantile(0.99) < 900*time.Millisecond || late.Quantile(1) < 900*time.Millisecond {
		t.Errorf("since then: %+v", late)
	}
	if both := before.Merge(late); both.N() != 3 || both.Quantile(0.5) > time.Millisecond || both.MaxMicros != late.MaxMicros {
		t.Errorf("merged: %+v", both)
	}
}

func TestBitmapCountsEachNumberOnce(t *testing.T) {
	t.Parallel()
	var b Bitmap
	var fresh [4]int64
	var wg sync.WaitGroup
	for i := range fresh {
		wg.Go(func() {
			for n := range int64(100_000) {
				if b.Set(n * 13) {
					fresh[i]++
				}
			}
		})
	}
	wg.Wait()
	if sum := fresh[0] + fresh[1] + fresh[2] + fresh[3]; sum != 100_000 || b.Count() != sum {
		t.Errorf("%d new, %d counted, want 100000", sum, b.Count())
	}
	if !b.Has(13) || b.Has(14) || b.Has(-1) || b.Has(MaxNumber) || b.Set(-1) || b.Set(MaxNumber) {
		t.Error("numbers that were never seen, or cannot be")
	}
}
