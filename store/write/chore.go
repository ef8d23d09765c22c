package write

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/store/internal/ch"
)

// ownerCheckInterval is how often a node checks whether it is the one that does a chore.
const ownerCheckInterval = 5 * time.Second

// Tables gives chores access to the tables. read.Reader implements it.
type Tables interface {
	Pool() *ch.Pool
	// Oldest is the beginning of the retention: reads show nothing older.
	Oldest() time.Time
	// CaughtUp returns nil if the store holds everything about events that was acknowledged before the call.
	CaughtUp(context.Context) error
}

// ChoreDeps are the dependencies of chores: work on the tables that only one node of a cluster does.
type ChoreDeps struct {
	Log     *slog.Logger
	Store   Tables
	IsOwner func() bool // whether this node does the chores
	Metrics prometheus.Registerer
}

// chore is periodic work on the tables that only one node of a cluster does.
type chore struct {
	ChoreDeps
	failure  string        // log message when work fails
	interval time.Duration // from the end of one call of work to the next
	work     func(context.Context) error
	onIdle   func() // called on the nodes that do not do the chore; may be nil
	failures prometheus.Counter
}

// run calls work within ownerCheckInterval after this node has become the owner, and then every chore.interval, until
// ctx ends. An error is logged and counted; the next call comes after the usual interval.
func (c chore) run(ctx context.Context) error {
	pollInterval := min(c.interval, ownerCheckInterval)
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		wait := pollInterval
		if c.IsOwner() {
			if err := c.work(ctx); err != nil && ctx.Err() == nil {
				c.failures.Inc()
				c.Log.LogAttrs(ctx, slog.LevelWarn, c.failure, slog.Any("error", err))
			}
			wait = c.interval
		} else if c.onIdle != nil {
			c.onIdle()
		}
		timer.Reset(wait)
	}
}
