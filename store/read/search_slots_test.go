package read

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/store/read/cluster"
)

// A key has one search at a time, an account two: another key finds one free while the first one's searches wait.
func TestSearchesOfAKeyAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Reader{searches: cluster.NewSlots(maxSearches, searchWait, "searches"),
			searchesOfKey: cluster.NewSlots(1, searchWait, "search")}
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
	})
}
