// Package ingest receives webhooks from providers: it finds the endpoint by the token in the URL, verifies the
// provider's signature over the raw body, assigns the event its id and produces it to the topic events.
//
// Requests arrive at {base_url}/in/{token}. The endpoint's configured response is sent once the record is durable. The
// path does not use ClickHouse. Redis holds the deduplication claims and the shared rate limits. Without Redis, events
// are accepted without deduplication and each node limits for itself.
//
// Guarantees: a 2xx is sent only after the log has the event durably (challenges and HEAD are not events). Duplicates
// are stored as events. Rejected requests are stored with their reason, up to 10 per second and endpoint, with bodies
// up to 64 KiB, and up to 1 MiB per minute; the others are counted in relay_ingest_rejected_unstored_total. Bodies are
// stored byte for byte, compressed or not, and never in part.
//
// Backpressure: when the log does not accept an event, the response is 503 with Retry-After, immediately if the
// producer is full or the partition has stalled. Events that wait for one partition have their own limits
// (partition_breaker.go), so a stalled partition does not block the others. The package starts no goroutine.
//
// Begin with Ingest.serve, then Acceptor.AcceptAll.
package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

// eventIDHeader names the stored event in a response.
const eventIDHeader = "Relay-Event-Id"

// PathPrefix precedes the endpoint's token in the path of an ingest URL.
const PathPrefix = "/in/"

// Config configures an Ingest.
type Config struct {
	BaseURL string // public URL of the relay without a trailing slash; part of what Twilio signs
	MaxBody int64  // bytes
	// ClaimTakeOver replaces claim.TakeOverAfter; 0 = that.
	ClaimTakeOver time.Duration
}

// Endpoints finds endpoints in the configuration.
type Endpoints interface {
	// EndpointByToken returns nil for a token that no endpoint has.
	EndpointByToken(token string) *config.Endpoint
	// Lease reports whether this node knows all endpoints whose creation was answered.
	Lease() (age time.Duration, ok bool)
	Tenant(account, name string) *config.Tenant // nil: there is none
	// Mismatch says where the body of an event does not match the schema of its type.
	Mismatch(ep *config.Endpoint, kind string, body []byte, spent *int) *event.Mismatch
}

// Tripwires has URLs that look like those of endpoints and that nobody has a reason to use.
type Tripwires interface {
	// Endpoint returns what a new endpoint would be at the URL of a tripwire, and the source of the record of a request
	// there; nil if no tripwire has the token.
	Endpoint(token string, r *http.Request) (ep *config.Endpoint, source event.Source)
	// Touch queues a hit for a request that leaves no such record.
	Touch(ep *config.Endpoint, source event.Source, r *http.Request)
}

// Deps are the dependencies of an Ingest. All but CheckCapacity, Tripwires and Spans are required.
type Deps struct {
	Metrics   prometheus.Registerer
	Endpoints Endpoints
	Keyring   *seal.Keyring
	Producer  Producer
	Claims    claim.Store
	Limits    Limits
	Rejected  Window // bytes of rejected requests that are stored
	// HasEvent reports whether an event is durable.
	HasEvent  func(ctx context.Context, account string, event id.ID) (bool, error)
	IDs       *id.Generator
	Now       func() time.Time
	ClockSkew func() time.Duration // how far the broker's clock is ahead of this node's
	// CheckCapacity returns an error that wraps stream.ErrBufferFull while no event may be accepted, because consumers
	// lag too far behind. If CheckCapacity is nil, events are always accepted.
	CheckCapacity func() error
	// Tripwires is asked for tokens that no endpoint has; nil: there is none.
	Tripwires Tripwires
	// Transport is of pkg/egress: it follows no redirect and requests only public addresses. Certificates of signatures
	// and confirmations of subscriptions use it.
	Transport http.RoundTripper
	Front     *web.Front
	Spans     *spans.Recorder // nil: no traces
}

// Ingest serves the ingest URLs.
type Ingest struct {
	cfg      Config
	deps     Deps
	acceptor *Acceptor
	metrics  *metrics
	bodies   bodyReader
	preparer preparer
	fetcher  fetcher

	claims    claim.Claims  // deduplication; the room is of bytes
	claimWait time.Duration // for an equal event that is being stored; only tests change it
}

