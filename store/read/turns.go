package read

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// turns keep one of many who ask from taking all of the store. The zero value is not usable.
type slotPools struct {
	size int           // that one holds at once
	wait time.Duration // how long another of the same waits
	what string        // is counted, for the error

	mu    sync.Mutex // guards held
	pools map[string]*slotPool
}

// turn is kept while somebody holds or wants it.
type slotPool struct {
	slots chan struct{}
	users int
}

func newSlotPools(most int, wait time.Duration, what string) *slotPools {
	return &slotPools{size: most, wait: wait, what: what, pools: make(map[string]*slotPool)}
}

// enter waits for a turn of the one who asks. What it returns gives it back. The error is event.ErrOverloaded when
// there is none soon.
func (t *slotPools) acquire(ctx context.Context, who string) (leave func(), err error) {
	mine := t.join(who)
	select {
	case mine.slots <- struct{}{}:
		return func() { <-mine.slots; t.leave(who, mine) }, nil
	default:
	}
	enough := time.NewTimer(t.wait)
	defer enough.Stop()
	select {
	case mine.slots <- struct{}{}:
		return func() { <-mine.slots; t.leave(who, mine) }, nil
	case <-enough.C:
		err = fmt.Errorf("%w: %d %s are running", event.ErrOverloaded, t.size, t.what)
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.leave(who, mine)
	return nil, err
}

func (t *slotPools) join(who string) *slotPool {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.pools[who]
	if mine == nil {
		mine = &slotPool{slots: make(chan struct{}, t.size)}
		t.pools[who] = mine
	}
	mine.users++
	return mine
}

func (t *slotPools) leave(who string, mine *slotPool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(t.pools, who)
	}
}

// maxReads is how many reads run at once for an API key; another waits for readWait. Reads of the service itself have
// no bound but that of the connections.
const maxReads, readWait = 8, time.Second

// enter waits for a turn of the API key that the read is for. It is taken after the fence: waiting for the writer costs
// the store nothing.
func (r *Reader) acquireSlot(ctx context.Context) (leave func(), err error) {
	caller := event.Caller(ctx)
	if caller == "" {
		return func() {}, nil
	}
	return r.reads.acquire(ctx, caller)
}
