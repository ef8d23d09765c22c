package events

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/web"
)

// One API key holds half of the slots for bodies, whatever it sends. Its other batches wait and are refused, without a
// slot of the node. All keys together hold as many as the node has.
func TestOneKeyLeavesRoomForBatchesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBatchSlots()
		take := func(key string, n int) (leaves []func(), refused int) {
			for range n {
				leave, err := s.enterBody(t.Context(), key)
				var answer *web.Error
				if errors.As(err, &answer) && answer.Status == http.StatusTooManyRequests {
					refused++
					continue
				}
				leaves = append(leaves, leave)
			}
			return leaves, refused
		}
		start := time.Now()
		first, refused := take("key_1", maxBatchBodiesOfKey+1)
		if len(first) != maxBatchBodies/2 || refused != 1 || time.Since(start) != batchWait {
			t.Errorf("%d of one key have a slot, %d were refused after %v", len(first), refused, time.Since(start))
		}
		start = time.Now()
		second, refused := take("key_2", maxBatchBodiesOfKey)
		if refused != 0 || time.Since(start) != 0 {
			t.Errorf("%d of another key were refused, after %v", refused, time.Since(start))
		}
		if _, refused := take("key_3", 1); refused != 1 {
			t.Error("the node holds more bodies than it has room for")
		}
		left, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.enterBody(left, "key_1"); err == nil {
			t.Error("a client that has left got a slot")
		}
		for _, leave := range append(first, second...) {
			leave()
		}
		if len(s.keys) != 0 || len(s.bodies) != 0 {
			t.Errorf("%d keys and %d bodies remain", len(s.keys), len(s.bodies))
		}
	})
}
