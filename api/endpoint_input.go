package api

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of an endpoint's members, contract §1 and §4.
const (
	maxName         = 100
	maxDescription  = 500
	maxDestinations = 50
	maxResponseBody = 16 << 10 // characters
	maxMetadata     = 20
	maxMetadataKey  = 64
	maxMetadataText = 500
	maxDaySeconds   = 86400
	maxTypeSource   = 512
)

// providers are the values of provider; all but the first are verification types too.
var providers = []string{"generic", "stripe", "github", "shopify", "slack", "twilio", "standard_webhooks", "hmac"}

// endpointInput merges a request into an endpoint: the one place where configuration is judged.
type endpointInput struct {
	input
	api *API
	// creating: ids in the request are echoes of another endpoint and mean nothing.
	creating bool
	// revealed are the signing secrets that this change made, by destination, for its answer and nowhere else.
	revealed map[string]string
}

func (a *API) newEndpointInput(creating bool) *endpointInput {
	return &endpointInput{api: a, creating: creating, revealed: map[string]string{}}
}

// merge reads body into e, which holds the defaults or the present values.
func (in *endpointInput) merge(body []byte, e *control.Endpoint) {
	o := in.newObject("", body)
	o.readOnly("id", "object", "ingest_url", "created_at", "updated_at", "warnings")
	o.text("name", 1, maxName, &e.Name)
	o.textOrNull("description", 0, maxDescription, &e.Description)
	in.provider(o, e)
	in.destinations(o, e)
	in.retryPolicy(o, &e.RetryPolicy)
	in.response(o, e.Provider, &e.Response)
	o.flag("enabled", &e.Enabled)
	in.metadata(o, e)
	if alerts := o.object("alerts"); alerts != nil {
		alerts.fixed("enabled", "true")
		for _, name := range []string{"channels", "consecutive_failures", "failure_rate_percent", "muted_until"} {
			alerts.fixed(name, "null")
		}
		alerts.done()
	}
	o.fixed("dedup", "null")
	o.fixed("transformation", "null", "[]", `{"ops":[]}`)
	o.fixed("paused", "false")
	o.fixed("scan_payloads", "false")
	o.done()
}

// provider reads provider and what depends on it: verification, type_source and the default answer.
func (in *endpointInput) provider(o *object, e *control.Endpoint) {
	before := e.Provider
	o.word("provider", &e.Provider, providers...)
	in.verification(o, e)
	if e.Provider != before && e.Response == defaultResponse(before) {
		e.Response = defaultResponse(e.Provider)
	}
	if raw, ok := o.raw("type_source"); ok && kindOf(raw) != kindNull {
		var source string
		o.text("type_source", 1, maxTypeSource, &source)
		if _, err := event.ParseTypeSource(source); err != nil {
			o.fail("type_source", "cannot be read: %v", err)
		}
		e.TypeSource = &source
		return
	} else if ok {
		e.TypeSource = nil
		return
	}
	// Left out, it follows the provider as long as nobody chose another.
	if in.creating || e.Provider != before && equalText(e.TypeSource, defaultTypeSource(before)) {
		e.TypeSource = defaultTypeSource(e.Provider)
	}
}

func defaultTypeSource(provider string) *string {
	if s := event.DefaultTypeSource(provider); s != "" {
		return &s
	}
	return nil
}

