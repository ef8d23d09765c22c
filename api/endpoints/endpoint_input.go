package endpoints

import (
	"cmp"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/verify"
)

// Limits of an endpoint's members; texts in characters.
const (
	maxDestinations = 50
	maxMetadata     = 20 // keys
	maxMetadataKey  = 64
	maxMetadataText = 500
	maxDaySeconds   = 86400
	maxTypeSource   = 512
	maxTenant       = 64
)

// validateOff is how the API calls config.ValidateOff.
const validateOff = "off"

// endpointInput validates a request and merges it into an endpoint or one of its destinations.
type endpointInput struct {
	frame.Input
	endpoints *endpoints
	by        *config.Key // who makes the change
	// creating is true for POST. IDs in such a request are copies from another endpoint and are ignored.
	creating bool
	// revealed holds the signing secrets that this change created, by destination. Only its own answer shows them.
	revealed map[string]string
	// verifies is how the resulting endpoint verifies requests; nil: it does not.
	verifies *config.Verification
	// retries is the retry policy of the resulting endpoint.
	retries retry.Policy
}

func (a *endpoints) newEndpointInput(by *config.Key, creating bool) *endpointInput {
	return &endpointInput{endpoints: a, by: by, creating: creating, revealed: map[string]string{}}
}

// merge validates a request and merges it into e, which holds the defaults or the current values.
func (in *endpointInput) merge(o *frame.Object, e *config.Endpoint) {
	before := e.Provider
	in.provider(o, e)
	in.verifies = e.Verification
	if e.Provider != verify.Generic && e.Verification == nil {
		in.Warn("verification", "is not set, so signatures of "+e.Provider+
			" are not checked: anyone who knows ingest_url can send events in its name")
	}
	// When it is left out, the key of a provider follows the provider.
	if key := verify.ByName(before).Dedup; in.creating {
		e.Dedup = defaultDedup(e.Provider, maxDaySeconds)
	} else if e.Provider != before && key != "" && e.Dedup != nil && e.Dedup.Key == key {
		e.Dedup = defaultDedup(e.Provider, e.Dedup.WindowSeconds)
	}
	x := settingsOfEndpoint(e)
	shown := in.shownInbound(e)
	x.Source, x.Reconcile = shown.Source, shown.Reconcile
	o.Decode(x, wire.Endpoint{EndpointSettings: config.NewEndpointSettings(e.Provider)})
	e.Name, e.Description, e.EndpointSettings = x.Name, x.Description, x.EndpointSettings
	e.PayloadsUnscanned = !x.ScanPayloads
	in.allowHeaders(x.AllowHeaders)
	if e.Validation = x.Validate; e.Validation == validateOff {
		e.Validation = config.ValidateOff
	}
	in.tenant(o, e)
	in.retryPolicy(o, &e.RetryPolicy)
	in.retries = e.RetryPolicy
	in.destinations(o, e)
	in.metadata(o, e)
	in.alerts(o, e)
	in.dedup(x.Dedup, e)
	if e.IngestLimit = x.IngestLimit; e.IngestLimit != nil && *e.IngestLimit == (config.IngestLimit{}) {
		in.Fail("ingest_limit", "must give events_per_second or bytes_per_second; null is no limit")
	}
	in.inbound(o, kinds.Inbound{Source: x.Source, Reconcile: x.Reconcile}, e)
	in.transformation(o, e)
	if !in.creating { // when creating, it stands for the only destination
		o.WarnMisplaced("it is a member of a destination: send destinations[].url beside the id of the destination", "url")
	}
	o.WarnUnknown()
	o.NameUnknown()
}

