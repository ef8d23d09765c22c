package kafka

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// answerTimeout bounds how long an offset commit waits for the answers to produce requests. kfake answers at once. A
// request without an answer (acks=0) promises nothing and is given up after this time.
const answerTimeout = time.Second

// produceTracker tracks the produce requests that the broker has and has not answered. Their records may be in the log,
// and read by consumers, before a barrier knows of them, so an offset commit waits for these answers first.
type produceTracker struct {
	mu      sync.Mutex // guards running
	running map[chan struct{}]struct{}
}

func newProduceTracker() *produceTracker {
	return &produceTracker{running: make(map[chan struct{}]struct{})}
}

// start tracks a request. The channel is closed when the request is answered or given up.
func (t *produceTracker) start() chan struct{} {
	finished := make(chan struct{})
	t.mu.Lock()
	t.running[finished] = struct{}{}
	t.mu.Unlock()
	return finished
}

// finish ends the tracking of a request. It may be called more than once, and with nil.
func (t *produceTracker) finish(finished chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.running[finished]; ok {
		delete(t.running, finished)
		close(finished)
	}
}

// wait returns when all requests that are tracked now are finished, or stop is closed. After answerTimeout it gives the
// others up.
func (t *produceTracker) wait(stop <-chan struct{}) {
	t.mu.Lock()
	all := slices.Collect(maps.Keys(t.running))
	t.mu.Unlock()
	if len(all) == 0 {
		return
	}
	limit := time.NewTimer(answerTimeout)
	defer limit.Stop()
	for _, finished := range all {
		select {
		case <-finished:
		case <-stop:
			return
		case <-limit.C:
			for _, finished := range all {
				t.finish(finished)
			}
			return
		}
	}
}
