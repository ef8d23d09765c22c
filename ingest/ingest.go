// Package ingest takes webhooks from providers: it looks the endpoint up by the token of the URL,
// verifies the provider's signature over the raw body, gives the event its id and appends it to the
// topic events.
//
// In: HTTP requests at {base_url}/in/{token}. Out: records of the topic events, and the endpoint's own
// answer once the record is durable. No database is asked on this path.
//
// Guaranteed: a 2xx is given only after the log has the event durably (challenges and HEAD are no events);
// nothing that was accepted is invisible, a rejected request is stored with its reason (10 a second and
// endpoint, those of up to 64 KiB; the others are counted), and so is a duplicate; bodies are stored as they came,
// compressed or not, whole or not at all.
//
// Backpressure: when the log does not take an event the answer is 503 with Retry-After, at once where the
// log is known to be full or stalled, and never a queue without a bound. What waits for one partition is
// bounded apart from the others. The package starts no goroutine.
package ingest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
)

// PathPrefix is where providers post to, followed by an endpoint's token.
const PathPrefix = "/in/"

// Config of the stage.
type Config struct {
	BaseURL string // as the provider calls it, without a trailing slash; Twilio signs it
	MaxBody int64  // bytes
}

// Endpoints is what ingest needs of the configuration.
type Endpoints interface {
	// EndpointByToken returns nil for a token that no endpoint has.
	EndpointByToken(token string) *config.Endpoint
}

// Deps are the stage's dependencies; all but Refuse are needed.
type Deps struct {
	Metrics   prometheus.Registerer
	Endpoints Endpoints
	Keyring   *config.Keyring
	Producer  Producer
	Claims    Claims
	Limits    Limits
	// Logged reports whether the log holds an event of the last minutes.
	EventInLog func(ctx context.Context, account string, event id.ID) (bool, error)
	IDs        *id.Generator
	Now        func() time.Time
	ClockSkew  func() time.Duration // how far the broker's clock is ahead of this node's
	// Refuse says why no event may be accepted now, as an error that is stream.ErrBufferFull; nil: all may be.
	CheckCapacity func() error
	Front         *web.Front
}

// Ingest serves the ingest URLs.
type Ingest struct {
	cfg      Config
	deps     Deps
	acceptor *Acceptor
	metrics  *metrics
	bodies   bodyReader
	preparer preparer
}

// New returns the stage.
func New(cfg Config, deps Deps) *Ingest {
	m := newMetrics(deps.Metrics)
	front := *deps.Front
	front.BodyTimeout = cmp.Or(front.BodyTimeout, bodyGrace)
	deps.Front = &front
	return &Ingest{
		cfg: cfg, deps: deps, metrics: m,
		acceptor: &Acceptor{
			producer: deps.Producer, ids: deps.IDs, clockSkew: deps.ClockSkew, checkCapacity: deps.CheckCapacity,
			limits: deps.Limits, metrics: m,
		},
		bodies:   bodyReader{maxBytes: cfg.MaxBody, budget: maxReadingBytes, grace: front.BodyTimeout},
		preparer: preparer{keyring: deps.Keyring},
	}
}

// Acceptor is the way into the log that sending through the API shares.
func (g *Ingest) Acceptor() *Acceptor { return g.acceptor }

// Handler answers requests at PathPrefix.
func (g *Ingest) Handler() http.Handler { return g.deps.Front.Wrap(g.serve) }

func (g *Ingest) serve(w http.ResponseWriter, r *http.Request) error {
	web.InfoOf(r).Route = PathPrefix + "{token}"
	if err := web.CheckHeader(r); err != nil {
		return &web.Error{Status: http.StatusRequestHeaderFieldsTooLarge, Type: web.InvalidRequest, Message: err.Error()}
	}
	ep := g.deps.Endpoints.EndpointByToken(strings.TrimPrefix(r.URL.Path, PathPrefix))
	if ep == nil || !ep.Enabled {
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
	return g.receive(w, r, ep, req)
}

// target is the request target in origin-form, byte for byte as it came: Twilio signs it, and parsing a URL
// does not give all of its bytes back.
func requestTarget(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	// Absolute-form, as sent to a proxy (RFC 9112, 3.2.2). Its path is not empty, or it would not be ours.
	if _, rest, ok := strings.Cut(r.RequestURI, "://"); ok {
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			return rest[i:]
		}
	}
	return r.URL.RequestURI()
}

// receive verifies, stores and answers one webhook.
func (g *Ingest) receive(w http.ResponseWriter, r *http.Request, ep *config.Endpoint, req verify.Request) error {
	p, err := g.preparer.get(ep)
	if err != nil {
		return err
	}
	e := &event.Event{
		Source: event.SourceProvider, Verdict: event.VerdictUnverified, Method: r.Method, Query: r.URL.RawQuery,
		RemoteIP: web.InfoOf(r).Client, Header: web.HeaderFields(r), Body: req.Body,
	}
	if p.verify != nil {
		e.Verdict, e.Reason = verifyRequest(*p.verify, ep.Verification.Mode, req)
	}
	if e.Verdict == event.VerdictRejected {
		return g.reject(ep, e)
	}
	e.Type, e.Dests = p.types.Of(r.Header, req.Body), p.dests
	if len(e.Dests) == 0 && e.Reason == "" { // what an observing endpoint saw is told nowhere else
		e.Reason = event.NoDestination
	}
	e.SkipIfLoop(ep.ID)
	// The provider going away does not end it: what it sent completely shall be kept.
	if err := g.store(context.WithoutCancel(r.Context()), ep, p, e, req); err != nil {
		return acceptError(err)
	}
	w.Header().Set("Content-Type", ep.Response.ContentType)
	w.Header().Set("Relay-Event-Id", e.ID.Text(id.Event))
	w.WriteHeader(ep.Response.Status)
	_, _ = io.WriteString(w, ep.Response.Body) // a client that left has its event stored all the same
	return nil
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

// acceptError is the answer to an error of Acceptor.Accept or store. Refusals come by the thousand while the log is
// away; they are counted, not logged one by one.
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
			Message: "the body is larger than this service takes"}
	case errors.Is(err, errSlow):
		return &web.Error{Status: http.StatusRequestTimeout, Type: web.Timeout, Message: "the body did not arrive in time"}
	case errors.Is(err, errReadBudget):
		g.metrics.refused.WithLabelValues("crowded").Inc()
		return web.ServiceUnavailable(nil, "too many requests are being read; send it again")
	case errors.Is(err, errReadShare):
		g.metrics.refused.WithLabelValues("share").Inc()
		return web.ServiceUnavailable(nil, "too much is being read for this endpoint or from this address; send it again")
	default:
		return &web.Error{Status: http.StatusBadRequest, Type: web.InvalidRequest,
			Message: "the body could not be read", Err: err}
	}
}
