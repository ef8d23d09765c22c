package kafka

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// transitLimit bounds how long an offset commit waits for produce requests to be answered. kfake answers at once; a
// request that wants no answer (acks=0) promises nothing and counts as over then.
const transitLimit = time.Second

// A transit holds the produce requests that the broker has and has not answered. Their records may be in the log, and
// read by consumers, before any barrier knows of them; so an offset commit waits until they are answered.
type transit struct {
	mu sync.Mutex // guards in
	in map[chan struct{}]struct{}
}

func newTransit() *transit { return &transit{in: make(map[chan struct{}]struct{})} }

// enter notes a request. The channel is closed when it is over.
func (t *transit) enter() chan struct{} {
	over := make(chan struct{})
	t.mu.Lock()
	t.in[over] = struct{}{}
	t.mu.Unlock()
	return over
}

// leave ends a request, once or several times; nil is none.
func (t *transit) leave(over chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.in[over]; ok {
		delete(t.in, over)
		close(over)
	}
}

// wait returns when all requests that are in now are over, or stop is closed.
func (t *transit) wait(stop <-chan struct{}) {
	t.mu.Lock()
	all := slices.Collect(maps.Keys(t.in))
	t.mu.Unlock()
	if len(all) == 0 {
		return
	}
	limit := time.NewTimer(transitLimit)
	defer limit.Stop()
	for _, over := range all {
		select {
		case <-over:
		case <-stop:
			return
		case <-limit.C:
			for _, over := range all {
				t.leave(over)
			}
			return
		}
	}
}
