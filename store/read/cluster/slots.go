package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// Slots limit the reads that run at once for one key (an API key or an account), so that no key takes the
// whole store. NewSlots makes one.
type Slots struct {
	size int           // slots of each key
	wait time.Duration // how long a caller waits for a slot
	what string        // name of the things that run, for the error

	mu    sync.Mutex // guards pools and slotPool.users
	pools map[string]*slotPool
}

// slotPool has the slots of one key. It exists while callers hold a slot or wait for one.
type slotPool struct {
	slots chan struct{}
	users int
}

// NewSlots returns slots; size is the number of each key, what names the things that run.
func NewSlots(size int, wait time.Duration, what string) *Slots {
	return &Slots{size: size, wait: wait, what: what, pools: make(map[string]*slotPool)}
}

// Acquire waits for a slot of a key; release frees it. The error is event.ErrOverloaded when none is free within wait.
func (p *Slots) Acquire(ctx context.Context, key string) (release func(), err error) {
	pool := p.join(key)
	select {
	case pool.slots <- struct{}{}:
		return func() { <-pool.slots; p.leave(key, pool) }, nil
	default:
	}
	timer := time.NewTimer(p.wait)
	defer timer.Stop()
	select {
	case pool.slots <- struct{}{}:
		return func() { <-pool.slots; p.leave(key, pool) }, nil
	case <-timer.C:
		err = fmt.Errorf("%w: running already: %d %s", event.ErrOverloaded, p.size, p.what)
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.leave(key, pool)
	return nil, err
}

func (p *Slots) join(key string) *slotPool {
	p.mu.Lock()
	defer p.mu.Unlock()
	pool := p.pools[key]
	if pool == nil {
		pool = &slotPool{slots: make(chan struct{}, p.size)}
		p.pools[key] = pool
	}
	pool.users++
	return pool
}

func (p *Slots) leave(key string, pool *slotPool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pool.users--; pool.users == 0 {
		delete(p.pools, key)
	}
}

// MaxReads is how many reads run at once for an API key; a further one waits at most readWait. The service's own reads
// are bounded by the number of connections only.
const MaxReads, readWait = 8, time.Second

// AcquireSlot waits for a slot of the API key that the read is for. Reads call it after the fence, because waiting for
// the writer does not load the store.
func (c *Cluster) AcquireSlot(ctx context.Context) (release func(), err error) {
	caller := event.Caller(ctx)
	if caller == "" {
		return func() {}, nil
	}
	return c.reads.Acquire(ctx, caller)
}

// Begin bounds the time of a read that answers one request, and waits: for the first page of a list, with a wait of the
// fence, and then for a slot. end must be called, after an error too. asOf has the meaning of Page.AsOf.
func (c *Cluster) Begin(ctx context.Context, first bool, wait func(context.Context) (time.Time, error)) (
	_ context.Context, end func(), asOf time.Time, err error) {
	ctx, end = context.WithTimeout(ctx, c.Config.Timeout)
	if first {
		if asOf, err = wait(ctx); err != nil {
			return ctx, end, asOf, err
		}
	}
	release, err := c.AcquireSlot(ctx)
	if err != nil {
		return ctx, end, asOf, err
	}
	cancel := end
	return ctx, func() { release(); cancel() }, asOf, nil
}
