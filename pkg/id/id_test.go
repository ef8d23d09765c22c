package id_test

import (
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/must"
)

func TestGeneratorCarriesTimeAndPartition(t *testing.T) {
	now := time.Date(2026, 8, 21, 22, 24, 36, 123e6, time.UTC)
	g := id.NewGenerator(func() time.Time { return now })
	d := must.Get(g.New(31))(t)
	if !d.Time().Equal(now) || d.Partition() != 31 {
		t.Fatalf("time %v partition %d", d.Time(), d.Partition())
	}
	back, err := id.Parse(id.Event, d.Text(id.Event))
	if err != nil || back != d {
		t.Fatalf("parse of %s: %v, %v", d.Text(id.Event), back, err)
	}
}

func TestGeneratorNeverGoesBack(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	g := id.NewGenerator(func() time.Time { return now })
	var texts []string
	for i := range 20_000 {
		if i == 5_000 {
			now = now.Add(-20 * time.Second)
		}
		d := must.Get(g.New(1))(t)
		texts = append(texts, d.String())
	}
	if !sort.StringsAreSorted(texts) {
		t.Fatal("ids went back in time")
	}
	now = now.Add(-30 * time.Second)
	if _, err := g.New(1); err == nil {
		t.Fatal("a clock 50 s behind the last id was accepted")
	}
}

// NewUnbounded works while New fails with a clock an hour behind, and failed calls of New use up no id.
func TestNewUnboundedNeverFails(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	g := id.NewGenerator(func() time.Time { return now })
	var reported []time.Duration
	g.OnStall(func(wait time.Duration) { reported = append(reported, wait) })
	last := g.NewUnbounded(1)
	now = now.Add(-time.Hour)
	for range 10_000 {
		if _, err := g.New(1); err == nil {
			t.Fatal("a clock an hour behind the last id was accepted")
		}
	}
	if a := g.Ahead(); a != time.Hour {
		t.Errorf("%v ahead after refusals, want 1h", a)
	}
	for range 10_000 {
		next := g.NewUnbounded(1)
		if next.String() <= last.String() || next.Partition() != 1 {
			t.Fatalf("%v follows %v", next, last)
		}
		last = next
	}
	if a := g.Ahead(); a != time.Hour+2*time.Millisecond {
		t.Errorf("%v ahead after 10,000 ids, want 2 ms more", a)
	}
	now = now.Add(time.Hour)
	if _, err := g.New(1); err != nil || len(reported) != 2 ||
		reported[0] != time.Hour-id.MaxAhead || reported[1] != 0 {
		t.Errorf("%v, OnStall reported %v", err, reported)
	}
}

// Ids sort as their texts do, so that a page and the statement that reads it agree on the order.
func TestCompareOrdersAsTexts(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_123)
	g := id.NewGenerator(func() time.Time { return at })
	ids := []id.ID{{}, id.Lowest(at), {15: 1}, {0: 0xff}}
	for range 3 {
		d := must.Get(g.New(7))(t)
		ids = append(ids, d)
	}
	for _, a := range ids {
		for _, b := range ids {
			if want := strings.Compare(a.String(), b.String()); a.Compare(b) != want || id.NewestFirst(b, a) != want {
				t.Errorf("Compare of %s and %s: %d, want %d", a, b, a.Compare(b), want)
			}
		}
	}
}

func TestParseHasOneSpelling(t *testing.T) {
	good := id.Random(id.Endpoint)
	f := func(s string, want bool) {
		t.Helper()
		if _, err := id.Parse(id.Endpoint, s); (err == nil) != want {
			t.Errorf("Parse(%q) error %v", s, err)
		}
	}
	f(good, true)
	f(strings.ToUpper(good), false)
	f("evt_"+good[3:], false)
	f(good[:len(good)-1], false)
	f(good+"0", false)
	f("ep_8"+good[4:], false) // 131 bits
	f("ep_"+strings.Repeat("l", 26), false)
	f("", false)
}

func TestDeliveryOfIsStable(t *testing.T) {
	var a, b id.ID
	b[15] = 1
	first := id.DeliveryOf(a, "dst_1")
	if again := id.DeliveryOf(a, "dst_1"); again != first || first == id.DeliveryOf(b, "dst_1") ||
		first == id.DeliveryOf(a, "dst_2") {
		t.Fatal("delivery id does not follow event and destination")
	}
}

func TestLowestBounds(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_123)
	d := must.Get(id.NewGenerator(func() time.Time { return now }).New(0))(t)
	if lo, hi := id.Lowest(now), id.Lowest(now.Add(time.Millisecond)); d.String() < lo.String() ||
		d.String() >= hi.String() {
		t.Fatalf("%s is not in [%s, %s)", d, lo, hi)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("evt_01jd0000000000000000000000")
	f.Add("evt_7zzzzzzzzzzzzzzzzzzzzzzzzz")
	f.Add("evt_nope")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := id.Parse(id.Event, s)
		if err == nil && d.Text(id.Event) != s {
			t.Fatalf("%q parses but prints as %q", s, d.Text(id.Event))
		}
	})
}

func BenchmarkNew(b *testing.B) {
	g := id.NewGenerator(nil)
	for b.Loop() {
		must.Get(g.New(1))(b)
	}
}
