package config

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// TestEntitiesWithMeta creates entities of a kind with a Meta once, changes them from many goroutines, lists them by
// page, and removes them without a tombstone.
func TestEntitiesWithMeta(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	ctx := t.Context()
	account := n.Account().ID
	for i := range 5 {
		r, err := Create(ctx, n, &Run{Meta: Meta{ID: fmt.Sprintf("run_%d", i)}, Events: i})
		if err != nil || r.Account != account || r.CreatedAt.IsZero() || r.UpdatedAt != r.CreatedAt || r.Rev == 0 {
			t.Fatalf("added %+v, %v", r, err)
		}
	}
	if _, err := Create(ctx, n, &Run{Meta: Meta{ID: "run_0"}}); !errors.Is(err, ErrConflict) {
		t.Fatalf("added twice: %v", err)
	}

	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, err := Update(ctx, n, "run_1", func(r *Run) error {
				r.Queued++
				r.Account = "acc_other" // the account does not change
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	r, presence := Get[Run](n, "run_1")
	if presence != Present || r.Queued != 20 || r.Account != account || !r.UpdatedAt.After(r.CreatedAt) || r.Rev <= r.Seq {
		t.Fatalf("after 20 changes: %+v", r)
	}
	before := n.View().Sequence()
	if _, err := Update(ctx, n, "run_1", func(*Run) error { return nil }); err != nil ||
		n.View().Sequence() != before {
		t.Fatalf("a change of nothing was written: %v", err)
	}
	mine := errors.New("not allowed")
	if _, err := Update(ctx, n, "run_1", func(*Run) error { return mine }); !errors.Is(err, mine) {
		t.Fatalf("error of the change: %v", err)
	}

	even := func(r *Run) bool { return r.Events%2 == 0 }
	page, more := List(n, account, 0, 2, even)
	if len(page) != 2 || page[0].ID != "run_4" || page[1].ID != "run_2" || !more {
		t.Fatalf("first page: %v, more %v", page, more)
	}
	if page, more = List(n, account, page[1].Seq, 2, even); len(page) != 1 ||
		page[0].ID != "run_0" || more {
		t.Fatalf("second page: %v, more %v", page, more)
	}
	if page, _ = List[Run](n, "acc_other", 0, 2, nil); len(page) != 0 {
		t.Fatalf("another account sees %v", page)
	}

	for range 2 { // removing nothing is no error
		if err := n.Forget(ctx, kindRun, "run_1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, presence := Get[Run](n, "run_1"); presence != Unknown {
		t.Fatalf("after its removal it is %v", presence)
	}
	if _, err := Update(ctx, n, "run_1", func(*Run) error { return nil }); !errors.Is(
		err, ErrNotFound) {
		t.Fatalf("change after removal: %v", err)
	}
}
