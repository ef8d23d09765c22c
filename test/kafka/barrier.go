package kafka

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// maxParallelSyncs bounds the fdatasyncs that one barrier runs at a time. Each holds a thread, and a disk gains little
// from more.
const maxParallelSyncs = 16

// A target is a file or directory that a barrier syncs. Targets are pointers, compared by identity.
type target interface{ sync() error }

// A barrier syncs targets in rounds, one round after the other (group commit). Targets that are joined while a round
// runs share the next one, so the busier the disk, the more targets share an fdatasync.
type barrier struct {
	wake chan struct{} // capacity 1; full while a round waits
	fail func(error)

	mu   sync.Mutex // guards the fields below
	next *round     // the round that collects targets; nil if none waits
	err  error      // the first error; all later rounds fail with it
}

// A round is one run of a barrier. err may be read once done is closed.
type round struct {
	targets map[target]struct{}
	done    chan struct{}
	err     error
}

func newBarrier(fail func(error)) *barrier {
	return &barrier{wake: make(chan struct{}, 1), fail: fail}
}

// join adds targets to the next round, which starts after this call, and returns that round. Without targets the round
// only waits for the targets that were joined before.
func (b *barrier) join(targets ...target) *round {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = &round{targets: make(map[target]struct{}, len(targets)), done: make(chan struct{})}
		select {
		case b.wake <- struct{}{}:
		default: // never: run receives from wake when it starts the round before
		}
	}
	for _, t := range targets {
		b.next.targets[t] = struct{}{}
	}
	return b.next
}

// run executes rounds until ctx ends, and then the round that still waits.
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
		err = syncTargets(r.targets)
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
