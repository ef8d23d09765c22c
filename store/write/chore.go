package write

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/store/internal/ch"
)

// ownerEvery is how often a node looks whether it is the one to do a chore.
const ownerEvery = 5 * time.Second

// Tables leads to the rows that chores change.
type Tables interface {
	Pool() *ch.Pool
	// Oldest is the beginning of what can be read.
	Oldest() time.Time
	// CaughtUp is nil when the store has what was acknowledged before the call.
	CaughtUp(context.Context) error
}

// ChoreDeps are what work on the tables needs that one node of all does.
type ChoreDeps struct {
	Log     *slog.Logger
	Store   Tables
	IsOwner func() bool // whether this node is the one to do it
	Metrics prometheus.Registerer
}

// chore is work on the tables that one node of all does again and again.
type chore struct {
	ChoreDeps
	name     string        // what it does, for the log
	every    time.Duration // from the end of one look to the next
	look     func(context.Context) error
	idle     func() // on a node that is not the one; nil: nothing
	failures prometheus.Counter
}

// run looks soon after this node has become the owner and then every chore.every, until ctx ends. A look that fails is
// told of, and made again at the next beat.
func (c chore) run(ctx context.Context) error {
	beat := min(c.every, ownerEvery)
	timer := time.NewTimer(beat)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		wait := beat
		if c.IsOwner() {
			if err := c.look(ctx); err != nil && ctx.Err() == nil {
				c.failures.Inc()
				c.Log.LogAttrs(ctx, slog.LevelWarn, c.name, slog.Any("error", err))
			}
			wait = c.every
		} else if c.idle != nil {
			c.idle()
		}
		timer.Reset(wait)
	}
}
