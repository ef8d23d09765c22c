package stream

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// metadata encodes gaps, all of which must fit.
func metadata(t testing.TB, committed int64, gaps ...Gap) string {
	t.Helper()
	text, omitted := EncodeGaps(committed, gaps)
	must.Equal(t, omitted, 0, "completed records do not fit")
	return text
}

func TestGapsRoundTrip(t *testing.T) {
	random := kit.Rand(t)
	for range 500 {
		committed := random.Int64N(1 << 40)
		var runs []Gap
		for at := committed; len(runs) < random.IntN(50); {
			from := at + 1 + random.Int64N(1<<random.IntN(20))
			at = from + 1 + random.Int64N(1<<random.IntN(20))
			runs = append(runs, Gap{from, at})
		}
		got := must.Get(Commit{Offset: committed, Metadata: metadata(t, committed, runs...)}.Gaps())(t)
		must.Equal(t, cmp.Diff(runs, got), "")
	}
}

// regular returns n gaps of done records each, with open incomplete records between them.
func regular(n int, open, done int64) (gaps []Gap) {
	for at := open; len(gaps) < n; at += open + done {
		gaps = append(gaps, Gap{at, at + done})
	}
	return gaps
}

// How many gaps fit, in bytes of the bitmap; of those that do not fit the highest are dropped.
func TestGapsKeepTheLowestThatFit(t *testing.T) {
	one := func(from, to int64) []Gap { return []Gap{{from, to}} }
	for name, c := range map[string]struct {
		gaps    []Gap
		size    int
		omitted int64
	}{
		"nothing":                                {nil, 0, 0},
		"one record":                             {one(1, 2), 2, 0},
		"a byte of them":                         {one(8, 16), 2, 0},
		"behind a hung one":                      {one(1, 20_000), 5, 0},
		"a day behind a hung one":                {one(1, 1<<30), 7, 0},
		"a day from now":                         {one(1<<30, 1<<30+8), 6, 0},
		"14 equal bytes need no number":          {one(0, 14*8), 1, 0},
		"15 do":                                  {one(0, 15*8), 2, 0},
		"6 bytes as they are need no number":     {regular(6, 7, 1), 7, 0},
		"7 do":                                   {regular(7, 7, 1), 9, 0},
		"every other record":                     {regular(12_000, 1, 1), 3003, 0},
		"two of three":                           {regular(8000, 1, 2), 3003, 0},
		"one of a hundred open, 50,000 done":     {regular(505, 1, 99), 1012, 0},
		"one of a thousand open, a million done": {regular(1000, 1, 999), 3001, 0},
		"half open as long as there is room":     {regular(12_264, 1, 1), maxGapsBytes, 0},
		"half open, more than there is room":     {regular(12_264+1000, 1, 1), maxGapsBytes, 1000},
		"far apart, more than there is room":     {regular(2000, 1<<20, 1<<20), maxGapsBytes - 1, 1 << 20 * (2000 - 383)},
		"no room for the number of the last ones": {
			append(regular(12_264, 1, 1), Gap{1 << 20, 1 << 30}), maxGapsBytes, 1<<30 - 1<<20},
	} {
		text, omitted := EncodeGaps(0, c.gaps)
		if len(text) > maxGapsEncoded {
			t.Errorf("%s: %d bytes of metadata, want at most %d", name, len(text), maxGapsEncoded)
		}
		if n := base64.RawStdEncoding.DecodedLen(max(len(text)-len(gapsPrefix), 0)); n != c.size || omitted != c.omitted {
			t.Errorf("%s: %d bytes, %d left out; want %d and %d", name, n, omitted, c.size, c.omitted)
		}
		got, err := Commit{Metadata: text}.Gaps()
		is.OK(t, err, name)
		is.List(t, lowest(c.gaps, omitted), got,
			"%s: %d gaps were decoded, and they are not the lowest of %d", name, len(got), len(c.gaps))
	}
}

