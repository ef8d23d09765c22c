package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ownerEvery is how often a node looks whether it is the one to do a chore.
const ownerEvery = 5 * time.Second

// chore is work on the tables that one node of all does again and again.
type chore struct {
	name     string        // what it does, for the log
	every    time.Duration // from the end of one look to the next
	owner    func() bool   // whether this node is the one to do it
	look     func(context.Context) error
	idle     func() // on a node that is not; nil: nothing
	failures prometheus.Counter
	log      *slog.Logger
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
		if c.owner() {
			if err := c.look(ctx); err != nil && ctx.Err() == nil {
				c.failures.Inc()
				c.log.LogAttrs(ctx, slog.LevelWarn, c.name, slog.Any("error", err))
			}
			wait = c.every
		} else if c.idle != nil {
			c.idle()
		}
		timer.Reset(wait)
	}
}

// apart calls f for every shard at once, whatever becomes of the others: what can be done on one does not wait for one
// that is away.
func (r *Reader) apart(f func(shard int) error) error {
	failed := make([]error, len(r.conns))
	var wg sync.WaitGroup
	for shard := range r.conns {
		wg.Go(func() {
			if err := f(shard); err != nil {
				failed[shard] = r.onShard(shard, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}
