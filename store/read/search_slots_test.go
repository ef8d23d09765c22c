package read

import (
	"errors"
	"strings"
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
			_, tenant, _ := strings.Cut(key, " of ")
			end, err := r.acquireSearch(event.WithCaller(t.Context(), key, tenant), account)
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

		// All keys of a tenant have one, and however many tenants search, the account can, too.
		one := search("key_e of t1", "acc_1", 0, nil)
		search("key_f of t1", "acc_1", searchWait, event.ErrOverloaded)
		other := search("key_g of t2", "acc_1", 0, nil)
		search("key_h of t3", "acc_1", searchWait, event.ErrOverloaded)
		search("key_i", "acc_1", 0, nil)()
		one()
		other()
	})
}