// lowest are gaps without their last n records.
func lowest(gaps []Gap, n int64) []Gap {
	gaps = slices.Clone(gaps)
	for n > 0 {
		last := &gaps[len(gaps)-1]
		cut := min(n, last.To-last.From)
		if n, last.To = n-cut, last.To-cut; last.From == last.To {
			gaps = gaps[:len(gaps)-1]
		}
	}
	return gaps
}

// Every bitmap that fits is decoded unchanged.
func FuzzGaps(f *testing.F) {
	f.Add(int64(0), []byte{1}, uint16(1))
	f.Add(int64(7), []byte{0xff, 0, 3}, uint16(40))
	f.Add(int64(1<<40), []byte("0123456789abcdef"), uint16(300))
	f.Fuzz(func(t *testing.T, committed int64, pattern []byte, times uint16) {
		committed, pattern = committed&(1<<50-1), pattern[:min(len(pattern), 64)] // half a million offsets
		var gaps []Gap
		for i, b := range slices.Repeat(pattern, int(times%1000)+1) {
			for bit := range 8 {
				o := committed + int64(i*8+bit)
				if n := len(gaps); b>>bit&1 == 0 {
					continue
				} else if n > 0 && gaps[n-1].To == o {
					gaps[n-1].To++
				} else {
					gaps = append(gaps, Gap{o, o + 1})
				}
			}
		}
		text, omitted := EncodeGaps(committed, gaps)
		if len(text) > maxGapsEncoded {
			t.Fatalf("%d bytes of metadata", len(text))
		}
		got := must.Get(Commit{Offset: committed, Metadata: text}.Gaps())(t)
		must.List(t, lowest(gaps, omitted), got,
			"%d gaps were decoded, and they are not the lowest of %d", len(got), len(gaps))
		if len(gaps) > 0 && omitted > 0 && gaps[len(gaps)-1].To-omitted-committed < 20_000 {
			t.Fatalf("%d of %d offsets dropped", omitted, gaps[len(gaps)-1].To-committed)
		}
	})
}

func FuzzDecodeGaps(f *testing.F) {
	f.Add(int64(0), "")
	f.Add(int64(5), metadata(f, 5, Gap{7, 9}, Gap{20, 21}))
	f.Add(int64(0), "h1:AAAA")
	f.Add(int64(0), "h2:AAAA")
	f.Add(int64(0), "h2://////////////////")
	f.Add(int64(0), gapsPrefix+base64.RawStdEncoding.EncodeToString(slices.Repeat([]byte{0xff}, 20)))
	f.Fuzz(func(t *testing.T, committed int64, text string) {
		committed &= 1<<50 - 1
		runs, err := Commit{Offset: committed, Metadata: text}.Gaps()
		if err != nil {
			return
		}
		at := committed
		for _, r := range runs {
			if r.From < at || r.To <= r.From {
				t.Fatalf("run %v after %d", r, at)
			}
			at = r.To
		}
		if len(text) <= maxGapsEncoded && len(runs) > 0 && !strings.HasPrefix(text, gapsPrefix) {
			t.Fatal("gaps without metadata")
		}
	})
}

// A decoded commit says the same as counting the completed offsets one by one.
func TestCompleted(t *testing.T) {
	m := Commit{Offset: 5, Metadata: metadata(t, 5, Gap{7, 9}, Gap{20, 21})}
	var incomplete []int64
	for o := range int64(25) {
		if !m.Completed().Contains(o) {
			incomplete = append(incomplete, o)
		}
	}
	is.Same(t, incomplete, []int64{5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24})
	if d := (Commit{Offset: 5, Metadata: "not ours"}).Completed(); d.Contains(5) || !d.Contains(4) ||
		d.FirstIncomplete() != 5 {
		t.Error("metadata of another program must leave the offset")
	}
	if d := (Commit{Offset: -1}).Completed(); d.Contains(0) || d.FirstIncomplete() != 0 {
		t.Error("without a commit an offset is completed")
	}
}
