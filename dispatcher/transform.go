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
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/transform"
)

// A transformation changes the stored body of each attempt just before its request, with the newest version of the
// endpoint's operations. A body that cannot be changed is never sent: the delivery ends as failed, without an attempt.
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

// transformations holds the compiled operations of endpoints.
type transformations struct {
	maxOutput int
	memory    *semaphore.Weighted

	mu         sync.Mutex // guards the fields below
	byEndpoint map[string]compiledTransformation
	bytes      int
}

// compiledTransformation is the transformation of one version of an endpoint.
type compiledTransformation struct {
	rev     int64
	program *transform.Program
	err     error // it was written by a newer version of the relay
	bytes   int
}

func newTransformations(maxOutput int) *transformations {
	return &transformations{maxOutput: maxOutput, memory: semaphore.NewWeighted(transformMemory)}
}

// program returns the compiled operations of the endpoint's revision.
func (t *transformations) program(endpoint *config.Endpoint) (*transform.Program, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cached, ok := t.byEndpoint[endpoint.ID]
	if ok && cached.rev == endpoint.Rev {
		return cached.program, cached.err
	}
	fresh := compiledTransformation{rev: endpoint.Rev, bytes: sizeOfOps(endpoint.Transformation.Ops)}
	fresh.program, fresh.err = transform.Compile(endpoint.Transformation.Ops)
	t.bytes += fresh.bytes - cached.bytes
	if t.byEndpoint == nil || t.bytes > maxProgramBytes {
		t.byEndpoint, t.bytes = make(map[string]compiledTransformation), fresh.bytes
	}
	t.byEndpoint[endpoint.ID] = fresh
	return fresh.program, fresh.err
}

// sizeOfOps is about what compiled operations take in memory.
func sizeOfOps(ops []transform.Op) int {
	const perOp, perStep = 256, 96
	n := perOp
	path := func(text string) { n += len(text) + perStep*(1+strings.Count(text, "/")+strings.Count(text, ".")) }
	for _, op := range ops {
		n += perOp + len(op.Key) + len(op.Value)
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
	if presence != entity.Present || !endpoint.Transforms() {
		return
	}
	if program, err := t.program(endpoint); err == nil {
		delivery.Reserved = program.MaxOutput(len(delivery.Work.Event.Body), t.maxOutput)
		delivery.Size += delivery.Reserved
	}
}

// apply returns the body of an attempt. Its error says why there is none; ctx.Err is set if the node stops.
func (t *transformations) apply(
	ctx context.Context, endpoint *config.Endpoint, work *event.Work,
) (destination.Content, error) {
	if !endpoint.Transforms() {
		return destination.Stored(work), nil
	}
	program, err := t.program(endpoint)
	if err != nil {
		return destination.Content{}, err
	}
	memory := min(transformFactor*int64(len(work.Event.Body)), transformMemory)
	if err := t.memory.Acquire(ctx, memory); err != nil {
		return destination.Content{}, err
	}
	defer t.memory.Release(memory)
	body, err := program.Apply(ctx, transform.Input{
		Body: work.Event.Body, EventID: work.Event.ID.Text(id.Event), EventType: work.Event.Type,
		ReceivedAt: work.Event.ReceivedAt(), EndpointID: work.Event.Endpoint, Attempt: work.Attempt,
		Sent: work.Event.Source == event.SourceAPI,
	}, t.maxOutput)
	made := destination.Content{Body: body, Version: endpoint.TransformationVersion()}
	if v := endpoint.Verification; v != nil && v.Header != "" {
		made.Signature = destination.Canonical(v.Header)
	}
	return made, err
}
