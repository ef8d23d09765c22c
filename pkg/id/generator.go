package id

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// MaxAhead bounds how far a generator may run ahead of its clock, after the clock stepped back or
// when more than 4,096 ids were made in each millisecond. Beyond it New fails, so that event times
// stay meaningful; callers answer 503.
const MaxAhead = 30 * time.Second

// ErrClock is returned when the clock is so far behind the last id that a new one would lie about its time.
var ErrClock = errors.New("clock is more than 30 s behind the last id")

// Generator makes time-ordered ids. The zero value is not usable; see NewGenerator.
type Generator struct {
	now     func() time.Time
	onStall func(wait time.Duration)

	mu      sync.Mutex // guards the rest
	ms      int64
	seq     uint16
	stalled bool // New fails
}

// NewGenerator returns a generator on the given clock; nil means time.Now.
func NewGenerator(now func() time.Time) *Generator {
	if now == nil {
		now = time.Now
	}
	return &Generator{now: now, onStall: func(time.Duration) {}}
}

// OnStall sets what is told when New begins to fail: how long it will go on failing, unless the clock is set.
// It is told 0 when New works again. OnStall must be called before the generator is used.
func (g *Generator) OnStall(told func(wait time.Duration)) { g.onStall = told }

// New returns the next id for a partition. It never goes back in time: after a clock step back the
// last millisecond goes on being used, 4,096 ids each, until the clock has caught up. Further ahead of
// the clock than MaxAhead it returns ErrClock.
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

// Next is New for ids whose time means nothing and that only bring things into order: it works however far
// the clock is behind.
func (g *Generator) NewUnbounded(partition int32) ID {
	wall := g.now().UnixMilli()
	g.mu.Lock()
	g.ms, g.seq = g.next(wall)
	ms, seq := g.ms, g.seq
	g.mu.Unlock()
	return compose(ms, seq, partition)
}

// Ahead is how far the next id would be ahead of the clock, 0 if not at all.
func (g *Generator) Ahead() time.Duration {
	wall := g.now().UnixMilli()
	g.mu.Lock()
	ms, _ := g.next(wall)
	g.mu.Unlock()
	return time.Duration(ms-wall) * time.Millisecond
}

// next is the time and the number of the id after the last. g.mu is held.
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

func compose(ms int64, seq uint16, partition int32) ID {
	var d ID
	binary.BigEndian.PutUint64(d[:8], uint64(ms)<<16|uint64(partition&0xfff)<<4|uint64(seq>>8))
	binary.BigEndian.PutUint64(d[8:], uint64(seq)<<56|rand.Uint64()>>8)
	return d
}
