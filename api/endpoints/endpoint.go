package endpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/idna"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
)

// maxSearches is how many searches of endpoints a node runs at a time.
const maxSearches = 2

// endpoints serves endpoints: it validates, stores and shows their configuration.
type endpoints struct {
	*area
	lookups   lookups
	searching chan struct{} // has one element for each search that runs
}

func (a *endpoints) createEndpoint(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	e, in, err := a.newEndpoint(r, key)
	if err != nil {
		return err
	}
	created, err := a.Config.CreateEndpoint(r.Context(), e)
	if errors.Is(err, config.ErrConflict) { // the first call with the Idempotency-Key has created it
		if created, _ = a.Config.Endpoint(e.ID); created != nil {
			err = a.revealSecrets(in, created)
		}
	}
	if err != nil {
		return err
	}
	a.warnAddresses(r.Context(), in, nil, created)
	return a.answerEndpoint(w, r, key, http.StatusCreated, created, in)
}

// newEndpoint returns the endpoint of a request to create one: the body over the defaults.
func (a *endpoints) newEndpoint(r *http.Request, key *config.Key) (*config.Endpoint, *endpointInput, error) {
	body, err := a.Body(r)
	if err != nil {
		return nil, nil, err
	}
	e := &config.Endpoint{
		ID: frame.NewID(r, id.Endpoint), Account: key.Account, Provider: verify.Generic, RetryPolicy: retry.Default(),
		EndpointSettings: config.NewEndpointSettings(verify.Generic), Metadata: map[string]string{}, CreatedAt: a.Now(),
	}
	e.Name = e.ID[len(e.ID)-frame.DefaultNameLength:]
	e.Token = a.newToken(e.ID)
	in := a.newEndpointInput(key, true)
	in.merge(in.NewObject("", body), e)
	if in.Err == nil {
		in.Err = a.checkDestinations(e)
	}
	return e, in, in.Err
}

// revealSecrets puts the signing secrets that an earlier call with the same Idempotency-Key created into the answer:
// the client never received that call's answer.
func (a *endpoints) revealSecrets(in *endpointInput, e *config.Endpoint) error {
	clear(in.revealed) // drop the secrets that this call generated but did not store
	for i := range e.Destinations {
		d := &e.Destinations[i]
		secret, err := a.signingSecret(d, 0)
		if err != nil {
			return err
		}
		in.reveal(d, secret)
	}
	return nil
}

func (a *endpoints) answerEndpoint(w http.ResponseWriter, r *http.Request, key *config.Key, status int,
	e *config.Endpoint, in *endpointInput,
) error {
	view, err := a.endpointView(frame.ViewerOf(key), e, in.revealed, a.openBreakers(r.Context(), e))
	if err != nil {
		return err
	}
	view.Warnings, view.SourceStatus = in.Warnings, a.sourceStatus(r.Context(), e)
	for _, show := range a.Shown {
		show(r.Context(), e, view)
	}
	w.Header().Set("ETag", frame.RevisionTag(e))
	return web.Answer(w, status, view)
}

func (a *endpoints) readEndpoint(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.CatchUp(r.Context())
	e, err := a.EndpointInPath(r, key)
	if err != nil {
		return err
	}
	return a.answerEndpoint(w, r, key, http.StatusOK, e, &endpointInput{})
}

func (a *endpoints) listEndpoints(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := frame.NewQuery(r, "endpoints "+frame.ScopeOf(key))
	text := q.Text("must be UTF-8")
	tenants := q.List("tenant")
	p, err := a.ConfigPage(r, q)
	if err != nil {
		return err
	}
	endpoints, more, err := a.findEndpoints(r.Context(), text, key, tenants, p.Before, p.Limit)
	if err != nil {
		return err
	}
	views := make([]*wire.Endpoint, len(endpoints))
	held := a.openBreakers(r.Context(), endpoints...)
	for i, e := range endpoints {
		if views[i], err = a.endpointView(frame.ViewerOf(key), e, nil, held); err != nil {
			return err
		}
	}
	return frame.WriteConfigPage(w, p, endpoints, more, views)
}

