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
	now func() time.Time

	mu  sync.Mutex // guards ms and seq
	ms  int64
	seq uint16
}

// NewGenerator returns a generator on the given clock; nil means time.Now.
func NewGenerator(now func() time.Time) *Generator {
	if now == nil {
		now = time.Now
	}
	return &Generator{now: now}
}

// New returns the next id for a partition. It never goes back in time: after a clock step back the
// last millisecond goes on being used, 4,096 ids each, until the clock has caught up.
func (g *Generator) New(partition int32) (ID, error) {
	wall := g.now().UnixMilli()
	g.mu.Lock()
	switch {
	case wall > g.ms:
		g.ms, g.seq = wall, 0
	case g.seq < 0xfff:
		g.seq++
	default:
		g.ms, g.seq = g.ms+1, 0
	}
	ms, seq := g.ms, g.seq
	g.mu.Unlock()
	if ms-wall > MaxAhead.Milliseconds() {
		return ID{}, ErrClock
	}
	var d ID
	binary.BigEndian.PutUint64(d[:8], uint64(ms)<<16|uint64(partition&0xfff)<<4|uint64(seq>>8))
	binary.BigEndian.PutUint64(d[8:], uint64(seq)<<56|rand.Uint64()>>8)
	return d, nil
}
