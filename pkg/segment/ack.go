package segment

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/wait"
)

// Bounds on the syncs of one round. Each sync holds a thread, and a disk gains little from more than 16. A commit syncs
// up to hundreds of files each second, while nobody waits for it: with 16 at a time, senders waited behind them.
const (
	maxParallelSyncs       = 16
	maxParallelCommitSyncs = 2
)

// acker acknowledges records in rounds, one after the other. What is written during a round shares the next one, so the
// busier the disk, the more records share a sync.
type acker struct {
	log   *Log
	syncs bool          // before it acknowledges
	wake  chan struct{} // capacity 1; full while queue is not empty

	mu    sync.Mutex // guards queue
	queue []written
}

// written is a block to be acknowledged with err.
type written struct {
	block *block
	err   error
}

func newAcker(l *Log, syncs bool) acker {
	return acker{log: l, syncs: syncs, wake: make(chan struct{}, 1)}
}

func (a *acker) add(b *block, err error) {
	a.mu.Lock()
	a.queue = append(a.queue, written{b, err})
	a.mu.Unlock()
	wait.Wake(a.wake)
}

// Refuse lets a goroutine of the log tell an entry that was not appended why.
func (l *Log) Refuse(e Entry, err error) { l.other.add(&block{entries: []Entry{e}}, err) }

func (a *acker) run(ctx context.Context) {
	for {
		select {
		case <-a.wake:
			a.round()
		case <-ctx.Done():
			a.round()
			return
		}
	}
}

func (a *acker) round() {
	a.mu.Lock()
	queue := a.queue
	a.queue = nil
	a.mu.Unlock()
	if len(queue) == 0 {
		return
	}
	err := a.log.err()
	if a.syncs && err == nil {
		var partitions []*Partition
		for _, w := range queue {
			if p := w.block.partition; w.err == nil && !slices.Contains(partitions, p) {
				partitions = append(partitions, p)
			}
		}
		err = a.log.sync(partitions, true)
	}
	for _, w := range queue {
		if w.err == nil {
			w.err = err
		}
		for i, e := range w.block.entries {
			e.Done(w.block.first+int64(i), w.err)
		}
		w.block.entries = nil
	}
}

// sync syncs partitions. An error is final for the whole log.
func (l *Log) sync(partitions []*Partition, durable bool) error {
	if len(partitions) == 0 {
		return nil
	}
	began := time.Now()
	var err error
	if len(partitions) == 1 {
		err = partitions[0].sync()
	} else {
		var group errgroup.Group
		group.SetLimit(maxParallelCommitSyncs)
		if durable {
			group.SetLimit(maxParallelSyncs)
		}
		for _, p := range partitions {
			group.Go(p.sync)
		}
		err = group.Wait()
	}
	if err != nil {
		return err
	}
	if l.cfg.Synced != nil {
		l.cfg.Synced(durable, len(partitions), time.Since(began))
	}
	return nil
}

// syncDirty syncs all partitions that have records which are not on disk.
func (l *Log) syncDirty() error {
	dirty := slices.DeleteFunc(l.all(), func(p *Partition) bool { return p.synced.Load() >= p.end.Load() })
	return l.sync(dirty, false)
}