// findEndpoints returns a page of the endpoints that contain text, ignoring case, in their name, their description or a
// value of their metadata, or in the name or the host and port of a destination; and of the endpoint or destination
// with that id. A URL finds destinations at its host, an ingest URL its endpoint. What the key may not see is not
// searched. Nor are paths and queries of URLs, which often hold a credential. A node runs maxSearches at a time:
// 20,000 endpoints take a tenth of a second of CPU.
func (a *endpoints) findEndpoints(ctx context.Context, text string, key *config.Key, tenants []string, before int64,
	limit int) (page []*config.Endpoint, more bool, err error) {
	if text = strings.ToLower(strings.TrimSpace(text)); key.Tenant != "" || len(tenants) > 0 {
		contains := containsText(a.ViewerOf(key), text)
		for _, e := range slices.Backward(a.endpointsOfTenants(key, tenants)) {
			if before != 0 && e.Seq >= before || text != "" && !contains(e) {
				continue
			}
			if len(page) == limit {
				return page, true, nil
			}
			page = append(page, e)
		}
		return page, false, nil
	}
	if text == "" {
		page, more = a.Config.Endpoints(key.Account, before, limit)
		return page, more, nil
	}
	address, _, _ := strings.Cut(text, "#")
	// Who knows all of a token can send to the endpoint anyway.
	if token := frame.URLToken(strings.TrimRight(address, "/")); token != "" {
		if e := a.Config.EndpointByToken(token); e != nil && e.Account == key.Account && (before == 0 || e.Seq < before) {
			return []*config.Endpoint{e}, false, nil
		}
	}
	select {
	case a.searching <- struct{}{}:
		defer func() { <-a.searching }()
	default:
		return nil, false, errTooManySearches()
	}
	contains := containsText(a.ViewerOf(key), text)
	page, more = a.Config.EndpointsWhere(key.Account, before, limit, func(e *config.Endpoint) (yes, stop bool) {
		return contains(e), ctx.Err() != nil
	})
	return page, more, ctx.Err()
}

// endpointsOfTenants returns the endpoints of tenants that a key sees, in the order of their creation.
func (a *endpoints) endpointsOfTenants(key *config.Key, tenants []string) (all []*config.Endpoint) {
	if key.Tenant != "" && len(tenants) == 0 {
		tenants = []string{key.Tenant}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(tenants))) {
		if key.Tenant == "" || key.Tenant == name {
			all = append(all, a.Config.TenantEndpoints(key.Account, name)...)
		}
	}
	slices.SortFunc(all, func(x, y *config.Endpoint) int { return cmp.Compare(x.Seq, y.Seq) })
	return all
}

// containsText matches endpoints that contain text, which is in lower case, where findEndpoints searches.
func containsText(by frame.Viewer, text string) func(*config.Endpoint) bool {
	host := text
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		host = u.Host
		if u.Scheme == "https" {
			host = strings.TrimSuffix(host, ":443") // stored URLs may lack it
		}
	}
	found := func(in string) bool {
		return strings.Contains(strings.ToLower(string(by.MaskTokens([]byte(in)))), text)
	}
	return func(e *config.Endpoint) bool {
		if e.ID == text || found(e.Name) || e.Description != nil && found(*e.Description) {
			return true
		}
		for _, value := range e.Metadata {
			if found(value) {
				return true
			}
		}
		return slices.ContainsFunc(e.Destinations, func(d config.Destination) bool {
			return d.ID == text || d.Name != nil && found(*d.Name) || atHost(by, d.URL, host)
		})
	}
}

// atHost reports whether host, which is in lower case, is in the host and port of a URL, or in their form with letters
// beyond ASCII.
func atHost(by frame.Viewer, raw, host string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false // cannot happen: stored URLs were parsed when they were saved
	}
	at := strings.ToLower(string(by.MaskTokens([]byte(u.Host))))
	if strings.Contains(at, host) {
		return true
	}
	unicode, _ := idna.ToUnicode(at) // what it cannot convert it returns as it is
	return strings.Contains(unicode, host)
}

