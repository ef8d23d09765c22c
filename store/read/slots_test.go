package read

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// A key has a fixed number of slots. A further read of the key waits a second and is rejected, other keys are not
// affected, and a key without reads takes no memory.
func TestSlotsPerKeyAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newSlots(maxReads, readWait, "reads")
		var leaves []func()
		for range maxReads {
			leave, err := turns.acquire(t.Context(), "key_a")
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		began := time.Now()
		if _, err := turns.acquire(t.Context(), "key_a"); !errors.Is(err, event.ErrOverloaded) ||
			time.Since(began) != readWait {
			t.Errorf("a ninth read: %v after %v, want ErrOverloaded after %v", err, time.Since(began), readWait)
		}
		began = time.Now()
		other, err := turns.acquire(t.Context(), "key_b")
		if err != nil || time.Since(began) != 0 {
			t.Errorf("another key waits for %v: %v", time.Since(began), err)
		}
		other()
		time.AfterFunc(readWait/2, leaves[0])
		leave, err := turns.acquire(t.Context(), "key_a")
		if err != nil || time.Since(began) != readWait/2 {
			t.Errorf("a turn that is given back is taken after %v: %v", time.Since(began), err)
		}
		for _, leave := range append(leaves[1:], leave) {
			leave()
		}
		if len(turns.pools) != 0 {
			t.Errorf("%d keys without reads are remembered", len(turns.pools))
		}
	})
}

// A key has one search at a time, an account two: another key finds one free while the first one's searches wait.
func TestSearchesOfAKeyAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Reader{searches: newSlots(maxSearches, searchWait, "searches"),
			searchesOfKey: newSlots(1, searchWait, "search")}
		search := func(key, account string, wait time.Duration, want error) func() {
			t.Helper()
			began := time.Now()
			end, err := r.acquireSearch(event.WithCaller(t.Context(), key), account)
			if !errors.Is(err, want) || time.Since(began) != wait {
				t.Errorf("%s: %v after %v, want %v after %v", key, err, time.Since(began), want, wait)
			}
			return end
		}
		first := search("key_a", "acc_1", 0, nil)
		search("key_a", "acc_1", searchWait, event.ErrOverloaded)
		second := search("key_b", "acc_1", 0, nil)
		search("key_c", "acc_1", searchWait, event.ErrOverloaded)
		search("key_d", "acc_2", 0, nil)()
		first()
		search("key_c", "acc_1", 0, nil)()
		second()
		if n := len(r.searches.pools) + len(r.searchesOfKey.pools); n != 0 {
			t.Errorf("%d pools are remembered", n)
		}
	})
}
