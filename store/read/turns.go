package read

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// turns keep one of many who ask from taking all of the store. The zero value is not usable.
type turns struct {
	most int           // that one holds at once
	wait time.Duration // how long another of the same waits
	what string        // is counted, for the error

	mu   sync.Mutex // guards held
	held map[string]*turn
}

// turn is kept while somebody holds or wants it.
type turn struct {
	slots chan struct{}
	users int
}

func newTurns(most int, wait time.Duration, what string) *turns {
	return &turns{most: most, wait: wait, what: what, held: make(map[string]*turn)}
}

// enter waits for a turn of the one who asks. What it returns gives it back. The error is event.ErrOverloaded when
// there is none soon.
func (t *turns) enter(ctx context.Context, who string) (leave func(), err error) {
	mine := t.join(who)
	select {
	case mine.slots <- struct{}{}:
		return func() { <-mine.slots; t.part(who, mine) }, nil
	default:
	}
	enough := time.NewTimer(t.wait)
	defer enough.Stop()
	select {
	case mine.slots <- struct{}{}:
		return func() { <-mine.slots; t.part(who, mine) }, nil
	case <-enough.C:
		err = fmt.Errorf("%w: %d %s are running", event.ErrOverloaded, t.most, t.what)
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.part(who, mine)
	return nil, err
}

func (t *turns) join(who string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.held[who]
	if mine == nil {
		mine = &turn{slots: make(chan struct{}, t.most)}
		t.held[who] = mine
	}
	mine.users++
	return mine
}

func (t *turns) part(who string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(t.held, who)
	}
}

// maxReads is how many reads run at once for an API key; another waits for readWait. Reads of the service itself have
// no bound but that of the connections.
const maxReads, readWait = 8, time.Second

// enter waits for a turn of the API key that the read is for. It is taken after the fence: waiting for the writer costs
// the store nothing.
func (r *Reader) enter(ctx context.Context) (leave func(), err error) {
	caller := event.Caller(ctx)
	if caller == "" {
		return func() {}, nil
	}
	return r.reads.enter(ctx, caller)
}