// changeEndpoint applies a request to the endpoint in its path by calling update, and calls it again with the newest
// endpoint after a write conflict. A PATCH or DELETE changes nothing if If-Match names another revision; a rotation may
// be repeated after the first call has changed the endpoint.
func (a *endpoints) changeEndpoint(r *http.Request, key *config.Key, update endpointUpdate,
	merge func(in *endpointInput, o *frame.Object, e *config.Endpoint),
) (*config.Endpoint, *endpointInput, error) {
	before, err := a.EndpointInPath(r, key)
	if err != nil {
		return nil, nil, err
	}
	body := []byte("{}")
	if r.Method != http.MethodDelete {
		if body, err = a.Body(r); err != nil {
			return nil, nil, err
		}
	}
	var in *endpointInput
	after, err := update(before, func(e *config.Endpoint) error {
		in = a.newEndpointInput(key, false)
		in.verifies, in.retries = e.Verification, e.RetryPolicy
		if r.Method != http.MethodPost {
			if err := frame.CheckRevision(r, e); err != nil {
				return err
			}
		}
		merge(in, in.NewObject("", body), e)
		if in.Err == nil {
			in.Err = a.checkDestinations(e)
		}
		return in.Err
	})
	if err != nil {
		return nil, nil, err
	}
	a.warnAddresses(r.Context(), in, before, after)
	return after, in, nil
}

// endpointUpdate makes a change of an endpoint, or checks it.
type endpointUpdate func(e *config.Endpoint, change func(*config.Endpoint) error) (*config.Endpoint, error)

// saved makes changes of endpoints.
func (a *endpoints) saved(r *http.Request) endpointUpdate {
	return func(e *config.Endpoint, change func(*config.Endpoint) error) (*config.Endpoint, error) {
		return a.Config.UpdateEndpoint(r.Context(), e.ID, change)
	}
}

func (a *endpoints) updateEndpoint(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	after, in, err := a.changeEndpoint(r, key, a.saved(r), func(in *endpointInput, o *frame.Object, e *config.Endpoint) {
		in.merge(o, e)
	})
	if err != nil {
		return err
	}
	return a.answerEndpoint(w, r, key, http.StatusOK, after, in)
}

func (a *endpoints) deleteEndpoint(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	e, err := a.EndpointInPath(r, key)
	if err != nil {
		return err
	}
	rev := int64(0)
	if len(r.Header.Values(frame.IfMatch)) > 0 {
		if err := frame.CheckRevision(r, e); err != nil {
			return err
		}
		rev = e.Rev
	}
	err = a.Config.DeleteEndpoint(r.Context(), e.ID, rev)
	if errors.Is(err, config.ErrConflict) { // another node has changed it since this one read it
		return frame.ErrRevision
	}
	if err != nil {
		return err
	}
	return frame.WriteDeleted(w, e.ID, "endpoint")
}

// maxTokenOverlap is how long the previous URL may work after a rotation, in seconds. It is shorter than maxOverlap,
// because anyone who knows the old URL can still send events to it.
const maxTokenOverlap = 86400

// rotateToken gives the endpoint a new ingest URL. The previous URL works until the overlap ends.
func (a *endpoints) rotateToken(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	after, in, err := a.changeEndpoint(r, key, a.saved(r), func(in *endpointInput, o *frame.Object, e *config.Endpoint) {
		until, by := a.overlapEnd(o, maxTokenOverlap), frame.RotatedBy(r)
		if in.Err != nil || by != "" && (e.TokenRotatedBy == by || e.FormerToken != nil && e.FormerToken.RotatedBy == by) {
			return // the first call with the Idempotency-Key has rotated; a second rotation would end the previous token
		}
		e.RotateToken(a.newToken(e.ID), by, until)
	})
	if err != nil {
		return err
	}
	return a.answerEndpoint(w, r, key, http.StatusOK, after, in)
}

// defaultOverlap is how long a secret or token stays valid after its rotation, in seconds.
const defaultOverlap = 86400

// overlapEnd reads overlap_seconds and returns when the overlap ends; zero: at once.
func (a *endpoints) overlapEnd(o *frame.Object, most int) (until time.Time) {
	overlap := defaultOverlap
	o.Integer("overlap_seconds", 0, most, &overlap)
	o.WarnUnknown()
	if overlap > 0 {
		until = a.Now().Add(time.Duration(overlap) * time.Second)
	}
	return until
}

// newToken returns a sealed ingest token of 128 random bits.
func (a *endpoints) newToken(endpoint string) seal.Secret {
	return a.Keyring.SealString(endpoint, seal.FieldToken, id.Random(""))
}

