package imports

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/schema"
	"github.com/eventrelay/relay/pkg/sign"
)

// plan is what becomes of the objects of another system. Each object is written or listed, and what an object has that
// the relay has not is a note beside it.
type plan struct {
	system    string
	endpoints []*endpoint
	types     []eventType
	counts    map[string]*count // by kind of object
	listed    []string
	general   []string // notes on no single object
	secrets   []secret
	paused    bool               // whether destinations are written paused, to run beside the other system
	dir       string             // of the files with secrets, as the file for relay apply names them
	names     map[[2]string]bool // tenants and names of the endpoints
}

func newPlan(system, out string) *plan {
	return &plan{system: system, counts: map[string]*count{}, names: map[[2]string]bool{}, dir: secretsOf(out)}
}

// count is how many objects of a kind were read, and what became of them.
type count struct {
	Read    int `json:"read"`
	Written int `json:"written"`
	Listed  int `json:"listed"`
}

// secret is the content of one file.
type secret struct{ file, text string }

// endpoint and destination have the members of a file for relay apply, in the order of the file.
type endpoint struct {
	Name         string         `json:"name"`
	Tenant       string         `json:"tenant,omitempty"`
	Description  string         `json:"description,omitempty"`
	Provider     string         `json:"provider,omitempty"`
	Verification map[string]any `json:"verification,omitempty"`
	Enabled      *bool          `json:"enabled,omitempty"`
	Destinations []*destination `json:"destinations"`

	notes []string
	names map[string]bool // of the destinations
	of    *tenant         // whose name it has; nil: none
	// kind and id are those of the object that it is, of which there is nothing without a destination.
	kind, id string
}

type tenant struct {
	Tenant   string             `json:"tenant"`
	Name     string             `json:"name,omitempty"`
	Metadata map[string]string  `json:"metadata,omitempty"`
	Limits   map[string]float64 `json:"limits,omitempty"`
}

