package trie

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// TestTrie compares a trie with a map through random changes, and checks that earlier versions do not change.
func TestTrie(t *testing.T) {
	f := func(name string, key func(*rand.Rand) uint64) {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var tr Map[int]
			model := make(map[uint64]int)
			type version struct {
				tr    Map[int]
				model map[uint64]int
			}
			var versions []version
			for i := range 4000 {
				k := key(r)
				if r.IntN(3) == 0 {
					tr = tr.Remove(k)
					delete(model, k)
				} else {
					tr = tr.Put(k, i)
					model[k] = i
				}
				if i%250 == 0 {
					versions = append(versions, version{tr, maps.Clone(model)})
				}
			}
			for _, v := range append(versions, version{tr, model}) {
				compareTrie(t, v.tr, v.model, key(r))
			}
			for k := range model {
				tr = tr.Remove(k)
			}
			if tr.root != nil || tr.Len != 0 {
				t.Fatal("not empty after everything was removed")
			}
		})
	}
	f("random", (*rand.Rand).Uint64)
	f("dense", func(r *rand.Rand) uint64 { return r.Uint64N(500) })
	f("high bits alike", func(r *rand.Rand) uint64 { return math.MaxUint64 - r.Uint64N(40)*3 })
	f("low bits alike", func(r *rand.Rand) uint64 { return r.Uint64N(500) << 50 })
}

func compareTrie(t *testing.T, tr Map[int], model map[uint64]int, limit uint64) {
	t.Helper()
	must.Equal(t, tr.Len, len(model), "len")
	keys := slices.Sorted(maps.Keys(model))
	for _, k := range append([]uint64{limit, 0, math.MaxUint64}, keys...) {
		got, ok := tr.Get(k)
		if want, there := model[k]; got != want || ok != there {
			t.Fatalf("get(%d) = %d, %v; want %d, %v", k, got, ok, want, there)
		}
	}
	if least, ok := tr.Least(); ok != (len(keys) > 0) || ok && least != model[keys[0]] {
		t.Fatalf("least %d", least)
	}
	for _, limit := range []uint64{limit, 0, 1, keys[len(keys)/2], keys[0], math.MaxUint64} {
		var want []int
		for _, k := range slices.Backward(keys) {
			if k < limit {
				want = append(want, model[k])
			}
		}
		if got := slices.Collect(tr.Below(limit)); !slices.Equal(got, want) {
			t.Fatalf("below(%d): %v, want %v", limit, got, want)
		}
	}
}