// errTooManySearches is the 429 of a node that already searches as many endpoints as it may at a time.
func errTooManySearches() error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
		Message: fmt.Sprintf("this node already runs %d searches of endpoints; try again in a second", maxSearches)}
}

// Validations have paths of their own. They are no parameters of the requests that change something, because a version
// that does not know a parameter would make the change.

// validateEndpoint validates a body of createEndpoint.
func (a *endpoints) validateEndpoint(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	e, in, err := a.newEndpoint(r, key)
	if err != nil {
		return err
	}
	if err := a.Config.CheckCreate(e); err != nil {
		return err
	}
	a.warnAddresses(r.Context(), in, nil, e)
	return answerValidation(w, in)
}

// validateChange validates a body of updateEndpoint.
func (a *endpoints) validateChange(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	merge := func(in *endpointInput, o *frame.Object, e *config.Endpoint) {
		if err := frame.CheckRevision(r, e); err != nil {
			in.Err = err
		}
		in.merge(o, e)
	}
	_, in, err := a.changeEndpoint(r, key, a.Config.CheckUpdate, merge)
	if err != nil {
		return err
	}
	return answerValidation(w, in)
}

func answerValidation(w http.ResponseWriter, in *endpointInput) error {
	return web.Answer(w, http.StatusOK, wire.Validation{Object: "validation", Warnings: in.Warnings})
}

func endpointAlerts(x alerting.EndpointAlerts) wire.EndpointAlerts {
	return wire.EndpointAlerts{Enabled: x.Enabled, Channels: x.Channels, ConsecutiveFailures: x.ConsecutiveFailures,
		FailureRatePercent: x.FailureRatePercent, MutedUntil: web.Time(x.MutedUntil)}
}

// heldUntil maps destinations to the time until which their open circuit breaker holds deliveries.
type heldUntil map[string]time.Time

// maxHeld is how many destinations one request to the limiter store asks for; it covers most pages.
const maxHeld = 1000

// openBreakers asks the limiter store about all destinations of an answer. Without its answer none counts as held.
func (a *endpoints) openBreakers(ctx context.Context, endpoints ...*config.Endpoint) heldUntil {
	return breakersOf(ctx, a.LimiterStore, endpoints...)
}

func breakersOf(ctx context.Context, store frame.LimiterStore, endpoints ...*config.Endpoint) heldUntil {
	var dests []string
	for _, e := range endpoints {
		for i := range e.Destinations {
			dests = append(dests, e.Destinations[i].ID)
		}
	}
	all := heldUntil{}
	for some := range slices.Chunk(dests, maxHeld) {
		maps.Copy(all, store.HeldUntil(ctx, some))
	}
	return all
}

// settingsOfEndpoint returns the settings of an endpoint, without its destinations and secrets.
func settingsOfEndpoint(e *config.Endpoint) *wire.Endpoint {
	v := &wire.Endpoint{
		ID: e.ID, Object: "endpoint", Name: e.Name, Description: e.Description, Provider: e.Provider,
		TypeSource: e.TypeSource, RetryPolicy: e.RetryPolicy, Alerts: endpointAlerts(e.AlertsOrDefault()),
		EndpointSettings: e.EndpointSettings, Dedup: e.Dedup, IngestLimit: e.IngestLimit,
		ScanPayloads: !e.PayloadsUnscanned,
		Validate:     cmp.Or(e.Validation, validateOff), Metadata: e.Metadata, Tenant: e.Tenant,
		CreatedAt: web.Time(e.CreatedAt), UpdatedAt: web.Time(e.UpdatedAt),
		Transformation:        transformationOf(e.Transformation),
		TransformationVersion: e.Transformation.Number(), TransformationVersions: transformationVersions(e),
	}
	if x := e.Verification; x != nil {
		v.Verification = &wire.Verification{
			Type: x.Type, Mode: x.Mode, ToleranceSeconds: x.ToleranceSeconds, SecretSet: len(x.Secrets) > 0,
			SecretLast4: x.SecretLast4,
			Header:      x.Header, Algorithm: x.Algorithm, Encoding: x.Encoding, Prefix: x.Prefix,
			SignedContent: x.SignedContent,
		}
	}
	return v
}

