package endpoints

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/web"
)

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
	return breakersOf(ctx, a.limiterStore, endpoints...)
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
		Response: e.Response, Enabled: e.Enabled, Paused: e.Paused, Dedup: e.Dedup, IngestLimit: e.IngestLimit,
		ScanPayloads: !e.PayloadsUnscanned, KeepMethod: e.KeepMethod,
		Validate: cmp.Or(e.Validation, validateOff), Metadata: e.Metadata, Tenant: e.Tenant,
		CreatedAt: web.Time(e.CreatedAt), UpdatedAt: web.Time(e.UpdatedAt), Transformation: transformationOf(e),
		TransformationVersion: e.TransformationVersion(), TransformationVersions: transformationVersions(e),
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
	token, err := a.keyring.OpenString(e.ID, seal.FieldToken, e.Token)
	if err != nil {
		return nil, fmt.Errorf("open ingest token of %s: %w", e.ID, err)
	}
	v := settingsOfEndpoint(e)
	shown, err := a.inboundView(e)
	if err != nil {
		return nil, err
	}
	v.Source, v.Reconcile = shown.Source, shown.Reconcile
	v.IngestURL, v.Destinations = by.IngestURL(a.baseURL, token), make([]wire.Destination, len(e.Destinations))
	for i := range e.Destinations {
		if v.Destinations[i], err = a.destinationView(by, e, &e.Destinations[i], revealed, held); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// settingsOfDestination returns the settings of a destination, without its headers and secrets.
func settingsOfDestination(d *config.Destination) wire.Destination {
	return wire.Destination{ID: d.ID, Object: "destination", Name: d.Name, Enabled: d.Enabled, Paused: d.Paused,
		TimeoutSeconds: d.TimeoutSeconds, RateLimit: d.RateLimit, MaxInFlight: d.MaxInFlight, Filter: d.Filter}
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
	opened, err := d.Open(a.keyring, d.ID)
	if err != nil {
		return v, fmt.Errorf("open settings of %s: %w", d.ID, err)
	}
	v.Settings = opened.Masked(frame.MaskText)
	for name, sealed := range d.Headers {
		value, err := a.keyring.OpenString(d.ID, seal.FieldHeader(name), sealed)
		if err != nil {
			return v, fmt.Errorf("open header of %s: %w", d.ID, err)
		}
		v.Headers[name] = shownHeader(name, value)
	}
	return v, nil
}

// signingSecret opens one of the signing secrets of a destination; 0 is the newest.
func (a *endpoints) signingSecret(d *config.Destination, i int) (sign.Secret, error) {
	text, err := a.keyring.OpenString(d.ID, seal.FieldSecret, d.Secrets[i].Secret)
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
