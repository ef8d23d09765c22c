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
	"github.com/eventrelay/relay/pkg/event"
)

// Deps are what only this area asks.
type Deps struct {
	Traffic TrafficReader
	Pulls   Pulls
	// Resolver resolves the hosts of saved destinations, to warn about internal addresses; nil turns the warnings off.
	Resolver *net.Resolver
	// ValidateVerification checks the signature settings of an endpoint, secrets in clear. It returns the invalid
	// member and what is wrong with it, or empty texts.
	ValidateVerification func(v config.Verification, secrets []string) (param, message string)
}

// Others are what the area has of other areas.
type Others struct {
	Draining context.Context // ends when pulls must end
	// Needs add to the overview what needs a person, Shown to an endpoint what features know of it, Rows renders events as
	// in their list.
	Needs []frame.AddNeeds
	Shown []frame.ShowEndpoint
	Rows  func([]event.Summary) []wire.EventRow
}

// area is what all handlers of the area have.
type area struct {
	*frame.Core
	Deps
	Others
}

// Routes builds the area and returns its routes.
func Routes(c *frame.Core, d Deps, of Others) []frame.Route {
	all := &area{c, d, of}
	x := &endpoints{area: all, searching: make(chan struct{}, maxSearches)}
	dests, overviews, ofPulls, ofTenants := &destinations{x}, newOverviews(all), &pulls{all}, &tenants{x}
	previews := &previews{all, frame.NewTurns(maxPreviews, previewWait)}
	c.OwnEndpoint = ofTenants.ownEndpoint
	const one = "/v1/endpoints/{endpoint}"
	const oneDestination = one + "/destinations/{destination}"
	endpoint := frame.Finds(c.EndpointInPath)
	destination := func(r *http.Request, key *config.Key) error {
		_, _, err := c.DestinationInPath(r, key)
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
		{Path: one + "/filter/preview", Methods: frame.Methods{"POST": previews.previewFilter}, Computes: true,
			Readable: true},
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

// TrafficReader reads counts of requests to destinations from the store.
type TrafficReader interface {
	// Overview returns the traffic of the hour, the day and a range that end with the minute of now.
	Overview(ctx context.Context, account string, span event.TrafficRange, now time.Time) (event.Overview, error)
	// DestinationTraffic returns the traffic of one endpoint in the same hour and day, and in a range, by destination.
	DestinationTraffic(ctx context.Context, account, endpoint string, span event.TrafficRange, now time.Time) (
		event.DestinationTraffic, error)
}
