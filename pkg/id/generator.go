package id

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// MaxAhead is how far the time of an id from New may be ahead of the clock. The ids run ahead after the clock stepped
// back, or while more than 4,096 ids a millisecond are made. Beyond MaxAhead New fails, so that an id's time stays
// meaningful; the API responds with 503.
const MaxAhead = 30 * time.Second

// ErrClock is returned by New if the time of the next id would be more than MaxAhead ahead of the clock.
var ErrClock = errors.New("clock is more than 30 s behind the last id")

// Generator makes time-ordered ids. Create it with NewGenerator; its methods may be called from any goroutine.
type Generator struct {
	now     func() time.Time
	onStall func(wait time.Duration)

	mu      sync.Mutex // guards the fields below
	ms      int64      // unix milliseconds of the last id
	seq     uint16     // sequence of the last id in its millisecond, 0 to 4,095
	stalled bool       // the last call of New failed
}

// NewGenerator returns a generator that reads the time from now; nil means time.Now.
func NewGenerator(now func() time.Time) *Generator {
	if now == nil {
		now = time.Now
	}
	return &Generator{now: now, onStall: func(time.Duration) {}}
}

// OnStall sets a function that New calls when it begins to fail, with the time until it works again if nobody sets the
// clock, and with 0 at its first success after that. Call OnStall before the generator is used.
func (g *Generator) OnStall(report func(wait time.Duration)) { g.onStall = report }

// New returns the next id for a partition (0–4095). It is greater than all ids before: after the clock stepped back,
// New continues from the last id's millisecond, and goes to the next one after 4,096 ids, until the clock has caught
// up. It returns ErrClock, and uses up no id, if the next id's time is more than MaxAhead ahead of the clock.
func (g *Generator) New(partition int32) (ID, error) {
	wall := g.now().UnixMilli()
	g.mu.Lock()
	ms, seq := g.next(wall)
	wait := time.Duration(ms-wall)*time.Millisecond - MaxAhead
	stalled, changed := wait > 0, g.stalled != (wait > 0)
	g.stalled = stalled
	if !stalled {
		g.ms, g.seq = ms, seq
	}
	g.mu.Unlock()
	if changed {
		g.onStall(max(wait, 0))
	}
	if stalled {
		return ID{}, ErrClock
	}
	return compose(ms, seq, partition), nil
}

// NewUnbounded is New without the limit MaxAhead: it never fails. It is for ids that only have to be in order, such as
// those of attempts, and whose time nobody relies on.
func (g *Generator) NewUnbounded(partition int32) ID {
	wall := g.now().UnixMilli()
	g.mu.Lock()
	g.ms, g.seq = g.next(wall)
	ms, seq := g.ms, g.seq
	g.mu.Unlock()
	return compose(ms, seq, partition)
}

// Ahead returns how far the time of the next id is ahead of the clock, 0 if it is not.
func (g *Generator) Ahead() time.Duration {
	wall := g.now().UnixMilli()
	g.mu.Lock()
	ms, _ := g.next(wall)
	g.mu.Unlock()
	return time.Duration(ms-wall) * time.Millisecond
}

// next returns the millisecond and the sequence of the next id at the clock time wall. g.mu is held.
func (g *Generator) next(wall int64) (ms int64, seq uint16) {
	switch {
	case wall > g.ms:
		return wall, 0
	case g.seq < 0xfff:
		return g.ms, g.seq + 1
	default:
		return g.ms + 1, 0
	}
}

// compose returns the id with the layout that ID documents.
func compose(ms int64, seq uint16, partition int32) ID {
	var d ID
	binary.BigEndian.PutUint64(d[:8], uint64(ms)<<16|uint64(partition&0xfff)<<4|uint64(seq>>8))
	binary.BigEndian.PutUint64(d[8:], uint64(seq)<<56|rand.Uint64()>>8)
	return d
}
