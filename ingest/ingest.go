// Package ingest takes webhooks from providers: it looks the endpoint up by the token of the URL,
// verifies the provider's signature over the raw body, gives the event its id and appends it to the
// topic events.
//
// In: HTTP requests at {base_url}/in/{token}. Out: records of the topic events, and the endpoint's own
// answer once the record is durable. No database is asked on this path.
//
// Guaranteed: a 2xx is given only after the log has the event durably; nothing that was accepted is
// invisible, a rejected request is stored with its reason (10 a second and endpoint, 64 KiB each).
// When the log cannot take an event the answer is 503 with Retry-After, never a queue without a bound.
// The package starts no goroutine.
package ingest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/ingest/verify"
	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// PathPrefix is where providers post to, followed by an endpoint's token.
const PathPrefix = "/in/"

// maxRejectedBody is what is kept of the body of a rejected request, in bytes.
const maxRejectedBody = 64 << 10

// Config of the stage.
type Config struct {
	BaseURL string // as the provider calls it, without a trailing slash; Twilio signs it
	MaxBody int64  // bytes
}

// Endpoints is what ingest needs of the configuration.
type Endpoints interface {
	// EndpointByToken returns nil for a token that no endpoint has.
	EndpointByToken(token string) *control.Endpoint
}

// Deps are the stage's dependencies; all are needed.
type Deps struct {
	Metrics   prometheus.Registerer
	Endpoints Endpoints
	Keyring   *control.Keyring
	Producer  Producer
	IDs       *id.Generator
	Now       func() time.Time
	Front     *web.Front
}

// Ingest serves the ingest URLs.
type Ingest struct {
	cfg      Config
	deps     Deps
	acceptor *Acceptor
	metrics  *metrics
	bodies   bodyReader
	rejects  perSecond
	opened   opened
}

// New returns the stage.
func New(cfg Config, deps Deps) *Ingest {
	m := newMetrics(deps.Metrics)
	return &Ingest{
		cfg: cfg, deps: deps, metrics: m,
		acceptor: &Acceptor{log: deps.Producer, ids: deps.IDs, metrics: m},
		bodies:   bodyReader{max: cfg.MaxBody},
		rejects:  perSecond{limit: 10},
		opened:   opened{keyring: deps.Keyring},
	}
}

// Acceptor is the way into the log that sending through the API shares.
func (g *Ingest) Acceptor() *Acceptor { return g.acceptor }

// Handler answers requests at PathPrefix.
func (g *Ingest) Handler() http.Handler { return g.deps.Front.Wrap(g.serve) }

func (g *Ingest) serve(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckHeader(r); err != nil {
		return &web.Error{Status: http.StatusRequestHeaderFieldsTooLarge, Type: web.InvalidRequest, Message: err.Error()}
	}
	web.InfoOf(r).Route = PathPrefix + "{token}"
	ep := g.deps.Endpoints.EndpointByToken(strings.TrimPrefix(r.URL.Path, PathPrefix))
	if ep == nil || !ep.Enabled {
		return web.Missing("no endpoint has this URL")
	}
	req := verify.Request{Method: r.Method, URL: g.cfg.BaseURL + r.URL.RequestURI(), Header: r.Header, Now: g.deps.Now()}
	switch r.Method {
	case http.MethodHead:
		w.WriteHeader(http.StatusOK)
		return nil
	case http.MethodGet:
		if text, ok := verify.Challenge(req); ok {
			writeText(w, text)
			return nil
		}
		fallthrough
	default:
		w.Header().Set("Allow", "POST, PUT, PATCH, DELETE, HEAD")
		return &web.Error{Status: http.StatusMethodNotAllowed, Type: web.InvalidRequest, Message: "send webhooks with POST, PUT, PATCH or DELETE"}
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	}
	body, err := g.bodies.read(w, r)
	if err != nil {
		return bodyError(err)
	}
	req.Body = body
	if text, ok := verify.Challenge(req); ok {
		writeText(w, text)
		return nil
	}
	return g.receive(w, r, ep, req)
}

