package api

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"regexp"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of a destination's members.
const (
	maxURL          = 2048
	maxHeaders      = 20
	maxHeaderName   = 128
	maxHeaderValue  = 2048
	maxFilterTypes  = 50
	maxFilterBody   = 20
	maxFilterText   = 500
	defaultTimeout  = 15 // seconds
	defaultInFlight = 64
)

// destinations reads the full set. An entry matches a present destination by id, else by URL, else it is
// new; one that no entry matches is removed.
func (in *endpointInput) destinations(o *object, e *control.Endpoint) {
	const name = "destinations"
	entries := in.destinationEntries(o)
	if entries == nil {
		if in.creating {
			o.fail(name, "is required: at least one destination, such as [{\"url\":\"https://example.com/hook\"}]")
		}
		return
	}
	if len(entries) == 0 {
		o.fail(name, "must name at least one destination")
		return
	}
	next := make([]control.Destination, 0, len(entries))
	taken := map[string]int{}
	for i, entry := range entries {
		d := in.destination(entry, e)
		if in.err != nil {
			return
		}
		if j, twice := taken[d.ID]; twice {
			in.fail(entry.path, "is the same destination as %s", indexed(name, j))
			return
		}
		taken[d.ID] = i
		next = append(next, d)
	}
	for _, d := range e.Destinations {
		if _, kept := taken[d.ID]; !kept {
			in.warn(name, d.ID+" was left out and is removed; its queued deliveries end skipped (destination_deleted)")
		}
	}
	e.Destinations = next
}

// destinationEntries are the elements of destinations, or the one that a top-level url stands for; nil
// when there is neither.
func (in *endpointInput) destinationEntries(o *object) []*object {
	if in.creating {
		if raw, ok := o.take("url", kindString); ok {
			if _, both := o.raw("destinations"); both {
				o.fail("url", "cannot stand beside destinations")
			}
			return []*object{urlEntry(&in.input, "", raw)}
		}
	}
	if _, ok := o.raw("destinations"); !ok {
		return nil
	}
	elements := o.array("destinations", maxDestinations)
	if elements == nil {
		o.fail("destinations", "must be an array of 1 to %d destinations", maxDestinations)
	}
	entries := make([]*object, 0, len(elements))
	for i, raw := range elements {
		path := indexed("destinations", i)
		switch kindOf(raw) {
		case kindString:
			entries = append(entries, urlEntry(&in.input, path, raw))
		case kindObject:
			entries = append(entries, in.newObject(path, raw))
		default:
			in.fail(path, "must be an object or a URL")
		}
	}
	return entries
}

// urlEntry is the object that a bare URL stands for.
func urlEntry(in *input, path string, raw []byte) *object {
	return &object{in: in, path: path, members: []web.Member{{Name: "url", Value: raw}}}
}

// destination finds what an entry matches and merges it.
func (in *endpointInput) destination(o *object, e *control.Endpoint) control.Destination {
	var given string
	if !in.creating {
		o.text("id", 0, maxHeaderName, &given)
	}
	o.readOnly("id")
	if given != "" {
		if d := e.Destination(given); d != nil {
			return in.mergeDestination(o, *d)
		}
		o.fail("id", "is not a destination of this endpoint")
		return control.Destination{}
	}
	u := in.destinationURL(o)
	if u == "" {
		o.fail("url", "is required")
		return control.Destination{}
	}
	if !in.creating {
		for _, d := range e.Destinations {
			if d.URL == u {
				return in.mergeDestination(o, d)
			}
		}
	}
	return in.mergeDestination(o, in.newDestination())
}

func (in *endpointInput) newDestination() control.Destination {
	d := control.Destination{
		ID: id.Random(id.Destination), Enabled: true, TimeoutSeconds: defaultTimeout, MaxInFlight: defaultInFlight,
		Headers: map[string]control.Sealed{},
	}
	in.setSecret(&d, sign.NewSecret())
	return d
}

// setSecret replaces all signing secrets and remembers the new one for the answer.
func (in *endpointInput) setSecret(d *control.Destination, s sign.Secret) {
	d.Secrets = []control.SigningSecret{{
		Secret: in.api.deps.Keyring.SealString(d.ID, control.FieldSecret, s.Reveal()), Last4: s.Last4(),
	}}
	in.revealed[d.ID] = s.Reveal()
}