// New returns an Ingest and registers its metrics.
func New(cfg Config, deps Deps) *Ingest {
	m := newMetrics(deps.Metrics)
	front := *deps.Front
	front.BodyTimeout = cmp.Or(front.BodyTimeout, bodyGrace)
	deps.Front = &front
	g := &Ingest{
		cfg: cfg, deps: deps, metrics: m, acceptor: &Acceptor{deps: &deps, metrics: m},
		bodies:   bodyReader{maxBytes: cfg.MaxBody, budget: maxReadingBytes, grace: front.BodyTimeout},
		preparer: preparer{keyring: deps.Keyring}, claimWait: claimWait,
		fetcher: fetcher{transport: deps.Transport, turns: make(chan struct{}, maxFetches),
			room: wait.NewRoom(maxClaimWaitBytes)},
		claims: claim.Claims{Store: deps.Claims, Now: deps.Now, TakeOver: cfg.ClaimTakeOver, Pause: claimPause,
			Room: wait.NewRoom(maxClaimWaitBytes), IsStored: deps.HasEvent},
	}
	return g
}

// Acceptor returns the acceptor, which the API uses for events that are sent through it.
func (g *Ingest) Acceptor() *Acceptor { return g.acceptor }

// Handler answers requests at PathPrefix.
func (g *Ingest) Handler() http.Handler { return g.deps.Front.Wrap(g.serve) }

func (g *Ingest) serve(w http.ResponseWriter, r *http.Request) error {
	web.InfoOf(r).Route = PathPrefix + "{token}"
	token := strings.TrimPrefix(r.URL.Path, PathPrefix)
	ep := g.deps.Endpoints.EndpointByToken(token)
	if ep == nil && g.deps.Tripwires != nil {
		name, _, isBelow := strings.Cut(token, "/")
		if fake, source := g.deps.Tripwires.Endpoint(name, r); fake != nil {
			return g.serveTripwire(w, r, fake, source, isBelow)
		}
	}
	return g.answer(w, r, ep, nil)
}

// serveTripwire answers at the URL of a tripwire as at that of an endpoint: by the same code, which stores the same
// record. Only its source differs, and who reads it makes the hit. The hit of a request that would make no event waits
// in a queue, because its answer waits for nothing. isBelow means that the path goes on after the token: no endpoint
// answers there.
func (g *Ingest) serveTripwire(w http.ResponseWriter, r *http.Request, ep *config.Endpoint, source event.Source,
	isBelow bool) error {
	use := &use{source: source}
	answering := ep
	if isBelow {
		answering = nil
	}
	err := g.answer(w, r, answering, use)
	if !use.stored {
		g.deps.Tripwires.Touch(ep, source, r)
	}
	return err
}

// use is a request at the URL of a tripwire.
type use struct {
	source event.Source // of its record
	stored bool         // its record is in the log, or may be
}

// answer answers a request. ep is the endpoint that has the URL, nil if none has it. use is nil unless it is a
// tripwire.
func (g *Ingest) answer(w http.ResponseWriter, r *http.Request, ep *config.Endpoint, use *use) error {
	if err := web.CheckHeader(r); err != nil {
		return &web.Error{Status: http.StatusRequestHeaderFieldsTooLarge, Type: web.InvalidRequest, Message: err.Error()}
	}
	if ep == nil || !ep.Enabled {
		if _, ok := g.deps.Endpoints.Lease(); !ok { // a 404 would end retries of some providers
			return web.ServiceUnavailable(nil, "this node cannot read the configuration at the moment; send it again")
		}
		return web.Missing("no endpoint has this URL")
	}
	req := verify.Request{Method: r.Method, URL: g.cfg.BaseURL + requestTarget(r), Header: r.Header, Now: g.deps.Now()}
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	case http.MethodHead:
		w.WriteHeader(http.StatusOK)
		return nil
	case http.MethodGet:
		if text, ok := challengeAnswer(ep, req); ok {
			writeChallenge(w, text)
			return nil
		}
		fallthrough
	default:
		w.Header().Set("Allow", "POST, PUT, PATCH, DELETE, HEAD")
		return &web.Error{Status: http.StatusMethodNotAllowed, Type: web.InvalidRequest,
			Message: "send webhooks with POST, PUT, PATCH or DELETE"}
	}
	var err error
	if req.Body, err = g.bodies.read(w, r, ep.ID, web.InfoOf(r).Client); err != nil {
		return g.bodyError(err)
	}
	if text, ok := challengeAnswer(ep, req); ok {
		writeChallenge(w, text)
		return nil
	}
	return g.receive(w, r, ep, req, use)
}

// requestTarget returns the request target in origin-form, byte for byte: Twilio signs it, and a parsed URL does not
// preserve all of its bytes.
func requestTarget(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	// Absolute-form, as sent to a proxy (RFC 9112, 3.2.2). Its path is not empty: it has matched PathPrefix.
	if _, rest, ok := strings.Cut(r.RequestURI, "://"); ok {
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			return rest[i:]
		}
	}
	return r.URL.RequestURI()
}