func equalText(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// retryPolicy reads the members of the strategy that results; those of other strategies are ignored.
func (in *endpointInput) retryPolicy(o *object, p *control.RetryPolicy) {
	if o.isNull("retry_policy") {
		*p = control.DefaultRetryPolicy()
	}
	r := o.object("retry_policy")
	if r == nil {
		return
	}
	before := p.Strategy
	r.word("strategy", &p.Strategy, "schedule", "exponential", "linear", "none")
	if p.Strategy != before {
		resetStrategy(p)
	}
	switch p.Strategy {
	case "schedule":
		in.schedule(r, p)
	case "exponential":
		r.whole("initial_seconds", 1, 3600, &p.InitialSeconds)
		r.number("multiplier", 1, 10, &p.Multiplier)
		r.whole("max_seconds", 1, maxDaySeconds, &p.MaxSeconds)
	case "linear":
		r.whole("interval_seconds", 1, maxDaySeconds, &p.IntervalSeconds)
		if p.IntervalSeconds == 0 {
			r.fail("interval_seconds", "is required for the strategy linear")
		}
	}
	r.readOnly("schedule_seconds", "initial_seconds", "multiplier", "max_seconds", "interval_seconds")
	r.whole("max_attempts", 1, 50, &p.MaxAttempts)
	r.number("jitter", 0, 1, &p.Jitter)
	r.flag("respect_retry_after", &p.RespectRetryAfter)
	r.whole("max_retry_after_seconds", 0, maxDaySeconds, &p.MaxRetryAfterSeconds)
	in.retryOn(r, p)
	r.done()
}

// resetStrategy gives a policy the defaults of its new strategy.
func resetStrategy(p *control.RetryPolicy) {
	p.ScheduleSeconds, p.InitialSeconds, p.Multiplier, p.MaxSeconds, p.IntervalSeconds = nil, 0, 0, 0, 0
	switch p.Strategy {
	case "schedule":
		p.ScheduleSeconds = control.DefaultRetryPolicy().ScheduleSeconds
	case "exponential":
		p.InitialSeconds, p.Multiplier, p.MaxSeconds = 5, 2, 43200
	}
}

func (in *endpointInput) schedule(r *object, p *control.RetryPolicy) {
	const name = "schedule_seconds"
	if _, ok := r.raw(name); !ok {
		return
	}
	elements := r.array(name, 50)
	if len(elements) == 0 {
		r.fail(name, "must be an array of 1 to 50 integers")
		return
	}
	p.ScheduleSeconds = make([]int, len(elements))
	for i, raw := range elements {
		n, ok := wholeOf(raw, 1, maxDaySeconds)
		if !ok {
			r.fail(indexed(name, i), "must be an integer from 1 to %d", maxDaySeconds)
			return
		}
		p.ScheduleSeconds[i] = n
	}
}

// retryOnWord is a class of statuses or one status; 2xx is success and 5xx is always retried.
var retryOnWord = regexp.MustCompile(`^([34]xx|[34][0-9][0-9])$`)

func (in *endpointInput) retryOn(r *object, p *control.RetryPolicy) {
	const name = "retry_on"
	if _, ok := r.raw(name); !ok {
		return
	}
	elements := r.array(name, 50)
	if elements == nil {
		r.fail(name, "must be an array")
		return
	}
	p.RetryOn = make([]string, len(elements))
	for i, raw := range elements {
		if kindOf(raw) == kindString {
			p.RetryOn[i], _ = web.String(raw)
		}
		if !retryOnWord.MatchString(p.RetryOn[i]) {
			r.fail(indexed(name, i), `must be "3xx", "4xx" or a status from "300" to "499"`)
			return
		}
	}
}

func (in *endpointInput) response(o *object, provider string, res *control.Response) {
	if o.isNull("response") {
		*res = defaultResponse(provider)
	}
	r := o.object("response")
	if r == nil {
		return
	}
	r.whole("status", 200, 299, &res.Status)
	r.word("content_type", &res.ContentType, "application/json", "text/plain", "text/xml", "application/xml")
	r.text("body", 0, maxResponseBody, &res.Body)
	r.done()
}

// defaultResponse is what a provider gets unless the endpoint says otherwise. Twilio reads answers as TwiML
// and reports an error for any other.
func defaultResponse(provider string) control.Response {
	if provider == "twilio" {
		return control.Response{Status: 200, ContentType: "text/xml", Body: "<Response/>"}
	}
	return control.Response{Status: 200, ContentType: "application/json", Body: `{"received":true}`}
}

// metadata merges key by key; null removes one.
func (in *endpointInput) metadata(o *object, e *control.Endpoint) {
	if o.isNull("metadata") {
		e.Metadata = map[string]string{}
	}
	m := o.object("metadata")
	if m == nil {
		return
	}
	merged := maps.Clone(e.Metadata)
	for _, member := range m.members {
		if kindOf(member.Value) == kindNull {
			delete(merged, member.Name)
			continue
		}
		if n := utf8.RuneCountInString(member.Name); n < 1 || n > maxMetadataKey {
			o.fail("metadata", "must have keys of 1 to %d characters", maxMetadataKey)
		}
		var text string
		m.text(member.Name, 0, maxMetadataText, &text)
		merged[member.Name] = text
	}
	if len(merged) > maxMetadata {
		o.fail("metadata", "must have at most %d members", maxMetadata)
	}
	e.Metadata = merged
}

// indexed is the path of an element.
func indexed(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// verification reads how the provider signs. Members that are left out keep their present value.
func (in *endpointInput) verification(o *object, e *control.Endpoint) {
	const name = "verification"
	if o.isNull(name) {
		e.Verification = nil
	}
	v := o.object(name)
	if v == nil {
		if e.Verification != nil && e.Verification.Type != e.Provider {
			o.fail("provider", "is %s, but verification is of type %s; change both", e.Provider, e.Verification.Type)
		}
		return
	}
	next := control.Verification{Type: e.Provider, Mode: "enforce", ToleranceSeconds: 300}
	v.word("type", &next.Type, providers[1:]...)
	if _, given := o.raw("provider"); !given && in.creating {
		e.Provider = next.Type
	}
	if next.Type != e.Provider || next.Type == providers[0] {
		v.fail("type", "must be that of the provider, which is %s", e.Provider)
		return
	}
	if old := e.Verification; old != nil && old.Type == next.Type {
		next = *old
	}
	v.readOnly("secret_set", "secret_last4")
	v.word("mode", &next.Mode, "enforce", "observe")
	v.whole("tolerance_seconds", 1, maxDaySeconds, &next.ToleranceSeconds)
	if next.Type == "hmac" { // elsewhere they would be ignored, so they are unknown members
		v.text("header", 1, maxSignatureText, &next.Header)
		v.word("algorithm", &next.Algorithm, "sha256", "sha1", "sha512")
		v.word("encoding", &next.Encoding, "hex", "base64")
		v.text("prefix", 0, maxSignatureText, &next.Prefix)
		v.text("signed_content", 1, maxSignatureText, &next.SignedContent)
	}
	secrets := in.verificationSecrets(v, e, &next)
	v.done()
	if len(secrets) == 0 {
		v.fail("secret", "is required")
	}
	if in.err != nil {
		return
	}
	if param, message := in.api.deps.Verification(next, secrets); message != "" {
		v.fail(param, "%s", message)
		return
	}
	e.Verification = &next
}

// Bounds of a verification's texts; which of them make sense is judged by Deps.Verification.
const (
	maxVerificationSecret = 512
	maxSignatureText      = 256
	maxSecrets            = 3
)

// verificationSecrets reads secret or secrets into next and returns all that live then, in clear.
func (in *endpointInput) verificationSecrets(v *object, e *control.Endpoint, next *control.Verification) []string {
	var old []string
	for _, sealed := range next.Secrets {
		text, err := in.api.deps.Keyring.OpenString(e.ID, control.FieldVerification, sealed)
		if err != nil {
			in.err = err
			return nil
		}
		old = append(old, text)
	}
	secrets := in.givenSecrets(v)
	if secrets == nil || slices.Equal(secrets, old) || len(secrets) == 1 && len(old) > 0 && secrets[0] == maskText(old[0]) {
		return old
	}
	next.Secrets = nil
	for _, s := range secrets {
		next.Secrets = append(next.Secrets, in.api.deps.Keyring.SealString(e.ID, control.FieldVerification, s))
	}
	next.SecretLast4 = strings.TrimPrefix(maskText(secrets[0]), mask)
	return secrets
}

// givenSecrets are those in the request, nil when it names none.
func (in *endpointInput) givenSecrets(v *object) []string {
	_, one := v.raw("secret")
	_, many := v.raw("secrets")
	switch {
	case one && many:
		v.fail("secrets", "cannot stand beside secret")
	case one:
		var s string
		v.text("secret", 1, maxVerificationSecret, &s)
		return []string{s}
	case many:
		elements := v.array("secrets", maxSecrets)
		if len(elements) == 0 {
			v.fail("secrets", "must be an array of 1 to %d strings", maxSecrets)
			return nil
		}
		var secrets []string
		for i, raw := range elements {
			if kindOf(raw) != kindString {
				v.fail(indexed("secrets", i), "must be a string")
				return nil
			}
			s, fault := textOf(raw, 1, maxVerificationSecret)
			if fault != "" {
				v.fail(indexed("secrets", i), "%s", fault)
			}
			secrets = append(secrets, s)
		}
		return secrets
	}
	return nil
}

// mask stands for what is not shown.
const mask = "****"

// maskText shows the last four characters of a secret that is long enough to spare them.
func maskText(secret string) string {
	if len(secret) < 12 {
		return mask
	}
	return mask + secret[len(secret)-4:]
}
