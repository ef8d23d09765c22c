package kafka

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// maxParallelSyncs bounds the fdatasyncs of one barrier that run together. Each holds a thread, and a
// disk gains little from more.
const maxParallelSyncs = 16

// A target is something on disk that a barrier makes durable. Targets are pointers, compared by identity.
type target interface{ sync() error }

// A barrier makes targets durable in rounds, one after the other. What joins while a round runs shares
// the next one, so the busier the disk, the more each fdatasync serves.
type barrier struct {
	wake    chan struct{} // holds one token while a round waits
	fail    func(error)
	observe func(targets int, took time.Duration)

	mu   sync.Mutex // guards the fields below
	next *round     // collects until it starts; nil when nothing waits
	err  error      // the first error; no round succeeds after it
}

// A round is one run of a barrier. Its err may be read after done is closed.
type round struct {
	targets map[target]struct{}
	done    chan struct{}
	err     error
}

func newBarrier(fail func(error), observe func(int, time.Duration)) *barrier {
	return &barrier{wake: make(chan struct{}, 1), fail: fail, observe: observe}
}

// join adds targets to the next round, which starts after this call, and returns it. Without targets the
// round only follows all that were joined before.
func (b *barrier) join(targets ...target) *round {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = &round{targets: make(map[target]struct{}, len(targets)), done: make(chan struct{})}
		select {
		case b.wake <- struct{}{}:
		default: // never: the token of the round before is taken together with that round
		}
	}
	for _, t := range targets {
		b.next.targets[t] = struct{}{}
	}
	return b.next
}

// run executes rounds until ctx ends, and then the one that still waits.
func (b *barrier) run(ctx context.Context) {
	for {
		select {
		case <-b.wake:
			b.execute()
		case <-ctx.Done():
			b.execute()
			return
		}
	}
}

func (b *barrier) execute() {
	b.mu.Lock()
	r, err := b.next, b.err
	b.next = nil
	b.mu.Unlock()
	if r == nil {
		return
	}
	if err == nil && len(r.targets) > 0 {
		start := time.Now()
		err = syncTargets(r.targets)
		b.observe(len(r.targets), time.Since(start))
	}
	if err != nil {
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
		b.fail(err)
	}
	r.err = err
	close(r.done)
}

func syncTargets(targets map[target]struct{}) error {
	if len(targets) == 1 {
		for t := range targets {
			return t.sync()
		}
	}
	var group errgroup.Group
	group.SetLimit(maxParallelSyncs)
	for t := range targets {
		group.Go(t.sync)
	}
	return group.Wait()
}
