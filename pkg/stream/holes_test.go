package stream

import (
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHolesRoundTrip(t *testing.T) {
	for range 500 {
		mark := rand.Int64N(1 << 40)
		var runs []Hole
		for at := mark; len(runs) < rand.IntN(50); {
			from := at + 1 + rand.Int64N(1<<rand.IntN(20))
			at = from + 1 + rand.Int64N(1<<rand.IntN(20))
			runs = append(runs, Hole{from, at})
		}
		got, err := Mark{Offset: mark, Metadata: EncodeHoles(mark, runs)}.Holes()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(runs, got); d != "" {
			t.Fatal(d)
		}
	}
}

// Beyond the limits the lowest holes are kept: what is left out is done again, nothing is skipped that
// was not done.
func TestHolesLimits(t *testing.T) {
	var runs []Hole
	for o := int64(0); o < 1<<40; o += 1 << 28 {
		runs = append(runs, Hole{o + 1<<20, o + 1<<21})
	}
	text := EncodeHoles(0, runs)
	if len(text) > maxHolesEncoded {
		t.Fatalf("%d bytes of metadata, at most %d are taken", len(text), maxHolesEncoded)
	}
	got, err := Mark{Metadata: text}.Holes()
	if err != nil || len(got) < 300 || len(got) > MaxHoles {
		t.Fatalf("%d holes, %v", len(got), err)
	}
	if d := cmp.Diff(runs[:len(got)], got); d != "" {
		t.Fatal(d)
	}
}

func FuzzDecodeHoles(f *testing.F) {
	f.Add(int64(0), "")
	f.Add(int64(5), EncodeHoles(5, []Hole{{7, 9}, {20, 21}}))
	f.Add(int64(0), "h1:AAAA")
	f.Add(int64(0), "h2:AAAA")
	f.Add(int64(0), holesPrefix+base64.StdEncoding.EncodeToString(slices.Repeat([]byte{0xff}, 20)))
	f.Fuzz(func(t *testing.T, mark int64, text string) {
		mark &= 1<<50 - 1
		runs, err := Mark{Offset: mark, Metadata: text}.Holes()
		if err != nil {
			return
		}
		at := mark
		for _, r := range runs {
			if r.From < at || r.To <= r.From {
				t.Fatalf("run %v after %d", r, at)
			}
			at = r.To
		}
		if len(text) <= maxHolesEncoded && len(runs) > 0 && !strings.HasPrefix(text, holesPrefix) {
			t.Fatal("holes out of nothing")
		}
	})
}

// What a commit says is done is what was counted one by one.
func TestDone(t *testing.T) {
	m := Mark{Offset: 5, Metadata: EncodeHoles(5, []Hole{{7, 9}, {20, 21}})}
	var undone []int64
	for o := range int64(25) {
		if !m.Done().Has(o) {
			undone = append(undone, o)
		}
	}
	if d := cmp.Diff([]int64{5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24}, undone); d != "" {
		t.Error(d)
	}
	if d := (Mark{Offset: 5, Metadata: "not ours"}).Done(); d.Has(5) || !d.Has(4) || d.From() != 5 {
		t.Error("metadata that is not ours must leave the offset")
	}
	if d := (Mark{Offset: -1}).Done(); d.Has(0) || d.From() != 0 {
		t.Error("nothing was ever committed, and something is done")
	}
}