type destination struct {
	Name           string            `json:"name"`
	URL            string            `json:"url"`
	Enabled        *bool             `json:"enabled,omitempty"`
	Paused         bool              `json:"paused,omitempty"`
	Format         string            `json:"format,omitempty"`
	Signing        map[string]any    `json:"signing,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
	Auth           map[string]any    `json:"auth,omitempty"`
	Filter         *filter.Filter    `json:"filter,omitempty"`
	RateLimit      *rateLimit        `json:"rate_limit,omitempty"`
	RetryPolicy    map[string]any    `json:"retry_policy,omitempty"`
	TimeoutSeconds int               `json:"timeout_seconds,omitempty"`
	MaxInFlight    int               `json:"max_in_flight,omitempty"`

	notes []string
}

type rateLimit struct {
	PerSecond float64 `json:"per_second"`
}

type eventType struct {
	name, description, group string
	deprecated               bool
	schema                   json.RawMessage
}

// Bounds of the relay for what other systems may have longer.
const (
	maxName          = 100
	maxHeaders       = 20
	maxMetadata      = 20
	maxMetadataName  = 64
	maxMetadataValue = 500
	maxRate          = 10_000
	minRate          = 0.1
	maxAttempts      = 50
	maxDelay         = 86_400 // seconds
	maxTimeout       = 60     // seconds
	maxInFlight      = 1000
)

var off = new(bool)

func (p *plan) count(kind string) *count {
	if p.counts[kind] == nil {
		p.counts[kind] = &count{}
	}
	return p.counts[kind]
}

// list says that an object has no counterpart, and why.
func (p *plan) list(kind, id, format string, args ...any) {
	p.count(kind).Listed++
	p.listed = append(p.listed, cli.Printable(fmt.Sprintf("%s %s: ", kind, id)+fmt.Sprintf(format, args...)))
}

// note says what of a destination is not carried over.
func (d *destination) note(format string, args ...any) {
	d.notes = append(d.notes, cli.Printable(fmt.Sprintf(format, args...)))
}

// disable is note for something without which the receiver would get what it did not get before.
func (d *destination) disable(format string, args ...any) {
	d.note(format+": disabled until you have decided", args...)
	d.Enabled = off
}

// noteMetadata lists the metadata of a destination: an endpoint alone has some.
func (d *destination) noteMetadata(from doc) {
	if len(from.doc("metadata")) > 0 {
		d.note("metadata %v: destinations have none", slices.Sorted(maps.Keys(from.doc("metadata"))))
	}
}

// tell says once what is about no single object.
func (p *plan) tell(text string) {
	if !slices.Contains(p.general, text) {
		p.general = append(p.general, cli.Printable(text))
	}
}

// verify sets the provider of an endpoint; hmac says how its signatures are made.
func (e *endpoint) verify(provider, secret string) {
	e.Provider, e.Verification = provider, map[string]any{"type": provider, "secret": secret}
}

func (e *endpoint) hmac(header, algorithm, encoding string) {
	maps.Copy(e.Verification, map[string]any{"header": header, "algorithm": algorithm, "encoding": encoding})
}

// disable says that requests to an endpoint would not be verified as before.
func (e *endpoint) disable(format string, args ...any) {
	e.note(format+": it has no counterpart, or its secret is not given: disabled until you have set verification", args...)
	e.Enabled = off
}

func (e *endpoint) note(format string, args ...any) {
	e.notes = append(e.notes, cli.Printable(fmt.Sprintf(format, args...)))
}

// tenantForm matches the names that tenants may have.
var tenantForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// cleanName returns a text that may be a name, of which apply knows an object again in the next run.
func cleanName(text, id string) string {
	text = strings.TrimSpace(strings.ReplaceAll(cli.Printable(text), "·", " "))
	if text == "" {
		text = cli.Printable(id)
	}
	for utf8.RuneCountInString(text) > maxName {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// add adds an endpoint with a name of its own in its tenant.
func (p *plan) add(e *endpoint, id string) *endpoint {
	if e.Name = cleanName(e.Name, id); p.names[[2]string{e.Tenant, e.Name}] {
		e.Name = cleanName(id, id)
	}
	p.names[[2]string{e.Tenant, e.Name}] = true
	e.names, e.id = map[string]bool{}, id
	p.endpoints = append(p.endpoints, e)
	return e
}

// tenant adds a tenant and the endpoint to which its events go: it has the name of the tenant.
func (p *plan) tenant(id, name string, metadata map[string]string) *endpoint {
	of := &tenant{Tenant: id, Name: cleanName(name, ""), Metadata: metadata}
	e := &endpoint{of: of}
	if !tenantForm.MatchString(id) {
		sum := sha256.Sum256([]byte(id))
		of.Tenant = fmt.Sprintf("%.50s-%x", regexp.MustCompile(`[^A-Za-z0-9._:-]`).ReplaceAllString(id, "-"), sum[:4])
		e.note("the tenant was %.200q, which is no name of a tenant", id)
	}
	for name, value := range metadata {
		if len(metadata) > maxMetadata || len(name) > maxMetadataName || len(value) > maxMetadataValue {
			e.note("metadata %.200v: a tenant has %d entries at most, of %d and %d bytes", slices.Sorted(maps.Keys(metadata)),
				maxMetadata, maxMetadataName, maxMetadataValue)
			of.Metadata = nil
			break
		}
	}
	e.Tenant, e.Name = of.Tenant, of.Tenant
	return p.add(e, id)
}

// place adds a destination to an endpoint, with a name of its own there, and counts its object as written.
func (p *plan) place(e *endpoint, d *destination, kind, id string) {
	if len(e.Destinations) == require.MaxDestinations {
		p.list(kind, id, "the endpoint %s has %d destinations already, which is the most; send its events to a second "+
			"endpoint", e.Name, require.MaxDestinations)
		return
	}
	if d.Name = cleanName(d.Name, id); e.names[d.Name] {
		d.Name = cleanName(id, id)
	}
	if p.paused && d.Paused {
		d.note("it was paused before: leave it so")
	}
	d.Paused = d.Paused || p.paused
	e.names[d.Name] = true
	e.Destinations = append(e.Destinations, d)
	p.count(kind).Written++
}

// addType adds an event type to the catalogue, with its schema if the relay can check it.
func (p *plan) addType(kind string, t eventType) {
	p.count(kind).Read++
	if !event.ValidType(t.name) {
		p.list(kind, t.name, "is not a name of an event type: %s", event.TypeRule)
		return
	}
	if string(t.schema) == "null" {
		t.schema = nil
	}
	if len(t.schema) > 0 {
		if _, err := schema.Compile(t.schema); err != nil {
			p.tell(fmt.Sprintf("%s %s: its schema is left out: %v", kind, t.name, err))
			t.schema = nil
		}
	}
	p.types = append(p.types, t)
	p.count(kind).Written++
}

// dropEmpty lists the endpoints without a destination, which relay apply cannot create. That of a tenant is made by its
// first event.
func (p *plan) dropEmpty() {
	p.endpoints = slices.DeleteFunc(p.endpoints, func(e *endpoint) bool {
		empty := len(e.Destinations) == 0 && e.of == nil
		if empty {
			p.count(e.kind).Written--
			p.list(e.kind, e.id, "%s has no destination", e.Name)
		}
		return empty
	})
}

// secret keeps a secret for a file of its own, and returns the reference to it.
func (p *plan) secret(id, member, text string) string {
	clean := regexp.MustCompile(`[^A-Za-z0-9._-]`).ReplaceAllString(id+"."+member, "-")
	file := fmt.Sprintf("%04d-%.80s", len(p.secrets)+1, clean)
	p.secrets = append(p.secrets, secret{file, text})
	return "file:" + p.dir + "/" + file
}

// signingSecret returns a secret of Standard Webhooks in the form of the relay, "" if it cannot have it.
func signingSecret(text string) string {
	if !strings.HasPrefix(text, sign.Prefix) {
		text = sign.Prefix + text
	}
	if _, err := sign.ParseSecret(text); err != nil {
		return ""
	}
	return text
}

// template is the scheme of a signature that is not one of Standard Webhooks, for receivers that know the other system.
type template struct{ header, algorithm, encoding, content, value, secret string }

func (t template) signing() map[string]any {
	return map[string]any{"schemes": []any{map[string]any{"type": "template", "header": t.header, "algorithm": t.algorithm,
		"encoding": t.encoding, "signed_content": t.content, "value": t.value, "secret": t.secret}}}
}

// reservedHeaders are those that a destination cannot set, beside webhook-* and relay-*.
var reservedHeaders = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Expect", "Keep-Alive",
	"Proxy-Connection", "Te", "Trailer", "Upgrade", "Idempotency-Key", "X-Idempotency-Key"}

// header adds a header; the value of one that may be a credential becomes a secret.
func (p *plan) header(d *destination, id, name, value string) {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case slices.Contains(reservedHeaders, canonical), strings.HasPrefix(canonical, "Webhook-"),
		strings.HasPrefix(canonical, "Relay-"):
		d.note("header %s: the relay sets it", name)
		return
	case len(d.Headers) == maxHeaders:
		d.note("header %s: a destination has at most %d", name, maxHeaders)
		return
	case d.Headers == nil:
		d.Headers = map[string]string{}
	}
	// The value of any header may be a reference in the file: one that only looks like it is kept apart too.
	if config.CredentialHeader(name) || strings.HasPrefix(value, "env:") || strings.HasPrefix(value, "file:") {
		if strings.TrimSpace(value) == "" {
			d.note("header %s: its value is empty", name)
			return
		}
		value = p.secret(id, name, value)
	}
	d.Headers[name] = value
}

// headers adds headers in the order of their names.
func (p *plan) headers(d *destination, id string, all map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p.header(d, id, name, all[name])
	}
}

// limit sets the rate of a destination: so many deliveries in so many seconds.
func (d *destination) limit(number, seconds float64) {
	if number <= 0 || seconds <= 0 {
		return
	}
	rate := number / seconds
	if rate > maxRate || rate < minRate {
		d.note("rate limit of %g in %g s: it is %g a second now", number, seconds, min(max(rate, minRate), maxRate))
	}
	d.RateLimit = &rateLimit{math.Round(min(max(rate, minRate), maxRate)*1000) / 1000}
}

// retry sets how often a delivery is tried again. strategy is linear or exponential.
func (d *destination) retry(strategy string, retries int, seconds float64) {
	wait := int(min(max(math.Ceil(seconds), 1), maxDelay))
	policy := map[string]any{"max_attempts": min(max(retries, 0)+1, maxAttempts)}
	if retries >= maxAttempts {
		d.note("%d retries: they are %d now", retries, maxAttempts-1)
	}
	switch strategy {
	case "linear", "default":
		policy["strategy"], policy["interval_seconds"] = "linear", wait
	case "exponential":
		policy["strategy"], policy["initial_seconds"], policy["multiplier"] = strategy, min(wait, 3600), 2
	default:
		d.note("retry strategy %q: the relay does not have it", strategy)
		return
	}
	d.RetryPolicy = policy
}

// match sets the conditions of a destination, beside the types.
func (d *destination) match(types []string, pattern map[string]any) {
	if slices.Contains(types, "*") {
		types = nil
	}
	f := &filter.Filter{Types: types}
	if d.Filter != nil && len(d.Filter.Match) > 0 { // of an earlier rule
		pattern = map[string]any{"$and": []any{d.Filter.Match, pattern}}
	}
	if len(pattern) > 0 {
		f.Match, _ = json.Marshal(pattern)
		if err := f.ValidateRules(); err != nil {
			d.disable("the filter %.300s cannot be written: %v", f.Match, err)
			f.Match = nil
		}
	}
	if d.Filter = f; f.IsEmpty() {
		d.Filter = nil
	}
}