// mergeDestination reads an entry over d, whose maps and slices stay as they are.
func (in *endpointInput) mergeDestination(o *object, d control.Destination) control.Destination {
	o.readOnly("id", "object", "state", "state_reason", "created_at", "updated_at", "warnings")
	o.textOrNull("name", 0, maxName, &d.Name)
	if u := in.destinationURL(o); u != "" {
		d.URL = u
	}
	if _, ok := o.raw("enabled"); ok {
		o.flag("enabled", &d.Enabled)
		d.StateReason = "" // whoever sets it knows better than the service did
	}
	o.whole("timeout_seconds", 1, 60, &d.TimeoutSeconds)
	o.whole("max_in_flight", 1, 1000, &d.MaxInFlight)
	in.headers(o, &d)
	in.filter(o, &d)
	in.signing(o, &d)
	o.fixed("paused", "false")
	o.fixed("rate_limit", "null")
	o.done()
	return d
}

// destinationURL is the URL as it will be stored, empty when it is absent or bad.
func (in *endpointInput) destinationURL(o *object) string {
	raw, ok := o.take("url", kindString)
	if !ok {
		return ""
	}
	text, err := web.String(raw)
	if err != nil || len(text) > maxURL {
		o.fail("url", "must be a URL of at most %d characters", maxURL)
		return ""
	}
	u, err := in.api.deps.Egress.CheckURL(text)
	if err != nil {
		o.fail("url", "%v", err)
		return ""
	}
	return u.String()
}

// reservedHeader says why a header cannot be added to deliveries, "" if it can.
func reservedHeader(canonical string) string {
	lower := strings.ToLower(canonical)
	switch {
	case strings.HasPrefix(lower, "webhook-"), strings.HasPrefix(lower, "relay-"):
		return "is set by the service on every delivery"
	case lower == "host", lower == "content-length", lower == "transfer-encoding", lower == "connection", lower == "expect",
		lower == "keep-alive", lower == "proxy-connection", lower == "te", lower == "trailer", lower == "upgrade":
		return "belongs to the transport and cannot be set"
	case lower == "idempotency-key", lower == "x-idempotency-key":
		return "cannot be the same on every delivery; receivers have webhook-id"
	}
	return ""
}

// headers merges name by name; null removes one, the mask of the present value keeps it.
func (in *endpointInput) headers(o *object, d *control.Destination) {
	const name = "headers"
	if o.isNull(name) {
		d.Headers = map[string]control.Sealed{}
	}
	h := o.object(name)
	if h == nil {
		return
	}
	merged := maps.Clone(d.Headers)
	given := map[string]bool{}
	for _, m := range h.members {
		canonical := http.CanonicalHeaderKey(m.Name)
		why := reservedHeader(canonical)
		switch {
		case !httpguts.ValidHeaderFieldName(m.Name) || len(m.Name) > maxHeaderName:
			o.fail(name, "must have header names of 1 to %d letters, digits and hyphens", maxHeaderName)
		case why != "":
			h.fail(m.Name, "%s", why)
		case given[canonical]:
			h.fail(m.Name, "stands twice; names do not distinguish case")
		case kindOf(m.Value) == kindNull:
			delete(merged, canonical)
		default:
			in.header(h, m, d, canonical, merged)
		}
		given[canonical] = true
	}
	if len(merged) > maxHeaders {
		o.fail(name, "must have at most %d members", maxHeaders)
	}
	d.Headers = merged
}

