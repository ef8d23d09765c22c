package cluster

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A key has a fixed number of slots. A further read of the key waits a second and is rejected, other keys are not
// affected, and a key without reads takes no memory.
func TestSlotsPerKeyAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewSlots(MaxReads, readWait, "reads")
		var leaves []func()
		for range MaxReads {
			leave := must.Get(turns.Acquire(t.Context(), "key_a"))(t)
			leaves = append(leaves, leave)
		}
		began := time.Now()
		if _, err := turns.Acquire(t.Context(), "key_a"); !errors.Is(err, event.ErrOverloaded) ||
			time.Since(began) != readWait {
			t.Errorf("a ninth read: %v after %v, want ErrOverloaded after %v", err, time.Since(began), readWait)
		}
		began = time.Now()
		other, err := turns.Acquire(t.Context(), "key_b")
		if err != nil || time.Since(began) != 0 {
			t.Errorf("another key waits for %v: %v", time.Since(began), err)
		}
		other()
		time.AfterFunc(readWait/2, leaves[0])
		leave, err := turns.Acquire(t.Context(), "key_a")
		if err != nil || time.Since(began) != readWait/2 {
			t.Errorf("a turn that is given back is taken after %v: %v", time.Since(began), err)
		}
		for _, leave := range append(leaves[1:], leave) {
			leave()
		}
		synctest.Wait() // the turn that was given back by the clock
		is.Equal(t, len(turns.pools), 0, "keys without reads are remembered")
	})
}