// headerName matches the name of a received header, or its beginning.
var headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,128}$`)

func (in *endpointInput) allowHeaders(names []string) {
	for i, name := range names {
		if !headerName.MatchString(name) {
			in.Fail(frame.Indexed("allow_headers", i), "must be the name of a header, or its beginning with a hyphen, such as "+
				"X-Shop-, of 1 to 128 letters, digits and hyphens")
		} else if verify.Identifies(http.CanonicalHeaderKey(name)) {
			in.Warn(frame.Indexed("allow_headers", i), "is never forwarded: a sender could pose as someone else with it")
		}
	}
}

// commaBetween finds a comma in front of a second alternative. Other commas may be part of a member's name.
var commaBetween = regexp.MustCompile(`,\s*(?:\$|body:|header:|const:)`)

// provider reads provider and what depends on it: verification, type_source and the default response.
func (in *endpointInput) provider(o *frame.Object, e *config.Endpoint) {
	before := e.Provider
	o.Enum("provider", &e.Provider, verify.Providers()...)
	in.verification(o, e)
	if e.Provider != before && e.Response == config.DefaultResponse(before) {
		e.Response = config.DefaultResponse(e.Provider)
	}
	if raw, ok := o.Raw("type_source"); ok && frame.KindOf(raw) != frame.KindNull {
		var source string
		o.Text("type_source", 1, maxTypeSource, &source)
		if _, err := event.ParseTypeSource(source); err != nil {
			o.Fail("type_source", "is not valid: %v", err)
		} else if commaBetween.MatchString(source) {
			o.Fail("type_source", "separates alternatives with a comma; separate them with | instead")
		}
		in.warnPath("type_source", source)
		e.TypeSource = &source
		return
	} else if ok {
		e.TypeSource = nil
		return
	}
	// When it is left out, it follows the provider until a request sets another source.
	if in.creating || e.Provider != before && equalText(e.TypeSource, defaultTypeSource(before)) {
		e.TypeSource = defaultTypeSource(e.Provider)
	}
}

// defaultDedup is the deduplication by the id that a provider gives to each webhook, nil if it gives none.
func defaultDedup(provider string, seconds int) *config.Dedup {
	key := verify.ByName(provider).Dedup
	if key == "" {
		return nil
	}
	return &config.Dedup{Key: key, WindowSeconds: seconds}
}

// dedup sets the deduplication key of a request. The default window is the longest, one day.
func (in *endpointInput) dedup(next *config.Dedup, e *config.Endpoint) {
	if next != nil && next != e.Dedup {
		next.WindowSeconds = cmp.Or(next.WindowSeconds, maxDaySeconds)
		if next.Key == "" {
			in.Fail("dedup.key", "is required, such as body:$.id or header:X-GitHub-Delivery")
		} else if _, err := event.ParseDedupKey(next.Key); err != nil {
			in.Fail("dedup.key", "is not valid: %v", err)
		}
		in.warnPath("dedup.key", next.Key)
	}
	e.Dedup = next
}

func defaultTypeSource(provider string) *string {
	return frame.OrNull(verify.ByName(provider).TypeSource)
}

func equalText(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// retryPolicy reads the members of the resulting strategy and ignores those of the other strategies.
func (in *endpointInput) retryPolicy(o *frame.Object, p *retry.Policy) {
	if o.IsNull("retry_policy") {
		*p = retry.Default()
	}
	r := o.Object("retry_policy")
	if r == nil {
		return
	}
	strategy := p.Strategy
	if r.Enum("strategy", &strategy, retry.StrategyNames()...); strategy != p.Strategy {
		p.SetStrategy(strategy)
	}
	for _, s := range retry.Strategies() {
		for _, m := range s.Members {
			if s.Name != p.Strategy {
				r.Ignore(m.Name)
			}
		}
	}
	r.Decode(p)
	for _, m := range p.Members() {
		if reflect.ValueOf(m.Field(p)).Elem().IsZero() {
			r.Fail(m.Name, "is required for the strategy %s", p.Strategy)
		}
	}
	for i, word := range p.RetryOn {
		if !retryOnWord.MatchString(word) {
			r.Fail(frame.Indexed("retry_on", i), `must be "3xx", "4xx" or a status from "300" to "499"`)
		}
	}
	r.WarnUnknown()
}

// ownRetries reads the retry policy of a destination. A new one begins as that of the endpoint.
func (in *endpointInput) ownRetries(o *frame.Object, d *config.Destination) {
	if _, ok := o.Raw("retry_policy"); !ok {
		return
	}
	if o.IsNull("retry_policy") {
		d.RetryPolicy = nil
		return
	}
	p := in.retries
	if d.RetryPolicy != nil {
		p = *d.RetryPolicy
	}
	p.ScheduleSeconds, p.RetryOn = slices.Clone(p.ScheduleSeconds), slices.Clone(p.RetryOn)
	in.retryPolicy(o, &p)
	d.RetryPolicy = &p
}

// retryOnWord matches a class of statuses or one status. 2xx means success and 5xx is always retried, so neither is
// allowed.
var retryOnWord = regexp.MustCompile(`^([34]xx|[34][0-9][0-9])$`)

// tenant reads the tenant of a new endpoint. A key of a tenant creates endpoints of its own tenant.
func (in *endpointInput) tenant(o *frame.Object, e *config.Endpoint) {
	key := in.by
	asked := e.Tenant
	o.IgnoreNulls("tenant")
	o.Text("tenant", 1, maxTenant, &asked)
	switch {
	case !in.creating && asked != e.Tenant:
		in.Fail("tenant", "cannot be changed; create another endpoint for the tenant")
	case key.Tenant != "" && asked != "" && asked != key.Tenant:
		in.Fail("tenant", "must be that of the key, or be left out")
	case asked != "" && !config.IsTenant(asked):
		in.Fail("tenant", "must have 1 to 64 letters, digits, dots, colons, _ or -")
	case in.creating:
		e.Tenant = cmp.Or(asked, key.Tenant)
	}
}

// metadata merges key by key; null removes a key.
func (in *endpointInput) metadata(o *frame.Object, e *config.Endpoint) {
	if o.IsNull("metadata") {
		e.Metadata = map[string]string{}
	}
	m := o.Object("metadata")
	if m == nil {
		return
	}
	merged := maps.Clone(e.Metadata)
	for _, member := range m.Members {
		if frame.KindOf(member.Value) == frame.KindNull {
			delete(merged, member.Name)
			continue
		}
		if n := utf8.RuneCountInString(member.Name); n < 1 || n > maxMetadataKey {
			o.Fail("metadata", "must have keys of 1 to %d characters", maxMetadataKey)
		}
		var text string
		m.Text(member.Name, 0, maxMetadataText, &text)
		merged[member.Name] = text
	}
	if len(merged) > maxMetadata {
		o.Fail("metadata", "must have at most %d members", maxMetadata)
	}
	e.Metadata = merged
}

// alerts reads the settings in which the endpoint differs from its account; null removes all of them. It warns of
// channels that it adds and that get nothing.
func (in *endpointInput) alerts(o *frame.Object, e *config.Endpoint) {
	if o.IsNull("alerts") {
		e.Alerts = nil
	}
	o = o.Object("alerts")
	if o == nil {
		return
	}
	before := e.AlertsOrDefault()
	x := endpointAlerts(before)
	o.Decode(&x)
	for i, name := range x.Channels {
		c := in.endpoints.Config.AlertSettings().Channel(name)
		if (c == nil || !c.Enabled) && !slices.Contains(before.Channels, name) {
			in.Warn(frame.Indexed("alerts.channels", i), "gets no alert of this endpoint until "+name+
				" is set up and enabled in the account's alert settings (PATCH /v1/alerts)")
		}
	}
	o.WarnUnknown()
	e.Alerts = &alerting.EndpointAlerts{Enabled: x.Enabled, Channels: x.Channels, MutedUntil: time.Time(x.MutedUntil),
		ConsecutiveFailures: x.ConsecutiveFailures, FailureRatePercent: x.FailureRatePercent}
	if reflect.DeepEqual(e.Alerts, &alerting.EndpointAlerts{Enabled: true}) {
		e.Alerts = nil
	}
}

// verification reads how the provider signs its requests. Members that are left out keep their current value.
func (in *endpointInput) verification(o *frame.Object, e *config.Endpoint) {
	const name = "verification"
	if o.IsNull(name) {
		e.Verification = nil
	}
	v := o.Object(name)
	if v == nil {
		if e.Verification != nil && e.Verification.Type != e.Provider {
			o.Fail("provider", "is %s, but verification is of type %s; change both", e.Provider, e.Verification.Type)
		}
		return
	}
	next := config.Verification{Type: e.Provider, Mode: "enforce", ToleranceSeconds: 300}
	v.Enum("type", &next.Type, verify.Types()...)
	if _, given := o.Raw("provider"); !given && in.creating {
		e.Provider = next.Type
	}
	if next.Type != e.Provider || next.Type == verify.Generic {
		v.Fail("type", "must be the same as the provider, which is %s", e.Provider)
		return
	}
	if old := e.Verification; old != nil && old.Type == next.Type {
		next = *old
	}
	x := wire.Verification{Mode: next.Mode, ToleranceSeconds: next.ToleranceSeconds}
	v.Decode(&x)
	next.Mode, next.ToleranceSeconds = x.Mode, x.ToleranceSeconds
	if verify.ByName(next.Type).Configurable() { // other types would ignore them, so there they are unknown members
		v.Text("header", 1, maxSignatureText, &next.Header)
		v.Enum("algorithm", &next.Algorithm, verify.Algorithms()...)
		v.Enum("encoding", &next.Encoding, verify.Encodings()...)
		v.Text("prefix", 0, maxSignatureText, &next.Prefix)
		v.Text("signed_content", 1, maxSignatureText, &next.SignedContent)
	}
	secrets := in.verificationSecrets(v, e, &next)
	v.WarnUnknown()
	if len(secrets) == 0 {
		v.Fail("secret", "is required")
	}
	if in.Err != nil {
		return
	}
	if param, message := in.endpoints.ValidateVerification(next, secrets); message != "" {
		v.Fail(param, "%s", message)
		return
	}
	e.Verification = &next
}

// Limits of a verification: characters of a text, and number of secrets. Deps.ValidateVerification checks the meaning
// of the texts.
const (
	maxSignatureText = 256
	maxSecrets       = verify.MaxSecrets
)

// verificationSecrets reads secret or secrets into next and returns all resulting secrets in clear. In secrets, a
// mask stands for the current secret with that mask; in secret, the mask that responses show leaves all secrets
// unchanged.
func (in *endpointInput) verificationSecrets(v *frame.Object, e *config.Endpoint, next *config.Verification) []string {
	var old []string
	for _, sealed := range next.Secrets {
		text, err := in.endpoints.Keyring.OpenString(e.ID, seal.FieldVerification, sealed)
		if err != nil {
			in.Err = err
			return nil
		}
		old = append(old, text)
	}
	secrets := in.givenSecrets(v)
	if _, one := v.Raw("secret"); one && len(old) > 0 && len(secrets) > 0 && secrets[0] == frame.MaskText(old[0]) {
		return old
	}
	for i, s := range secrets {
		if !isMask(s) { // whether it is a current one or not: otherwise a guess could be tried
			in.warnWeak(v, i, s)
		}
	}
	secrets = resolveMasks(v, secrets, old)
	if in.Err != nil || secrets == nil || slices.Equal(secrets, old) {
		return old
	}
	next.Secrets = nil
	for _, s := range secrets {
		next.Secrets = append(next.Secrets, in.endpoints.Keyring.SealString(e.ID, seal.FieldVerification, s))
	}
	next.SecretLast4 = strings.TrimPrefix(frame.MaskText(secrets[0]), frame.Mask)
	return secrets
}

// minSecretLength is how many characters a provider's secret should have; a shorter one can be guessed from a signed
// request.
const minSecretLength = 16

func (in *endpointInput) warnWeak(v *frame.Object, i int, secret string) {
	if utf8.RuneCountInString(secret) >= minSecretLength {
		return
	}
	name := "secret"
	if _, many := v.Raw("secrets"); many {
		name = frame.Indexed("secrets", i)
	}
	in.Warn(v.Param(name), "has fewer than "+strconv.Itoa(minSecretLength)+
		" characters: anyone who sees one signed request can guess it; "+
		"create a longer one at the provider")
}

func isMask(secret string) bool {
	return strings.HasPrefix(secret, frame.Mask) && len(secret) <= len(frame.Mask)+frame.VisibleTail
}

// resolveMasks replaces masks with the current secrets, in order, so that a client can add a secret next to one that
// it does not know: ["****abcd", "new"].
func resolveMasks(v *frame.Object, given, old []string) []string {
	rest := slices.Clone(old)
	for i, s := range given {
		if !isMask(s) {
			continue
		}
		j := slices.IndexFunc(rest, func(secret string) bool { return frame.MaskText(secret) == s })
		if j < 0 {
			name := "secret"
			if _, many := v.Raw("secrets"); many {
				name = frame.Indexed("secrets", i)
			}
			v.Fail(name, "is masked and matches no existing secret; send the secret itself")
			return nil
		}
		given[i] = rest[j]
		rest = slices.Delete(rest, j, j+1)
	}
	return given
}

// givenSecrets returns the secrets in the request, nil if it has none.
func (in *endpointInput) givenSecrets(v *frame.Object) []string {
	_, one := v.Raw("secret")
	_, many := v.Raw("secrets")
	switch {
	case one && many:
		v.Fail("secrets", "cannot be sent together with secret; send one of them")
	case one:
		var s string
		v.Text("secret", 1, verify.MaxSecret, &s)
		return []string{s}
	case many:
		elements := v.Array("secrets", maxSecrets)
		if len(elements) == 0 {
			v.Fail("secrets", "must be an array of 1 to %d strings", maxSecrets)
			return nil
		}
		var secrets []string
		for i, raw := range elements {
			if frame.KindOf(raw) != frame.KindString {
				v.Fail(frame.Indexed("secrets", i), "must be a string")
				return nil
			}
			s, problem := frame.TextOf(raw, 1, verify.MaxSecret)
			if problem != "" {
				v.Fail(frame.Indexed("secrets", i), "%s", problem)
			}
			secrets = append(secrets, s)
		}
		return secrets
	}
	return nil
}
