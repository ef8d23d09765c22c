package kafka

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// answerTimeout bounds how long an offset commit waits for produce requests to be answered. kfake answers at once; a
// request that wants no answer (acks=0) promises nothing and counts as over then.
const answerTimeout = time.Second

// produceTracker holds the produce requests that the broker has and has not answered. Their records may be in the log, and
// read by consumers, before any barrier knows of them; so an offset commit waits until they are answered.
type produceTracker struct {
	mu      sync.Mutex // guards in
	running map[chan struct{}]struct{}
}

func newProduceTracker() *produceTracker {
	return &produceTracker{running: make(map[chan struct{}]struct{})}
}

// start notes a request. The channel is closed when it is over.
func (t *produceTracker) start() chan struct{} {
	over := make(chan struct{})
	t.mu.Lock()
	t.running[over] = struct{}{}
	t.mu.Unlock()
	return over
}

// finish ends a request, once or several times; nil is none.
func (t *produceTracker) finish(over chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.running[over]; ok {
		delete(t.running, over)
		close(over)
	}
}

// wait returns when all requests that are in now are over, or stop is closed.
func (t *produceTracker) wait(stop <-chan struct{}) {
	t.mu.Lock()
	all := slices.Collect(maps.Keys(t.running))
	t.mu.Unlock()
	if len(all) == 0 {
		return
	}
	limit := time.NewTimer(answerTimeout)
	defer limit.Stop()
	for _, over := range all {
		select {
		case <-over:
		case <-stop:
			return
		case <-limit.C:
			for _, over := range all {
				t.finish(over)
			}
			return
		}
	}
}
