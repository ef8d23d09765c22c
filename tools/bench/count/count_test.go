package count

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMarksSurviveEncodings(t *testing.T) {
	t.Parallel()
	want := Mark{Run: 7, Number: 123456, Due: time.Unix(0, 1_760_000_000_123_456_789)}
	text := want.String()
	if len(text) != MarkWidth {
		t.Fatalf("%q has %d bytes, want %d", text, len(text), MarkWidth)
	}
	for _, body := range []string{text, `{"data":{"mark":"` + text + `","x":1}}`, "a=1&mark=" + text} {
		if got, ok := Find([]byte(body)); !ok || got.Run != want.Run || got.Number != want.Number ||
			!got.Due.Equal(want.Due) {
			t.Errorf("%q: %v %t, want %v", body, got, ok, want)
		}
	}
	for _, body := range []string{
		"", "relaybench.", text[:MarkWidth-1], strings.Replace(text, "1234", "12x4", 1),
		strings.Replace(text, "007", "999", 1),
		strings.Replace(text, ".0000123456.", ".9999999999.", 1)} {
		if got, ok := Find([]byte(body)); ok {
			t.Errorf("%q is a mark: %v", body, got)
		}
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	var d Durations
	var all []time.Duration
	random := kit.Rand(t)
	for range 20_000 {
		one := time.Duration(random.ExpFloat64()*5_000) * time.Microsecond
		all = append(all, one)
		d.Add(one)
	}
	d.Add(-time.Second)
	all = append(all, 0)
	slices.Sort(all)
	raw := must.Get(json.Marshal(d))(t)
	d = Durations{}
	must.Do(t, json.Unmarshal(raw, &d))
	if d.N() != int64(len(all)) {
		t.Errorf("%d durations, want %d", d.N(), len(all))
	}
	for _, q := range []float64{0.1, 0.5, 0.9, 0.99, 0.999, 1} {
		got, want := d.Quantile(q), all[int(q*float64(len(all))+0.5)-1]
		if got < want || float64(got) > 1.008*float64(want)+10_000 {
			t.Errorf("quantile %v is %v, want %v or at most 0.8 %% more", q, got, want)
		}
	}
	d = Durations{}
	d.Add(100 * time.Hour)
	if got := d.Quantile(0.5); got < 2*time.Hour {
		t.Errorf("a duration beyond the maximum counts as %v", got)
	}
	if (Durations{}).Quantile(0.5) != 0 {
		t.Error("the median of no durations is not 0")
	}
	if raw, err := json.Marshal(Durations{}); err != nil || json.Unmarshal(raw, &d) != nil || d.N() != 0 {
		t.Errorf("an empty histogram is decoded as %d durations from %s: %v", d.N(), raw, err)
	}
}

func TestDurationsMergeAndSubtract(t *testing.T) {
	t.Parallel()
	var d Durations
	d.Add(time.Millisecond)
	before := d.Clone()
	d.Add(time.Millisecond)
	d.Add(time.Second)
	late := d.Since(before)
	if late.N() != 2 || late.Quantile(0.5) > 1100*time.Microsecond || late.Quantile(0.99) < 900*time.Millisecond ||
		d.Since(Durations{}).N() != 3 || (Durations{}).Since(before).N() != 0 {
		t.Errorf("since then: %d, p50 %v, p99 %v", late.N(), late.Quantile(0.5), late.Quantile(0.99))
	}
	var both Durations
	both.Merge(before, Durations{}, late)
	if both.N() != 3 || both.Quantile(0.5) > 1100*time.Microsecond || before.N() != 1 ||
		both.Quantile(1) != late.Quantile(1) {
		t.Errorf("merged: %d, p50 %v", both.N(), both.Quantile(0.5))
	}
}
