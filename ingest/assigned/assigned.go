// Package assigned keeps work running for the endpoints in the partitions that a node dispatches.
//
// A change of an endpoint or of the partitions ends its work and begins it again. Two nodes may believe for a moment to
// own an endpoint: the work has to bear that. Run owns every goroutine: one for each endpoint.
package assigned

import (
	"context"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/wait"
)

// scanEvery is how often Run checks which endpoints this node owns.
const scanEvery = 2 * time.Second

// Endpoints are those that may need work.
type Endpoints interface {
	EndpointsWithInbound() []*config.Endpoint
	// EndpointsChanged returns a channel that is closed when an endpoint is changed after the call.
	EndpointsChanged() <-chan struct{}
	// OwnsPartition reports whether this node dispatches the events of a partition.
	OwnsPartition(partition int32) bool
}

// running is the work for one endpoint.
type running struct {
	rev    int64 // of the endpoint
	cancel context.CancelFunc
	done   chan struct{}
}

// Run keeps work running for each of the endpoints that this node owns and that needs it, until ctx ends.
func Run(ctx context.Context, from Endpoints, needs func(*config.Endpoint) bool,
	work func(context.Context, *config.Endpoint)) error {
	var all sync.WaitGroup
	defer all.Wait() // the contexts of all end with ctx
	works := map[string]*running{}
	for ctx.Err() == nil {
		changed := from.EndpointsChanged()
		wanted := map[string]*config.Endpoint{}
		for _, ep := range from.EndpointsWithInbound() {
			if needs(ep) && from.OwnsPartition(ep.Partition) {
				wanted[ep.ID] = ep
			}
		}
		for id, x := range works {
			if ep := wanted[id]; ep == nil || ep.Rev != x.rev {
				x.cancel() // its successor begins when it has ended
			}
			select {
			case <-x.done:
				delete(works, id)
			default:
			}
		}
		for id, ep := range wanted {
			if works[id] == nil {
				inner, cancel := context.WithCancel(ctx)
				x := &running{rev: ep.Rev, cancel: cancel, done: make(chan struct{})}
				works[id] = x
				all.Go(func() {
					defer close(x.done)
					work(inner, ep)
				})
			}
		}
		_ = wait.For(ctx, scanEvery/4) // many changes cost few scans
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(scanEvery):
		}
	}
	return nil
}
