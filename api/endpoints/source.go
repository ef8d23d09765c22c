package endpoints

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/web"
)

// sourceView returns the source of an endpoint with masked secrets, nil if it has none.
func (a *endpoints) sourceView(e *config.Endpoint) (*kinds.Source, error) {
	if e.Source == nil {
		return nil, nil
	}
	opened, err := e.Source.Open(a.keyring, e.ID)
	if err != nil {
		return nil, fmt.Errorf("open the source of %s: %w", e.ID, err)
	}
	masked := opened.Masked(frame.MaskText)
	return &masked, nil
}

// sourceStatus returns what the node that reads the source says of it, nil if it says nothing.
func (a *endpoints) sourceStatus(ctx context.Context, e *config.Endpoint) *wire.SourceStatus {
	var s struct {
		Lag   int64
		Error string
		At    time.Time
	}
	if e.Source == nil || json.Unmarshal([]byte(a.limiterStore.SourceStatus(ctx, e.ID)), &s) != nil {
		return nil
	}
	return &wire.SourceStatus{Lag: s.Lag, Error: frame.OrNull(s.Error), At: web.Time(s.At)}
}

// shownSource is the source into which a request is merged: with masked secrets, in structs of its own.
func (in *endpointInput) shownSource(e *config.Endpoint) *kinds.Source {
	shown, err := in.endpoints.sourceView(e)
	if in.Err == nil {
		in.Err = err
	}
	return shown
}

// source sets the source of a request.
func (in *endpointInput) source(o *frame.Object, next *kinds.Source, e *config.Endpoint) {
	before := e.Source
	if next == nil || in.Err != nil {
		e.Source = nil
		return
	}
	if next.Kafka == nil {
		in.Fail("source.kafka", "is required; null in place of source ends it")
		return
	}
	var shown, opened kinds.Source
	others, _ := in.endpoints.config.EndpointsWhere(e.Account, 0, config.MaxSources,
		func(x *config.Endpoint) (yes, stop bool) { return x.Source != nil, false })
	if before == nil && len(others) == config.MaxSources {
		in.Fail("source", "is used by %d endpoints, which is the most", config.MaxSources)
		return
	} else if before != nil {
		if opened, in.Err = before.Open(in.endpoints.keyring, e.ID); in.Err != nil {
			return
		}
		shown = opened.Masked(frame.MaskText)
	}
	next.Trim(e.ID)
	kept := unmask(o, next.Secrets(), shown.Secrets(), opened.Secrets())
	in.checkSettings(o, next)
	if in.refuseMoved(o, kept, next.Origin() != before.Origin()); in.Err != nil {
		return
	}
	sealed := next.Seal(in.endpoints.keyring, e.ID, before, &opened)
	e.Source = &sealed
}
