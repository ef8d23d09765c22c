package lane

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestQueue(t *testing.T) {
	var q queue[int]
	next, want := 0, 0
	for round := range 3000 {
		for range round % 7 {
			q.push(next)
			next++
		}
		for range round % 5 {
			if v, ok := q.pop(); ok {
				if v != want {
					t.Fatalf("got %d, want %d", v, want)
				}
				want++
			}
		}
	}
	for q.len() > 0 {
		if v, _ := q.pop(); v != want {
			t.Fatalf("got %d, want %d", v, want)
		}
		want++
	}
	if _, ok := q.pop(); ok || want != next || len(q.items) > 1024 {
		t.Fatalf("%d in, %d out, %d kept", next, want, len(q.items))
	}
}

// Whatever is pushed and popped on either side, it is what a slice would hold.
func TestQueueHasTwoEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	var q queue[int]
	var want []int
	for n := range 20_000 {
		switch op := r.IntN(5); {
		case op < 2:
			q.push(n)
			want = append(want, n)
		case op == 2:
			q.pushFront(n)
			want = slices.Insert(want, 0, n)
		case op == 3 && len(want) > 0:
			if v, ok := q.pop(); !ok || v != want[0] {
				t.Fatalf("popped %d, want %d", v, want[0])
			}
			want = want[1:]
		case len(want) > 0:
			if v := q.popBack(); v != want[len(want)-1] {
				t.Fatalf("popped %d from the end, want %d", v, want[len(want)-1])
			}
			want = want[:len(want)-1]
		}
		if q.len() != len(want) {
			t.Fatalf("%d items, want %d", q.len(), len(want))
		}
	}
}
