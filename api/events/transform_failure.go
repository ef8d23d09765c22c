package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/transform"
)

// Why a body could not be transformed is not stored: names in the body are payload, which may be erased. It follows
// from the body and the operations that were in force, so it is found again when the event is read.

// maxFailureSearches is how many events a node explains at the same time; a further one waits for failureWait, and is
// then shown without the explanation.
const maxFailureSearches, failureWait = 2, 2 * time.Second

// failedOperation names the operation for `why`, counted from 1 as in the dashboard. It has no names of the body:
// some readers
// take `why` for the relay's own words.
func failedOperation(x *wire.TransformFailure) string {
	if x.TransformationVersion == 0 {
		return "the condition of the filter has no value for this event"
	}
	if x.Index == nil {
		return fmt.Sprintf("version %d failed on the body as a whole", x.TransformationVersion)
	}
	return fmt.Sprintf("operation %d of version %d failed", *x.Index+1, x.TransformationVersion)
}

// transformFailures finds out why bodies could not be transformed.
type transformFailures struct {
	*frame.Core
	turns frame.Turns
}

func newTransformFailures(c *frame.Core) *transformFailures {
	return &transformFailures{c, frame.NewTurns(maxFailureSearches, failureWait)}
}

// versionOf is a version of the transformation of an endpoint or a destination.
type versionOf struct {
	owner   string
	version int
}

// of returns the failures of an event's deliveries by destination. It leaves out those that cannot be found any more:
// the endpoint was deleted, or no longer has the operations.
func (a *transformFailures) of(ctx context.Context, d *event.Detail) map[string]*wire.TransformFailure {
	var failed []*event.Delivery
	for i := range d.Deliveries {
		if x := &d.Deliveries[i]; x.Status == event.Failed && x.Reason == event.TransformFailed {
			failed = append(failed, x)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	e := a.PresentEndpoint(d.Event.Endpoint, d.Event.Account)
	if e == nil {
		return nil
	}
	end, ok := a.turns.Take(ctx)
	if !ok {
		return nil
	}
	defer end()
	out := make(map[string]*wire.TransformFailure, len(failed))
	byVersion := make(map[versionOf]*wire.TransformFailure)
	conditions := e.Conditions()
	for _, x := range failed {
		if failure := filterFailure(e, conditions, d.Event, x.Destination); failure != nil {
			out[x.Destination] = failure
			continue
		}
		t, owner := e.TransformationOf(x.Destination)
		if t == nil {
			continue
		}
		key := versionOf{owner, t.VersionAt(x.LastAt)}
		found, known := byVersion[key]
		if !known {
			found = a.find(ctx, t, key.version,
				transform.Input{Event: d.Event, Tenant: e.Tenant, Attempt: x.Attempts + 1})
			byVersion[key] = found
		}
		if found != nil {
			out[x.Destination] = found
		}
	}
	return out
}

// filterFailure says why the filter of a destination cannot be evaluated for an event; nil if it can. Its version is 0.
func filterFailure(e *config.Endpoint, c *filter.Conditions, ev *event.Event, dest string) *wire.TransformFailure {
	i := slices.IndexFunc(e.Destinations, func(d config.Destination) bool { return d.ID == dest })
	if c == nil || i < 0 {
		return nil
	}
	if _, err := c.HoldFor(i, ev, e.Tenant); err != nil {
		return &wire.TransformFailure{Failure: wire.Failure{Message: "filter.when: " + err.Error()}}
	}
	return nil
}

// find applies the version that was in force when the delivery ended. The clock of the node that saved a version may
// differ from that of the one that delivered, so a version that does not fail gives way to its neighbours.
func (a *transformFailures) find(
	ctx context.Context, t *config.Transformation, version int, in transform.Input,
) *wire.TransformFailure {
	for _, v := range []int{version, version - 1, version + 1} {
		ops, kept := t.OpsOf(v)
		if !kept || len(ops) == 0 {
			continue
		}
		program, err := transform.Compile(ops)
		if err != nil { // a newer version of the relay wrote it
			continue
		}
		_, err = program.Apply(ctx, in, int(2*a.MaxBody))
		if failure, ok := errors.AsType[*transform.Failure](err); ok {
			return &wire.TransformFailure{TransformationVersion: v, Failure: *frame.FailureViewOf(failure)}
		}
	}
	return nil
}
