package events

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/web"
)

const (
	// maxBatchBodies bounds the batches that this node holds in memory, maxBatches those that it stores at the same
	// time: four fit into the queue of one partition. A slow sender occupies a body slot only, never a storing slot.
	maxBatchBodies, maxBatches = 32, 4
	// maxBatchBodiesOfKey bounds the batches of one API key, so that the slow senders of one application leave room for
	// other applications.
	maxBatchBodiesOfKey = maxBatchBodies / 2
	// batchWait is how long a batch waits for a free slot before it is refused with 429.
	batchWait = 5 * time.Second
)

// batchSlots bounds the batches of this node by what they occupy: memory and the queues of the log.
type batchSlots struct {
	bodies, storing chan struct{} // an element for each batch

	mu   sync.Mutex // guards what follows
	keys map[string]*keySlots
}

// keySlots are the batches of one API key. It is deleted with the last of them.
type keySlots struct {
	bodies  chan struct{}
	batches int // in bodies, or waiting
}

func newBatchSlots() *batchSlots {
	return &batchSlots{bodies: make(chan struct{}, maxBatchBodies), storing: make(chan struct{}, maxBatches),
		keys: map[string]*keySlots{}}
}

// enterBody waits for room for the body of a batch, first among those of the same key. Call leave once.
func (s *batchSlots) enterBody(ctx context.Context, key string) (leave func(), err error) {
	s.mu.Lock()
	of := s.keys[key]
	if of == nil {
		of = &keySlots{bodies: make(chan struct{}, maxBatchBodiesOfKey)}
		s.keys[key] = of
	}
	of.batches++
	s.mu.Unlock()
	forget := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if of.batches--; of.batches == 0 {
			delete(s.keys, key)
		}
	}
	if err := acquireBatchSlot(ctx, of.bodies, "with this API key"); err != nil {
		forget()
		return nil, err
	}
	if err := acquireBatchSlot(ctx, s.bodies, "on this node"); err != nil {
		<-of.bodies
		forget()
		return nil, err
	}
	return func() {
		<-s.bodies
		<-of.bodies
		forget()
	}, nil
}

// enterStoring waits for room to store a batch. Call leave once.
func (s *batchSlots) enterStoring(ctx context.Context) (leave func(), err error) {
	if err := acquireBatchSlot(ctx, s.storing, "on this node"); err != nil {
		return nil, err
	}
	return func() { <-s.storing }, nil
}

// acquireBatchSlot waits up to batchWait for a free slot. The caller receives from slots to free it.
func acquireBatchSlot(ctx context.Context, slots chan struct{}, where string) error {
	timeout := time.NewTimer(batchWait)
	defer timeout.Stop()
	select {
	case slots <- struct{}{}:
		return nil
	case <-timeout.C:
	case <-ctx.Done(): // the client has left; nobody reads the answer
	}
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
		Message: strconv.Itoa(cap(slots)) + " batches are already being processed " + where +
			"; nothing was stored, send the batch again"}
}
