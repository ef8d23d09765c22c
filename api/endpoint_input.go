package api

import (
	"maps"
	"regexp"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of an endpoint's members; texts in characters.
const (
	maxName         = 100
	maxDescription  = 500
	maxDestinations = 50
	maxMetadata     = 20 // keys
	maxMetadataKey  = 64
	maxMetadataText = 500
	maxDaySeconds   = 86400
	maxTypeSource   = 512
)

// endpointInput validates a request and merges it into an endpoint or one of its destinations.
type endpointInput struct {
	input
	endpoints *endpoints
	// creating is true for POST. Ids in such a request are copies from another endpoint and are ignored.
	creating bool
	// revealed holds the signing secrets that this change created, by destination. Only its own answer shows them.
	revealed map[string]string
}

func (a *endpoints) newEndpointInput(creating bool) *endpointInput {
	return &endpointInput{endpoints: a, creating: creating, revealed: map[string]string{}}
}

// merge validates body and merges it into e, which holds the defaults or the current values. key is who changes it.
func (in *endpointInput) merge(key *config.Key, body []byte, e *config.Endpoint) {
	o := in.newObject("", body)
	o.readOnly("id", "object", "ingest_url", "created_at", "updated_at", "warnings", "transformation_version",
		"transformation_versions")
	o.name("name", 1, &e.Name)
	o.textOrNull("description", 0, maxDescription, &e.Description)
	in.provider(o, e)
	if e.Provider != verify.Generic && e.Verification == nil {
		in.warn("verification", "is not set, so signatures of "+e.Provider+
			" are not checked: anyone who knows ingest_url can send events in its name")
	}
	in.destinations(o, e)
	in.retryPolicy(o, &e.RetryPolicy)
	in.response(o, e.Provider, &e.Response)
	o.boolean("enabled", &e.Enabled)
	in.metadata(o, e)
	in.alerts(o, e)
	in.dedup(o, e)
	in.ingestLimit(o, e)
	in.transformation(o, key, e)
	o.boolean("paused", &e.Paused)
	scan := !e.PayloadsUnscanned
	o.boolean("scan_payloads", &scan)
	e.PayloadsUnscanned = !scan
	o.boolean("keep_method", &e.KeepMethod)
	if !in.creating { // when creating, it stands for the only destination
		o.warnMisplaced("it is a member of a destination: send destinations[].url beside the id of the destination", "url")
	}
	o.warnUnknown()
}

// commaBetween finds a comma in front of a second alternative. Other commas may be part of a member's name.
var commaBetween = regexp.MustCompile(`,\s*(?:\$|body:|header:|const:)`)

// provider reads provider and what depends on it: verification, type_source and the default response.
func (in *endpointInput) provider(o *object, e *config.Endpoint) {
	before := e.Provider
	o.enum("provider", &e.Provider, verify.Providers()...)
	in.verification(o, e)
	if e.Provider != before && e.Response == config.DefaultResponse(before) {
		e.Response = config.DefaultResponse(e.Provider)
	}
	if raw, ok := o.raw("type_source"); ok && kindOf(raw) != kindNull {
		var source string
		o.text("type_source", 1, maxTypeSource, &source)
		if _, err := event.ParseTypeSource(source); err != nil {
			o.fail("type_source", "is not valid: %v", err)
		} else if commaBetween.MatchString(source) {
			o.fail("type_source", "separates alternatives with a comma; separate them with | instead")
		}
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

// dedup reads the deduplication key; null turns deduplication off. The default window is the longest, one day.
func (in *endpointInput) dedup(o *object, e *config.Endpoint) {
	const name = "dedup"
	if o.isNull(name) {
		e.Dedup = nil
	}
	x := o.object(name)
	if x == nil {
		return
	}
	next := config.Dedup{WindowSeconds: maxDaySeconds}
	if e.Dedup != nil {
		next = *e.Dedup
	}
	x.decode(&next)
	if next.Key == "" {
		x.fail("key", "is required, such as body:$.id or header:X-GitHub-Delivery")
	} else if _, err := event.ParseDedupKey(next.Key); err != nil {
		x.fail("key", "is not valid: %v", err)
	}
	x.warnUnknown()
	e.Dedup = &next
}

func defaultTypeSource(provider string) *string {
	return orNull(verify.ByName(provider).TypeSource)
}

func equalText(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// retryPolicy reads the members of the resulting strategy and ignores those of the other strategies.
func (in *endpointInput) retryPolicy(o *object, p *config.RetryPolicy) {
	if o.isNull("retry_policy") {
		*p = config.DefaultRetryPolicy()
	}
	r := o.object("retry_policy")
	if r == nil {
		return
	}
	strategy := p.Strategy
	if r.enum("strategy", &strategy, config.RetryStrategyNames()...); strategy != p.Strategy {
		p.SetStrategy(strategy)
	}
	for _, m := range p.Members() {
		r.retryMember(p, m)
	}
	for _, s := range config.RetryStrategies() {
		for _, m := range s.Members {
			r.readOnly(m.Name)
		}
	}
	r.integer("max_attempts", 1, 50, &p.MaxAttempts)
	r.number("jitter", 0, 1, &p.Jitter)
	r.boolean("respect_retry_after", &p.RespectRetryAfter)
	r.integer("max_retry_after_seconds", 0, maxDaySeconds, &p.MaxRetryAfterSeconds)
	in.retryOn(r, p)
	r.warnUnknown()
}

// retryMember reads one member of the policy's strategy.
func (o *object) retryMember(p *config.RetryPolicy, m config.RetryMember) {
	missing := false
	switch at := m.Field(p).(type) {
	case *int:
		o.integer(m.Name, m.Min, m.Max, at)
		missing = *at == 0
	case *float64:
		o.number(m.Name, float64(m.Min), float64(m.Max), at)
	case *[]int:
		o.integers(m.Name, m.Min, m.Max, config.MaxRetryDelays, at)
	}
	if missing {
		o.fail(m.Name, "is required for the strategy %s", p.Strategy)
	}
}

// retryOnWord matches a class of statuses or one status. 2xx means success and 5xx is always retried, so neither is
// allowed.
var retryOnWord = regexp.MustCompile(`^([34]xx|[34][0-9][0-9])$`)

func (in *endpointInput) retryOn(r *object, p *config.RetryPolicy) {
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
			p.RetryOn[i], _ = web.DecodeString(raw)
		}
		if !retryOnWord.MatchString(p.RetryOn[i]) {
			r.fail(indexed(name, i), `must be "3xx", "4xx" or a status from "300" to "499"`)
			return
		}
	}
}

func (in *endpointInput) response(o *object, provider string, res *config.Response) {
	if o.isNull("response") {
		*res = config.DefaultResponse(provider)
	}
	r := o.object("response")
	if r == nil {
		return
	}
	r.decode(res)
	r.warnUnknown()
}

// metadata merges key by key; null removes a key.
func (in *endpointInput) metadata(o *object, e *config.Endpoint) {
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
