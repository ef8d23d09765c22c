// Package events serves events: sending them one by one and in batches, reading them, why a delivery ended as it did,
// the explanation of a signature, streams, receipts, and the erasure of payloads. An event is acknowledged when the log
// has stored it. Answers that show much are written when there is memory for them.
package events

import (
	"context"
	"net/http"
	"time"

	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
)

// Deps are what only this area asks.
type Deps struct {
	Accept   Accepter
	Receipts Receipts
	Feed     *feed.Feed // for GET …/stream
	// Explain explains the signature of an event with the endpoint's current secrets, nil if the endpoint verifies none.
	// The explanation may contain the token of the ingest URL.
	Explain func(ep *config.Endpoint, e *event.Event) (*verify.Explanation, error)
	// Sample builds a test event as the provider would send it, signed if the endpoint has the provider's secret. An
	// empty kind selects the provider's most common type.
	Sample func(ep *config.Endpoint, provider, kind string, d id.ID) (*event.Event, error)
}

// area is what all handlers of the area have.
type area struct {
	*frame.Core
	Deps
}

// Area serves events.
type Area struct {
	sender     *sender
	events     *events
	signatures *signatures
	payloads   *payloads
	receipts   *receipts
	streams    *streams
}

// New builds the area. A stream sends something every keepAlive (0 = 15 s). The claim of the Idempotency-Key of a send
// may be taken over after takeOver (0 = claim.TakeOverAfter).
func New(c *frame.Core, d Deps, keepAlive, takeOver time.Duration) *Area {
	all := &area{c, d}
	x := &events{area: all, answers: newAnswerLimiter(), failures: newTransformFailures(c),
		counts: frame.Recent[countsAnswer]{Now: c.Now}}
	return &Area{
		sender: newSender(all, takeOver), events: x,
		signatures: &signatures{events: x, turns: frame.NewTurns(maxExplanations, explanationWait)},
		payloads:   &payloads{all},
		receipts:   &receipts{all},
		streams: &streams{
			area: all, keepAlive: keepAlive,
			open: openStreams{draining: make(chan struct{}), count: make(map[string]int)},
		},
	}
}

// Routes returns the routes of the area, the busiest first.
func (a *Area) Routes() []frame.Route {
	const one = "/v1/endpoints/{endpoint}"
	event := func(r *http.Request, key *config.Key) error {
		_, err := a.events.EventInPath(r, key)
		return err
	}
	return []frame.Route{
		{Path: frame.SendPath, Methods: frame.Methods{"POST": a.sender.sendEvent}, Sends: true},
		{Path: frame.SendPath + "/batch", Methods: frame.Methods{"POST": a.sender.sendBatch}, Sends: true},
		{Path: "/v1/tenants/{tenant}/events", Methods: frame.Methods{"POST": a.ofTenant(a.sender.sendEvent)}, Sends: true},
		{Path: "/v1/tenants/{tenant}/events/batch", Methods: frame.Methods{"POST": a.ofTenant(a.sender.sendBatch)},
			Sends: true},
		{Path: "/v1/tenants/{tenant}/test", Methods: frame.Methods{"POST": a.ofTenant(a.sender.testEndpoint)},
			InPath: func(r *http.Request, key *config.Key) error {
				_, err := a.events.OwnEndpoint(r, key)
				return err
			}},
		{Path: "/v1/events", Methods: frame.Methods{"GET": a.events.listEvents}},
		// before /v1/events/{event}, which it matches
		{Path: "/v1/events/counts", Methods: frame.Methods{"GET": a.events.countEvents}},
		{Path: "/v1/events/{event}", Methods: frame.Methods{"GET": a.events.readEvent}},
		{Path: "/v1/events/{event}/attempts", Methods: frame.Methods{"GET": a.events.listAttempts}},
		{Path: "/v1/events/{event}/signature", Methods: frame.Methods{"GET": a.signatures.explainSignature}},
		{Path: "/v1/events/{event}/payload", Methods: frame.Methods{"DELETE": a.payloads.erasePayload}},
		// the newest receipt wins, and processed is final
		{Path: "/v1/events/{event}/processing", Methods: frame.Methods{"POST": a.receipts.receiveProcessing},
			InPath: event, Resumable: true, KeyOptional: true},
		{Path: one + "/test", Methods: frame.Methods{"POST": a.sender.testEndpoint},
			InPath: frame.Finds(a.events.EndpointInPath)},
		{Path: one + "/stream", Methods: frame.Methods{"GET": a.streams.streamEvents}, Endless: true},
	}
}

// ofTenant makes a handler of an endpoint one of the endpoint that a tenant's events go to.
func (a *Area) ofTenant(next frame.HandlerFunc) frame.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, key *config.Key) error {
		e, err := a.events.OwnEndpoint(r, key)
		if err != nil {
			return err
		}
		web.InfoOf(r).Vars["endpoint"] = e.ID
		return next(w, r, key)
	}
}

// Query reads the filters of GET /v1/events.
func (a *Area) Query(q *frame.Query, key *config.Key) event.Query {
	return a.events.eventQuery(q, key)
}

// Rows renders events as the rows of a list.
func (a *Area) Rows(all []event.Summary) []wire.EventRow { return a.events.rowsOf(all) }

// AnswerLarge sends what build returns as JSON when there is memory for it; maxBytes is the upper bound of its encoded
// size.
func (a *Area) AnswerLarge(ctx context.Context, w http.ResponseWriter, maxBytes int, build func() any) error {
	return a.events.answers.write(ctx, w, maxBytes, build)
}

// Drain ends all streams, which would otherwise never finish.
func (a *Area) Drain() { a.streams.open.drain() }

// Accepter writes events, complete with their ids, to the log. It returns when they are durable or after its time
// limit; then an event may still become durable later.
type Accepter interface {
	Accept(ctx context.Context, e *event.Event, ep *config.Endpoint) error
	// AcceptAll writes several events at the same time and returns an error or nil for each.
	AcceptAll(ctx context.Context, es []*event.Event, ep *config.Endpoint) []error
}

// Receipts stores what receivers report about the processing of events.
type Receipts interface {
	// EventEndpoint returns the endpoint that an event belongs to.
	EventEndpoint(ctx context.Context, account string, d id.ID) (string, error)
	// Report writes a receipt to the log and returns the resulting state. event.ErrUnavailable means that the receipt
	// is in the log, but the store is too far behind to return its effect.
	Report(ctx context.Context, r *event.Receipt) (event.ReceiptResult, error)
}