// receive verifies, stores and answers one webhook.
func (g *Ingest) receive(w http.ResponseWriter, r *http.Request, ep *control.Endpoint, req verify.Request) error {
	e := &event.Event{
		Source: event.SourceProvider, Verdict: event.VerdictUnverified, Method: r.Method, Query: r.URL.RawQuery,
		RemoteIP: web.InfoOf(r).Client, Header: web.HeaderFields(r), Body: req.Body,
	}
	if err := g.judge(ep, req, e); err != nil {
		return err
	}
	if e.Verdict == event.VerdictRejected {
		return g.reject(ep, e)
	}
	if ep.TypeSource != nil {
		if source, err := event.ParseTypeSource(*ep.TypeSource); err == nil { // judged when it was saved
			e.Type = source.Of(r.Header, req.Body)
		}
	}
	if e.Dests = ep.EnabledDestinations(); len(e.Dests) == 0 {
		e.Reason = event.NoDestination
	}
	// The provider going away does not end it: what it sent completely shall be kept.
	if err := g.acceptor.Accept(context.WithoutCancel(r.Context()), e, ep); err != nil {
		return acceptError(err)
	}
	w.Header().Set("Content-Type", ep.Response.ContentType)
	w.Header().Set("Relay-Event-Id", e.ID.Text(id.Event))
	w.WriteHeader(ep.Response.Status)
	_, _ = w.Write([]byte(ep.Response.Body)) // a client that left has its event stored all the same
	return nil
}

// judge sets the verdict of the endpoint's verification and, when it failed, the reason.
func (g *Ingest) judge(ep *control.Endpoint, req verify.Request, e *event.Event) error {
	if ep.Verification == nil {
		return nil
	}
	conf, err := g.opened.config(ep)
	if err != nil {
		return err
	}
	reason := verify.Check(conf, req)
	switch {
	case reason == "":
		e.Verdict = event.VerdictVerified
	case ep.Verification.Mode == "observe":
		e.Verdict, e.Reason = event.VerdictObserved, event.Reason(reason)
	default:
		e.Verdict, e.Reason = event.VerdictRejected, event.Reason(reason)
	}
	return nil
}

// reject stores a rejected request, within its bounds, and answers 401.
func (g *Ingest) reject(ep *control.Endpoint, e *event.Event) error {
	g.metrics.rejected.WithLabelValues(string(e.Reason)).Inc()
	refused := &web.Error{Status: http.StatusUnauthorized, Type: web.InvalidRequest, Code: string(e.Reason),
		Message: "the signature was not accepted: " + string(e.Reason)}
	if !g.rejects.allow(ep.ID, g.deps.Now()) {
		g.metrics.unstored.Inc()
		return refused
	}
	e.Body = e.Body[:min(len(e.Body), maxRejectedBody)]
	if err := g.acceptor.Accept(context.Background(), e, ep); err != nil {
		return acceptError(err)
	}
	return refused
}

// acceptError is the answer to an error of Acceptor.Accept.
func acceptError(err error) error {
	return web.Away(err, "the event could not be stored now; send it again")
}

func bodyError(err error) error {
	switch {
	case errors.Is(err, errTooLarge):
		return &web.Error{Status: http.StatusRequestEntityTooLarge, Type: web.PayloadTooLarge, Message: "the body is larger than this service takes"}
	case errors.Is(err, errSlow):
		return &web.Error{Status: http.StatusRequestTimeout, Type: web.Timeout, Message: "the body did not arrive in time"}
	case errors.Is(err, errCrowded):
		return acceptError(err)
	default:
		return &web.Error{Status: http.StatusBadRequest, Type: web.InvalidRequest, Message: "the body could not be read", Err: err}
	}
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text))
}