// endpointView returns the view of e. revealed holds the signing secrets that this response may show.
func (a *endpoints) endpointView(by frame.Viewer, e *config.Endpoint, revealed map[string]string,
	held heldUntil,
) (*wire.Endpoint, error) {
	token, err := a.Keyring.OpenString(e.ID, seal.FieldToken, e.Token)
	if err != nil {
		return nil, fmt.Errorf("open ingest token of %s: %w", e.ID, err)
	}
	v := settingsOfEndpoint(e)
	shown, err := a.inboundView(e)
	if err != nil {
		return nil, err
	}
	v.Source, v.Reconcile = shown.Source, shown.Reconcile
	v.IngestURL, v.Destinations = by.IngestURL(a.BaseURL, token), make([]wire.Destination, len(e.Destinations))
	for i := range e.Destinations {
		if v.Destinations[i], err = a.destinationView(by, e, &e.Destinations[i], revealed, held); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// settingsOfDestination returns the settings of a destination, without its headers and secrets.
func settingsOfDestination(d *config.Destination) wire.Destination {
	return wire.Destination{ID: d.ID, Object: "destination", Name: d.Name, DestinationSettings: d.DestinationSettings,
		RateLimit: d.RateLimit, RetryPolicy: d.RetryPolicy, Filter: d.Filter, Transformation: ownTransformationOf(d)}
}

func (a *endpoints) destinationView(by frame.Viewer, e *config.Endpoint, d *config.Destination,
	revealed map[string]string,
	held heldUntil,
) (wire.Destination, error) {
	v := settingsOfDestination(d)
	v.URL, v.Headers = by.DestinationURL(d.URL), make(map[string]string, len(d.Headers))
	secret, err := a.signingSecret(d, 0)
	if err != nil {
		return v, err
	}
	v.Signing = wire.Signing{Scheme: sign.Scheme, Algorithm: string(secret.Algorithm()),
		PublicKey: secret.PublicText(), Secret: revealed[d.ID], SecretLast4: d.Secrets[0].Last4}
	v.State, v.StateReason = stateOf(e, d, held)
	opened, err := d.Open(a.Keyring, d.ID)
	if err != nil {
		return v, fmt.Errorf("open settings of %s: %w", d.ID, err)
	}
	v.Settings = opened.Masked(frame.MaskText)
	v.Signing.Schemes = []kinds.SigningScheme{{Type: kinds.StandardWebhooks}}
	if v.Settings.Signing != nil {
		v.Signing.Schemes = v.Settings.Signing.Schemes
	}
	for name, sealed := range d.Headers {
		value, err := a.Keyring.OpenString(d.ID, seal.FieldHeader(name), sealed)
		if err != nil {
			return v, fmt.Errorf("open header of %s: %w", d.ID, err)
		}
		v.Headers[name] = shownHeader(name, value)
	}
	return v, nil
}

// signingSecret opens one of the signing secrets of a destination; 0 is the newest.
func (a *endpoints) signingSecret(d *config.Destination, i int) (sign.Secret, error) {
	text, err := a.Keyring.OpenString(d.ID, seal.FieldSecret, d.Secrets[i].Secret)
	if err != nil {
		return sign.Secret{}, fmt.Errorf("open signing secret of %s: %w", d.ID, err)
	}
	return sign.ParseSecret(text)
}

// States of a destination.
const (
	stateActive   = "active"
	stateHeld     = "held"
	statePaused   = "paused"
	stateDisabled = "disabled"
)

// stateOf says what happens to a new delivery to a destination, and why: active (it is sent), held (the circuit
// breaker waits for its next probe), paused (it waits until someone unpauses), disabled (there is none). A person's
// setting takes precedence over the breaker. A paused endpoint pauses all of its destinations. A disabled endpoint
// accepts no events and does not change the state of its destinations.
func stateOf(e *config.Endpoint, d *config.Destination, held heldUntil) (state string, reason *string) {
	_, open := held[d.ID]
	switch {
	case !d.Enabled && d.StateReason != "":
		return stateDisabled, &d.StateReason
	case !d.Enabled:
		return stateDisabled, frame.OrNull(string(event.Manual))
	case e.Paused || d.Paused:
		return statePaused, frame.OrNull(string(event.Manual))
	case open:
		return stateHeld, frame.OrNull(string(event.BreakerOpen))
	}
	return stateActive, nil
}
