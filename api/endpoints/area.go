// Package endpoints serves endpoints with their destinations, verification and transformation, previews of
// transformations, and their traffic. Every input is validated once, before it takes effect; a secret is shown only in
// the answer that creates it.
package endpoints

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/secrets"
)

// Deps are the dependencies of the area.
type Deps struct {
	Core         *frame.Core
	Config       Configuration
	Keyring      *seal.Keyring
	LimiterStore frame.LimiterStore
	Limits       frame.Limits
	Egress       egress.Policy
	Resolver     *net.Resolver // nil: no warnings about internal addresses
	Events       frame.EventReader
	Erasures     frame.Erasures
	Traffic      TrafficReader
	Pulls        Pulls
	Draining     context.Context    // ends when pulls must end
	Secrets      []*secrets.Scanner // what previews mask
	BaseURL      string
	// ValidateVerification checks the signature settings of an endpoint; see Deps of package api.
	ValidateVerification func(v config.Verification, secrets []string) (param, message string)
	// Needs add to the overview what needs a person, Shown to an endpoint what features know of it, Rows renders events as
	// in their list.
	Needs []frame.AddNeeds
	Shown []frame.ShowEndpoint
	Rows  func([]event.Summary) []wire.EventRow
}

// Configuration is the configuration log as far as the area uses it.
type Configuration interface {
	Endpoints
	Tenants
	AlertSettings() *alerting.AlertSettings
}

// Routes builds the area and returns its routes.
func Routes(d *Deps) []frame.Route {
	x := &endpoints{
		Core: d.Core, config: d.Config, keyring: d.Keyring, limiterStore: d.LimiterStore, egress: d.Egress,
		alertSettings: d.Config.AlertSettings, resolver: d.Resolver, baseURL: d.BaseURL,
		validateVerification: d.ValidateVerification, shown: d.Shown,
		searching: make(chan struct{}, maxSearches),
	}
	dests, overviews := &destinations{Core: d.Core, endpoints: x, keyring: d.Keyring}, newOverviews(d)
	previews := &previews{
		Core: d.Core, events: d.Events, erasures: d.Erasures, limits: d.Limits, secrets: d.Secrets,
		turns: frame.NewTurns(maxPreviews, previewWait),
	}
	ofPulls := &pulls{Core: d.Core, router: d.Pulls, draining: d.Draining}
	ofTenants := &tenants{Core: d.Core, endpoints: x, config: d.Config}
	d.Core.OwnEndpoint = ofTenants.ownEndpoint
	const one = "/v1/endpoints/{endpoint}"
	const oneDestination = one + "/destinations/{destination}"
	endpoint := frame.Finds(d.Core.EndpointInPath)
	destination := func(r *http.Request, key *config.Key) error {
		_, _, err := d.Core.DestinationInPath(r, key)
		return err
	}
	return append(ofTenants.routes(), []frame.Route{
		{Path: "/v1/endpoints", Methods: frame.Methods{"GET": x.listEndpoints, "POST": x.createEndpoint},
			Resumable: true},
		{Path: "/v1/endpoints/validate", Methods: frame.Methods{"POST": x.validateEndpoint}, Computes: true},
		{Path: one + "/validate", Methods: frame.Methods{"POST": x.validateChange}, Computes: true},
		{Path: one, Methods: frame.Methods{"GET": x.readEndpoint, "PATCH": x.updateEndpoint,
			"DELETE": x.deleteEndpoint}},
		// the stored token or secret names the claim that created it
		{Path: one + "/rotate-token", Methods: frame.Methods{"POST": x.rotateToken}, InPath: endpoint, Resumable: true},
		{Path: one + "/transformation/preview", Methods: frame.Methods{"POST": previews.previewTransformation},
			Computes: true, Readable: true},
		{Path: one + "/transformation/versions", Methods: frame.Methods{"GET": x.listTransformationVersions}},
		{Path: one + "/destinations", Methods: frame.Methods{"POST": dests.createDestination},
			InPath: endpoint, Resumable: true},
		{Path: oneDestination, Methods: frame.Methods{"PATCH": dests.updateDestination, "DELETE": dests.deleteDestination}},
		{Path: oneDestination + "/rotate_secret", Methods: frame.Methods{"POST": dests.rotateSecret},
			InPath: destination, Resumable: true},
		// the default moment is the time of the claim
		{Path: oneDestination + "/purge", Methods: frame.Methods{"POST": dests.purgeDestination},
			InPath: destination, BodySelects: true, Resumable: true},
		{Path: oneDestination + "/pull", Methods: frame.Methods{"GET": ofPulls.pull}, Leases: true},
		{Path: oneDestination + "/ack", Methods: frame.Methods{"POST": ofPulls.acknowledge}, Computes: true},
		{Path: oneDestination + "/consumers", Methods: frame.Methods{"GET": ofPulls.listConsumers}},
		{Path: one + "/traffic", Methods: frame.Methods{"GET": overviews.readTraffic}},
		{Path: "/v1/overview", Methods: frame.Methods{"GET": overviews.readOverview}},
	}...)
}

// Endpoints reads and changes endpoints. A change returns after this node has applied it.
type Endpoints interface {
	Endpoint(id string) (*config.Endpoint, entity.Presence)
	// EndpointByToken returns the endpoint whose ingest URL has that token, or had it and accepts it still; or nil.
	EndpointByToken(token string) *config.Endpoint
	// Endpoints returns the endpoints created before that sequence (0 = all), newest first, and whether more follow.
	Endpoints(account string, beforeSeq int64, limit int) ([]*config.Endpoint, bool)
	// EndpointsWhere returns those that match. If match says stop, it returns what it has found, and false.
	EndpointsWhere(account string, beforeSeq int64, limit int, match func(*config.Endpoint) (yes, stop bool),
	) ([]*config.Endpoint, bool)
	CreateEndpoint(ctx context.Context, e *config.Endpoint) (*config.Endpoint, error)
	// UpdateEndpoint calls change with a copy of the newest endpoint, and again after a write conflict. If change
	// alters nothing, nothing is written.
	UpdateEndpoint(ctx context.Context, id string, change func(*config.Endpoint) error) (*config.Endpoint, error)
	// CheckCreate returns the error of a bound that CreateEndpoint would return.
	CheckCreate(e *config.Endpoint) error
	// CheckUpdate returns what UpdateEndpoint would make of an endpoint, or its error.
	CheckUpdate(e *config.Endpoint, change func(*config.Endpoint) error) (*config.Endpoint, error)
	// DeleteEndpoint returns config.ErrConflict if rev is not 0 and not the endpoint's revision.
	DeleteEndpoint(ctx context.Context, id string, rev int64) error
}

// TrafficReader reads counts of requests to destinations from the store.
type TrafficReader interface {
	// Overview returns the traffic of the hour and the day that end with the minute of now.
	Overview(ctx context.Context, account string, now time.Time) (event.Overview, error)
	// DestinationTraffic returns the traffic of one endpoint in the same hour and day, and in a range, by destination.
	DestinationTraffic(ctx context.Context, account, endpoint string, span event.TrafficRange, now time.Time) (
		event.DestinationTraffic, error)
}