func (in *endpointInput) header(h *object, m web.Member, d *control.Destination, canonical string, merged map[string]control.Sealed) {
	var value string
	if kindOf(m.Value) == kindString {
		value, _ = web.String(m.Value)
	} else {
		h.fail(m.Name, "must be a string")
	}
	if !httpguts.ValidHeaderFieldValue(value) || !isASCII(value) || strings.TrimSpace(value) != value || len(value) > maxHeaderValue {
		h.fail(m.Name, "must be at most %d printable ASCII characters, none of them a space at the ends", maxHeaderValue)
	}
	if in.err != nil {
		return
	}
	if sealed, ok := merged[canonical]; ok {
		old, err := in.api.deps.Keyring.OpenString(d.ID, control.FieldHeader(canonical), sealed)
		if err != nil {
			in.err = err
			return
		}
		if value == old || value == shownHeader(canonical, old) {
			return
		}
	}
	merged[canonical] = in.api.deps.Keyring.SealString(d.ID, control.FieldHeader(canonical), value)
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

// shownHeader is a header's value as reads show it.
func shownHeader(name, value string) string {
	if control.CredentialHeader(name) {
		return maskText(value)
	}
	return value
}

// signing reads the scheme, of which there is one, and a secret brought along from another relay. It
// replaces the present one at once; rotate_secret lets two live.
func (in *endpointInput) signing(o *object, d *control.Destination) {
	s := o.object("signing")
	if s == nil {
		return
	}
	s.fixed("scheme", `"standard_webhooks"`)
	s.readOnly("secret_last4", "secret_set")
	var text string
	s.text("secret", 1, maxHeaderValue, &text)
	s.done()
	if text == "" || in.err != nil || text == sign.Prefix+mask+d.Secrets[0].Last4 {
		return
	}
	secret, err := sign.ParseSecret(text)
	if err != nil {
		s.fail("secret", "%v", err)
		return
	}
	old, err := in.api.deps.Keyring.OpenString(d.ID, control.FieldSecret, d.Secrets[0].Secret)
	if err != nil {
		in.err = err
		return
	}
	if old != text {
		in.setSecret(d, secret)
	}
}

// filterType is an event type or the beginning of types: order.paid, order.*. A star alone would say no more
// than no types at all.
var filterType = regexp.MustCompile(`^([A-Za-z0-9_.:/-]{1,128}|[A-Za-z0-9_.:/-]{1,126}\.\*)$`)

func (in *endpointInput) filter(o *object, d *control.Destination) {
	const name = "filter"
	if o.isNull(name) {
		d.Filter = nil
	}
	f := o.object(name)
	if f == nil {
		return
	}
	var next control.Filter
	if d.Filter != nil {
		next = *d.Filter
	}
	if _, ok := f.raw("types"); ok {
		elements := f.array("types", maxFilterTypes)
		next.Types = make([]string, 0, len(elements))
		for i, raw := range elements {
			var t string
			if kindOf(raw) == kindString {
				t, _ = web.String(raw)
			}
			if !filterType.MatchString(t) {
				f.fail(indexed("types", i), `must be an event type such as "order.paid", or a prefix such as "order.*"; leave types out to take all`)
				return
			}
			next.Types = append(next.Types, t)
		}
	}
	in.filterBody(f, &next)
	f.done()
	d.Filter = &next
	if len(next.Types) == 0 && len(next.Body) == 0 {
		d.Filter = nil
	}
}

// filterBody replaces the body member as a whole: null is a value that a path may hold, so it cannot
// remove a path.
func (in *endpointInput) filterBody(f *object, next *control.Filter) {
	if f.isNull("body") {
		next.Body = nil
	}
	b := f.object("body")
	if b == nil {
		return
	}
	next.Body = make(map[string]any, len(b.members))
	if len(b.members) > maxFilterBody {
		f.fail("body", "must have at most %d members", maxFilterBody)
	}
	for _, m := range b.members {
		if _, err := event.ParseBodyPath(m.Name); err != nil {
			b.fail(m.Name, "is no path: %v", err)
			return
		}
		v, ok := scalar(m.Value)
		if !ok {
			b.fail(m.Name, "must be a string of at most %d bytes, a number, true, false or null", maxFilterText)
			return
		}
		next.Body[m.Name] = v
	}
}

// scalar decodes a value to compare with. A number that float64 cannot hold would match others as well.
func scalar(raw []byte) (any, bool) {
	var v any
	if len(raw) > maxFilterText || json.Unmarshal(raw, &v) != nil {
		return nil, false
	}
	switch x := v.(type) {
	case map[string]any, []any:
		return nil, false
	case float64:
		return x, math.Abs(x) < 1<<53
	}
	return v, true
}
