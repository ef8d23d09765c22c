package reconcile

import (
	"context"
	"embed"
	"encoding/json"
	"net/http"
	"time"

	api "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/web"
)

// Feature registers this package.
var Feature = features.Feature{Name: "reconcile", New: func(h *features.Host) features.Parts {
	return features.Parts{
		Stages: []features.Start{{Name: "reconciliation", Role: nodeconfig.RoleDispatch,
			New: func() (func(context.Context) error, error) { return newRunner(h) }}},
		API: API,
	}
}}

// newRunner returns what asks providers for events that they could not deliver to the endpoints of this node.
func newRunner(h *features.Host) (func(context.Context) error, error) {
	transport, err := egress.NewTransport(h.Outbound())
	if err != nil {
		return nil, err
	}
	return New(Deps{
		Log: h.Log, Endpoints: h.Assigned, Keyring: h.Keyring, HTTP: transport,
		Take: h.Ingest.TakeFetched, MaxBody: h.Ingest.MaxBody(), Metrics: h.Metrics,
		Show: func(endpoint string, s Status, life time.Duration) {
			text, _ := json.Marshal(s)
			h.Limiter.SetSourceStatus(endpoint+kinds.ReconcileStatus, string(text), life)
		},
	}).Run, nil
}

//go:embed openapi.yaml
var document embed.FS

// API returns the routes.
func API(c *api.Core) api.Area {
	x := &shown{c}
	return api.Area{
		Routes: []api.Route{
			{Path: "/v1/endpoints/{endpoint}/reconciliation", Methods: api.Methods{"GET": x.read}},
		},
		ShowEndpoint: func(ctx context.Context, e *config.Endpoint, to *wire.Endpoint) {
			if status := x.of(ctx, e); !time.Time(status.At).IsZero() {
				to.Reconciliation = status
			}
		},
		Document: wire.Part{Texts: document},
	}
}

// shown is what the nodes say of their passes.
type shown struct{ *api.Core }

// read returns how the last look at the provider has ended.
func (x *shown) read(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	x.CatchUp(r.Context())
	e, err := x.EndpointInPath(r, key)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, x.of(r.Context(), e))
}

// of returns what the node that asks the provider says of it; all is zero if it says nothing.
func (x *shown) of(ctx context.Context, e *config.Endpoint) *wire.Reconciliation {
	var s Status
	if e.Reconcile != nil {
		_ = json.Unmarshal([]byte(x.LimiterStore.SourceStatus(ctx, e.ID+kinds.ReconcileStatus)), &s)
	}
	return &wire.Reconciliation{Object: "reconciliation", EndpointID: e.ID, Provider: e.Provider,
		At: web.Time(s.At), Next: web.Time(s.Next), Since: web.Time(s.Since), Last: wire.ReconcileCounts(s.Last),
		Total: wire.ReconcileCounts(s.Total), Error: api.OrNull(s.Error), FailedInARow: s.Failed}
}