// receive verifies and stores one webhook, or the use of a tripwire, and writes the response.
func (g *Ingest) receive(w http.ResponseWriter, r *http.Request, ep *config.Endpoint, req verify.Request,
	use *use) error {
	p, err := g.preparer.get(ep)
	if err != nil {
		return err
	}
	e := &event.Event{
		Source: event.SourceProvider, Verdict: event.VerdictUnverified, Method: r.Method, Query: r.URL.RawQuery,
		RemoteIP: web.InfoOf(r).Client, Header: web.WithoutSessions(web.HeaderFields(r)), Body: req.Body,
	}
	span := g.deps.Spans.Accept(req.Now)
	if use != nil { // there is no event
		e.Source, span = use.source, nil
	}
	if p.verify != nil {
		span.Step("verify")
		if err := g.fetcher.certify(r.Context(), *p.verify, &req); err != nil {
			return err
		}
		e.Verdict, e.Reason = verifyRequest(*p.verify, ep.Verification.Mode, req)
	}
	if e.Verdict == event.VerdictRejected {
		return g.reject(w, r, ep, p, e)
	}
	if reply, ok := providerReply(ep, p, e.Verdict, req); ok {
		return g.answerHandshake(w, r, reply)
	}
	p.maskSecret(e)
	e.Type, e.Dests = p.types.Of(r.Header, req.Body), p.dests
	if len(e.Dests) == 0 && e.Reason == "" { // the reason of a failed verification in observe mode has precedence
		e.Reason = event.NoDestination
	}
	e.SkipIfLoop(ep.ID)
	g.validate(ep, e)
	span.Linked(e, ep.ID, r.Header.Get("Traceparent"))
	// The body is complete: store the event even if the provider disconnects now.
	err = g.store(context.WithoutCancel(r.Context()), ep, p, e, req)
	span.End(e, err)
	if use != nil {
		use.stored = err == nil || errors.Is(err, ErrOutcomeUnknown)
	}
	if err != nil {
		return acceptError(err)
	}
	w.Header().Set("Content-Type", ep.Response.ContentType)
	w.Header().Set(eventIDHeader, e.ID.Text(id.Event))
	w.WriteHeader(ep.Response.Status)
	_, _ = io.WriteString(w, ep.Response.Body) // the event is stored even if the client has disconnected
	return nil
}

// validate records where the body does not match the schema of its type.
func (g *Ingest) validate(ep *config.Endpoint, e *event.Event) {
	if ep.Validation != config.ValidateOff {
		e.Mismatch = g.deps.Endpoints.Mismatch(ep, e.Type, e.Body, new(int)).Text()
	}
}

// verifyRequest returns the verdict of the endpoint's verification and, when it failed, the reason.
func verifyRequest(conf verify.Config, mode string, req verify.Request) (event.Verdict, event.Reason) {
	reason := event.Reason(verify.Check(conf, req))
	switch {
	case reason == "":
		return event.VerdictVerified, ""
	case mode == "observe":
		return event.VerdictObserved, reason
	default:
		return event.VerdictRejected, reason
	}
}

// acceptError maps an error of Acceptor.Accept or store to a response. An event whose outcome is known gets no cause,
// so it is not logged: while the log is unavailable, thousands per second fail, and a metric counts them.
func acceptError(err error) error {
	if decided, ok := errors.AsType[*web.Error](err); ok {
		return decided
	}
	if errors.Is(err, ErrOutcomeUnknown) {
		return web.ServiceUnavailable(err, "the event may not have been stored; send it again")
	}
	return web.ServiceUnavailable(nil, "the event could not be stored now; send it again")
}

func (g *Ingest) bodyError(err error) error {
	switch {
	case errors.Is(err, errTooLarge):
		return &web.Error{Status: http.StatusRequestEntityTooLarge, Type: web.PayloadTooLarge,
			Message: fmt.Sprintf("the body is larger than %d bytes; send less", g.cfg.MaxBody)}
	case errors.Is(err, errSlow):
		return &web.Error{Status: http.StatusRequestTimeout, Type: web.Timeout, Message: "the body did not arrive in time"}
	case errors.Is(err, errReadBudget):
		g.metrics.refused.WithLabelValues("body_memory").Inc()
		return web.ServiceUnavailable(nil, "too many request bodies are being read; send it again later")
	case errors.Is(err, errReadShare):
		g.metrics.refused.WithLabelValues("body_memory_share").Inc()
		return web.ServiceUnavailable(
			nil, "too many request bodies are being read for this endpoint or from this address; send it again later")
	default:
		return &web.Error{Status: http.StatusBadRequest, Type: web.InvalidRequest,
			Message: "the body could not be read", Err: err}
	}
}
