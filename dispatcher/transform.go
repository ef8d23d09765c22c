package dispatcher

import (
	"context"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/transform"
)

// A transformation changes each attempt just before its request, with the newest version of the operations of the
// destination, or of its endpoint. What cannot be changed is never sent: the delivery ends as failed, without an
// attempt.
//
// Memory: what a transformed body may take is part of the delivery's size from the moment it comes to its lane, so the
// bounds of the lanes hold for it. What the operations need while they run is bounded here.

const (
	// transformMemory bounds the memory of operations that run at the same time. One that needs more runs alone.
	transformMemory = 64 << 20
	// transformFactor is how many times the size of a body its operations need at most.
	transformFactor = 32
	// maxProgramBytes bounds the compiled operations in memory, by the length of their paths and values.
	maxProgramBytes = 32 << 20
)

// transformations holds the compiled operations of endpoints and destinations.
type transformations struct {
	maxOutput int
	memory    *semaphore.Weighted

	mu      sync.Mutex // guards the fields below
	byOwner map[string]compiledTransformation
	bytes   int
}

// compiledTransformation is that of one revision of an endpoint.
type compiledTransformation struct {
	rev     int64
	program *transform.Program
	err     error // it was written by a newer version of the relay
	bytes   int
}

func newTransformations(maxOutput int) *transformations {
	return &transformations{maxOutput: maxOutput, memory: semaphore.NewWeighted(transformMemory)}
}

// program returns the compiled operations for a destination, of the endpoint's revision; nil: there are none.
func (t *transformations) program(endpoint *config.Endpoint, dest string) (*transform.Program, error) {
	now, owner := endpoint.TransformationOf(dest)
	if !now.Transforms() {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	cached, ok := t.byOwner[owner]
	if ok && cached.rev == endpoint.Rev {
		return cached.program, cached.err
	}
	fresh := compiledTransformation{rev: endpoint.Rev, bytes: sizeOfOps(now.Ops)}
	fresh.program, fresh.err = transform.Compile(now.Ops)
	t.bytes += fresh.bytes - cached.bytes
	if t.byOwner == nil || t.bytes > maxProgramBytes {
		t.byOwner, t.bytes = make(map[string]compiledTransformation), fresh.bytes
	}
	t.byOwner[owner] = fresh
	return fresh.program, fresh.err
}

// sizeOfOps is about what compiled operations take in memory.
func sizeOfOps(ops []transform.Op) int {
	const perOp, perStep, perByteOfExpr = 256, 96, 200
	n := perOp
	path := func(text string) { n += len(text) + perStep*(1+strings.Count(text, "/")+strings.Count(text, ".")) }
	for _, op := range ops {
		n += perOp + len(op.Key) + len(op.Value) + perByteOfExpr*(len(op.Expr)+len(op.When))
		path(op.From)
		path(op.To)
		path(op.Path)
		path(op.At)
		for _, p := range op.Paths {
			path(p)
		}
	}
	return n
}

// reserve adds the longest body that the transformation can make to the size of a delivery that comes to its lane.
func (t *transformations) reserve(view ConfigView, delivery *lane.Delivery) {
	endpoint, presence := view.Endpoint(delivery.Work.Event.Endpoint)
	if presence != entity.Present {
		return
	}
	if program, err := t.program(endpoint, delivery.Work.Dest); err == nil && program != nil {
		delivery.Reserved = program.MaxOutput(len(delivery.Work.Event.Body), t.maxOutput)
		delivery.Size += delivery.Reserved
	}
}

// apply returns the content of an attempt, and whether an operation cancels the delivery. Its error says why there is
// none; ctx.Err is set if the node stops.
func (t *transformations) apply(
	ctx context.Context, endpoint *config.Endpoint, work *event.Work,
) (content destination.Content, cancelled bool, err error) {
	program, err := t.program(endpoint, work.Dest)
	switch {
	case err != nil:
		return content, false, err
	case program == nil:
		return destination.Stored(work), false, nil
	}
	memory := min(transformFactor*int64(len(work.Event.Body)), transformMemory)
	if err := t.memory.Acquire(ctx, memory); err != nil {
		return content, false, err
	}
	defer t.memory.Release(memory)
	made, err := program.Apply(ctx, transform.Input{Event: work.Event, Tenant: endpoint.Tenant, Attempt: work.Attempt},
		t.maxOutput)
	now, _ := endpoint.TransformationOf(work.Dest)
	content = destination.Content{Body: made.Body, Version: now.Number(), Changed: made.Changed,
		Header: made.Header, Path: made.Path, Method: made.Method}
	if v := endpoint.Verification; v != nil && v.Header != "" {
		content.Signature = destination.Canonical(v.Header)
	}
	return content, made.Cancelled, err
}
