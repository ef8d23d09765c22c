package endpoints

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/web"
)

// inboundView returns where an endpoint gets events otherwise than by its ingest URL, with masked secrets.
func (a *endpoints) inboundView(e *config.Endpoint) (kinds.Inbound, error) {
	opened, err := e.Inbound.Open(a.Keyring, e.ID)
	if err != nil {
		return kinds.Inbound{}, fmt.Errorf("open the secrets of the source of %s: %w", e.ID, err)
	}
	return opened.Masked(frame.MaskText), nil
}

// sourceStatus returns what the node that reads the source says of it, nil if it says nothing.
func (a *endpoints) sourceStatus(ctx context.Context, e *config.Endpoint) *wire.SourceStatus {
	var s struct {
		Lag   int64
		Error string
		At    time.Time
	}
	if e.Source == nil || json.Unmarshal([]byte(a.LimiterStore.SourceStatus(ctx, e.ID)), &s) != nil {
		return nil
	}
	return &wire.SourceStatus{Lag: s.Lag, Error: frame.OrNull(s.Error), At: web.Time(s.At)}
}

// shownInbound is what a request is merged into: with masked secrets, in structs of its own.
func (in *endpointInput) shownInbound(e *config.Endpoint) kinds.Inbound {
	shown, err := in.endpoints.inboundView(e)
	if in.Err == nil {
		in.Err = err
	}
	return shown
}

// inbound sets the source and the reconciliation of a request.
func (in *endpointInput) inbound(o *frame.Object, next kinds.Inbound, e *config.Endpoint) {
	if in.Err != nil {
		return
	}
	most := config.MaxSources
	if e.Tenant != "" { // one tenant leaves sources to the others
		most = config.MaxTenantSources
	}
	others, _ := in.endpoints.Config.EndpointsWhere(e.Account, 0, most, func(x *config.Endpoint) (yes, stop bool) {
		return x.HasInbound() && (e.Tenant == "" || x.Tenant == e.Tenant), false
	})
	switch {
	case !e.HasInbound() && next != (kinds.Inbound{}) && len(others) == most:
		in.Fail(cmp.Or(slices.Sorted(maps.Keys(next.Origins()))...), "is used by %d endpoints, which is the most", most)
		return
	case next.Reconcile != nil && e.Dedup == nil:
		in.Fail("reconcile", "needs dedup, by which an event that arrived is not fetched again")
		return
	}
	opened, err := e.Inbound.Open(in.endpoints.Keyring, e.ID)
	if err != nil {
		in.Err = err
		return
	}
	shown := opened.Masked(frame.MaskText)
	next.Trim(e.ID, e.Provider, in.endpoints.Now())
	kept := unmask(o, next.Secrets(), shown.Secrets(), opened.Secrets())
	in.checkSettings(o, func(c kinds.Checks) error { return next.ValidateFor(e.Provider, c) })
	before := e.Inbound.Origins()
	for part, origin := range next.Origins() {
		in.refuseMoved(o, slices.DeleteFunc(slices.Clone(kept), func(path string) bool {
			return !strings.HasPrefix(path, part+".")
		}), before[part] != origin)
	}
	if in.Err == nil {
		e.Inbound = next.Seal(in.endpoints.Keyring, e.ID, e.Inbound, opened)
	}
}
