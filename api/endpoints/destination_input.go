package endpoints

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/expr"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/web"
)

// destinations reads the complete list of destinations. An entry matches a current destination by id, else by URL, else
// it is new. A current destination that no entry matches is removed.
func (in *endpointInput) destinations(o *frame.Object, e *config.Endpoint) {
	const name = "destinations"
	entries := in.destinationEntries(o)
	if entries == nil {
		if in.creating && e.FewestDestinations() > 0 {
			o.Fail(name, "is required: at least one destination, such as [{\"url\":\"https://example.com/hook\"}]")
		}
		return
	}
	if len(entries) < e.FewestDestinations() {
		o.Fail(name, "must name at least one destination")
		return
	}
	next := make([]config.Destination, 0, len(entries))
	taken := map[string]int{}
	for i, entry := range entries {
		d := in.destination(entry, e)
		if in.Err != nil {
			return
		}
		if j, twice := taken[d.ID]; twice {
			in.Fail(entry.Path, "is the same destination as %s; list each destination once", frame.Indexed(name, j))
			return
		}
		taken[d.ID] = i
		next = append(next, d)
	}
	for _, d := range e.Destinations {
		if _, kept := taken[d.ID]; !kept {
			in.Warn(name, d.ID+" was left out and is removed; its queued deliveries end skipped (destination_deleted)")
		}
	}
	e.Destinations = next
}

// destinationEntries returns the elements of destinations, or one for a top-level url; nil when the request has
// neither.
func (in *endpointInput) destinationEntries(o *frame.Object) []*frame.Object {
	if in.creating {
		if raw, ok := o.RawOfKind("url", frame.KindString); ok {
			if _, both := o.Raw("destinations"); both {
				o.Fail("url", "cannot be sent together with destinations; send one of them")
			}
			return []*frame.Object{urlEntry(&in.Input, "", raw)}
		}
	}
	if _, ok := o.Raw("destinations"); !ok {
		return nil
	}
	elements := o.Array("destinations", maxDestinations)
	if elements == nil {
		o.Fail("destinations", "must be an array of 1 to %d destinations", maxDestinations)
	}
	entries := make([]*frame.Object, 0, len(elements))
	for i, raw := range elements {
		path := frame.Indexed("destinations", i)
		switch frame.KindOf(raw) {
		case frame.KindString:
			entries = append(entries, urlEntry(&in.Input, path, raw))
		case frame.KindObject:
			entries = append(entries, in.NewObject(path, raw))
		default:
			in.Fail(path, "must be an object or a URL")
		}
	}
	return entries
}

// urlEntry returns the object that a bare URL stands for.
func urlEntry(in *frame.Input, path string, raw []byte) *frame.Object {
	return &frame.Object{In: in, Path: path, Members: []web.Member{{Name: "url", Value: raw}}}
}

// destination finds the current destination that an entry matches and merges the entry into it.
func (in *endpointInput) destination(o *frame.Object, e *config.Endpoint) config.Destination {
	var given string
	if !in.creating {
		o.Text("id", 0, maxHeaderName, &given)
	}
	o.ReadOnly("id")
	if given != "" {
		if d := e.Destination(given); d != nil {
			return in.mergeCurrent(o, *d)
		}
		o.Fail("id", "is not a destination of this endpoint; leave id out to add a new one")
		return config.Destination{}
	}
	u := in.destinationURL(o, e.Destinations...)
	if u == "" && !hasKind(o) {
		o.Fail("url", "is required")
		return config.Destination{}
	}
	if !in.creating && u != "" {
		for _, d := range e.Destinations {
			if d.URL == u {
				return in.mergeCurrent(o, d)
			}
		}
	}
	return in.mergeDestination(o, in.newDestination(id.Random(id.Destination)))
}

func (in *endpointInput) newDestination(name string) config.Destination {
	d := config.Destination{ID: name, DestinationSettings: config.NewDestinationSettings(),
		Headers: map[string]seal.Secret{}}
	in.setSecret(&d, sign.NewSecret())
	return d
}

// setSecret replaces all signing secrets and keeps the new one for the answer. Nobody needs to know a private key.
func (in *endpointInput) setSecret(d *config.Destination, s sign.Secret) {
	d.Secrets = []config.SigningSecret{{
		Secret: in.endpoints.Keyring.SealString(d.ID, seal.FieldSecret, s.Reveal()), Last4: s.Last4(),
	}}
	in.reveal(d, s)
}

// reveal keeps a signing secret for the answer.
func (in *endpointInput) reveal(d *config.Destination, s sign.Secret) {
	if delete(in.revealed, d.ID); s.Algorithm() == sign.HMAC {
		in.revealed[d.ID] = s.Reveal()
	}
}

// mergeCurrent merges an entry into a destination that exists. Disabling it ends deliveries, which enabling it does not
// bring back and recovery jobs do not select.
func (in *endpointInput) mergeCurrent(o *frame.Object, d config.Destination) config.Destination {
	after := in.mergeDestination(o, d)
	if d.Enabled && !after.Enabled {
		in.Warn(o.Param("enabled"), "deliveries that wait for it end as skipped (destination_disabled), and enabling it "+
			"does not bring them back: replay the events with the status skipped to send them; paused would keep them")
	}
	return after
}

// mergeDestination returns d with the members of an entry. It does not modify the maps and slices of d.
func (in *endpointInput) mergeDestination(o *frame.Object, d config.Destination) config.Destination {
	o.ReadOnly("created_at", "updated_at")
	before, x := d, settingsOfDestination(&d)
	opened, err := d.Open(in.endpoints.Keyring, d.ID)
	if err != nil {
		in.Err = err
		return d
	}
	shown := opened.Masked(frame.MaskText)
	x.Settings = shown.Clone()
	o.Decode(&x)
	d.Name, d.DestinationSettings = x.Name, x.DestinationSettings
	x.Settings.Signing = schemes(o, x.Settings.Signing, opened.Signing)
	u := in.destinationURL(o, d)
	if _, ok := o.Raw("enabled"); ok {
		d.StateReason = "" // the reason for which the service disabled it no longer applies
	}
	kept := in.settings(o, &d, x.Settings, shown, opened)
	in.setURL(o, &before, &d, u)
	in.refuseMovedCredentials(o, &before, &d, in.headers(o, &d))
	in.refuseMovedSecrets(o, &before, &d, kept)
	in.filter(o, &d)
	in.signing(o, &d)
	in.rateLimit(o, &d)
	in.ownRetries(o, &d)
	in.ownTransformation(o, &d)
	in.refuse(o, d.ValidateDelivery())
	o.WarnMisplaced("it is a member of the endpoint, for all its destinations",
		"dedup", "alerts", "response", "ingest_limit", "verification")
	o.WarnUnknown()
	return d
}

// settings sets the settings of the kind as they were decoded. shown are the present ones as responses show them, with
// masked secrets, and opened with the secrets themselves. It returns the paths of secrets that stay as they are.
func (in *endpointInput) settings(o *frame.Object, d *config.Destination, next, shown, opened kinds.Settings,
) (kept []string) {
	next.Trim()
	kept = unmask(o, next.Secrets(), shown.Secrets(), opened.Secrets())
	if d.Ordering == nil && next.Ordering != nil {
		next.Ordering.Unverified = cmp.Or(next.Ordering.Unverified, kinds.UnverifiedUnordered)
	}
	if in.checkSettings(o, next.Validate); in.Err == nil {
		d.Settings = next.Seal(in.endpoints.Keyring, d.ID, d.Settings, opened)
		if next.Ordering != nil {
			in.warnPath(o.Param("ordering.by"), next.Ordering.By)
			in.warnUnverified(o, next.Ordering)
		}
		if next.Kafka != nil {
			in.warnPath(o.Param("kafka.key"), next.Kafka.Key)
		}
		if next.SQS != nil {
			in.warnPath(o.Param("sqs.group"), next.SQS.Group)
		}
	}
	return kept
}

// warnUnverified warns of an order that events of strangers can stop, and of one that events of the provider do not
// have.
func (in *endpointInput) warnUnverified(o *frame.Object, ordering *kinds.Ordering) {
	_, changed := o.Raw("ordering")
	switch v := in.verifies; {
	case !changed || v != nil && v.Mode == "enforce":
	case ordering.Unverified != kinds.UnverifiedUnordered:
		in.Warn(o.Param("ordering.unverified"), "the endpoint does not enforce a verification, so anyone who knows "+
			"ingest_url can send an event that fails and holds up those behind it; unordered events hold up none")
	case v == nil:
		in.Warn(o.Param("ordering"), "the endpoint has no verification, so only events that are sent through the API have "+
			"an order; set verification, or ordering.unverified to ordered")
	default:
		in.Warn(o.Param("ordering"), "the endpoint does not enforce its verification: events that fail it have no order")
	}
}

// warnPath warns of a source, such as body:$.id|header:X-Id, with a path that probably finds nothing.
func (in *endpointInput) warnPath(param, source string) {
	for part := range strings.SplitSeq(source, "|") {
		if path, ok := strings.CutPrefix(strings.TrimSpace(part), "body:"); ok {
			if doubt := event.PathDoubt(path); doubt != "" {
				in.Warn(param, doubt)
			}
		}
	}
}

// unmask puts the present secrets in place of their masks and returns the paths of those.
func unmask(o *frame.Object, next, mask, text map[string]*seal.Secret) (kept []string) {
	for path, secret := range next {
		switch {
		case mask[path] != nil && *secret == *mask[path]:
			*secret = *text[path]
			kept = append(kept, path)
		case isMask(string(*secret)):
			o.Fail(path, "is masked and matches no existing value; send the value itself")
		}
	}
	slices.Sort(kept)
	return kept
}

// checkSettings validates settings with opened secrets.
func (in *endpointInput) checkSettings(o *frame.Object, validate func(c kinds.Checks) error) {
	in.refuse(o, validate(kinds.Checks{Opened: true, URL: func(text string) error {
		_, err := in.endpoints.Egress.CheckURL(text)
		return err
	}}))
}

// refuse records the error of a validation.
func (in *endpointInput) refuse(o *frame.Object, err error) {
	if fault := (*kinds.Fault)(nil); errors.As(err, &fault) {
		o.Fail(fault.Path, "%s", fault.Message)
	} else if err != nil && in.Err == nil {
		in.Err = err
	}
}

// hasKind reports whether an entry has the settings of another kind than a webhook.
func hasKind(o *frame.Object) bool {
	for _, name := range kinds.Names() {
		if o.Object(name) != nil {
			return true
		}
	}
	return false
}

// setURL sets the URL in a request, or that of another kind, which follows from its settings.
func (in *endpointInput) setURL(o *frame.Object, before, d *config.Destination, u string) {
	was, _ := before.Kind()
	kind, address := d.Kind()
	switch {
	case in.Err != nil:
	case before.URL != "" && was != kind:
		o.Fail(cmp.Or(kind, was), "the kind of a destination does not change; add another destination")
	case kind == "" && u != "":
		d.URL = u
	case kind != "" && u != "" && u != before.URL:
		o.Fail("url", "is made from %s; leave it out", kind)
	case kind != "":
		d.URL = address
	}
}

// refuseMovedSecrets refuses that secrets of the settings, which the caller may not know, are sent elsewhere.
func (in *endpointInput) refuseMovedSecrets(o *frame.Object, before, after *config.Destination, kept []string) {
	in.refuseMoved(o, kept, kinds.OriginOf(before.URL) != kinds.OriginOf(after.URL) || before.Origin() != after.Origin())
}

func (in *endpointInput) refuseMoved(o *frame.Object, kept []string, moved bool) {
	if in.Err == nil && len(kept) > 0 && moved {
		o.Fail(kept[0], "is a secret and is not sent to another address by itself; send %s again with its value, or null "+
			"to remove it", strings.Join(kept, ", "))
	}
}

// rateLimit reads the token bucket; null removes it. The default burst is the deliveries of one second, at least
// one. It follows the rate until a request sets another burst.
func (in *endpointInput) rateLimit(o *frame.Object, d *config.Destination) {
	const name = "rate_limit"
	if o.IsNull(name) {
		d.RateLimit = nil
	}
	r := o.Object(name)
	if r == nil {
		return
	}
	var next config.RateLimit
	if d.RateLimit != nil {
		next = *d.RateLimit
	}
	chosen := next.Burst != 0 && next.Burst != defaultBurst(next.PerSecond)
	r.Decode(&next)
	if next.PerSecond == 0 {
		r.Fail("per_second", "is required")
	}
	if _, given := r.Raw("burst"); !given && !chosen {
		next.Burst = defaultBurst(next.PerSecond)
	}
	r.WarnUnknown()
	d.RateLimit = &next
}

func defaultBurst(perSecond float64) int { return int(math.Ceil(perSecond)) }

// destinationURL returns the URL to store, empty when it is absent or invalid. The mask of the URL of a current
// destination stands for that URL.
func (in *endpointInput) destinationURL(o *frame.Object, current ...config.Destination) string {
	raw, ok := o.RawOfKind("url", frame.KindString)
	if !ok {
		return ""
	}
	text, err := web.DecodeString(raw)
	if err != nil || len(text) > frame.MaxURL {
		o.Fail("url", "must be a URL of at most %d characters", frame.MaxURL)
		return ""
	}
	if strings.Contains(text, frame.Mask) {
		return in.maskedURL(o, text, current)
	}
	for _, d := range current {
		if kind, address := d.Kind(); kind != "" && address == text {
			return text // as responses show it
		}
	}
	u, err := in.endpoints.Egress.CheckURL(text)
	if err != nil {
		o.Fail("url", "%v", err)
		return ""
	}
	return u.String()
}

// maskedURL returns the URL that a mask stands for, empty unless exactly one matches.
func (in *endpointInput) maskedURL(o *frame.Object, text string, current []config.Destination) string {
	found := ""
	for _, d := range current {
		switch {
		case d.URL == "" || frame.MaskCapabilities(d.URL) != text:
		case found != "" && found != d.URL:
			o.Fail("url", "is the mask of several destinations; name the destination by its id")
			return ""
		default:
			found = d.URL
		}
	}
	if found == "" {
		o.Fail("url", "contains %s but matches no existing destination; send the full URL", frame.Mask)
	}
	return found
}

// refuseMovedCredentials refuses a new origin while stored credential headers would be sent to it: a caller who may
// change the URL does not know their values, and could have them sent to its own server. given holds the headers in
// the request.
func (in *endpointInput) refuseMovedCredentials(o *frame.Object, before, after *config.Destination,
	given map[string]bool) {
	was, is := kinds.OriginOf(before.URL), kinds.OriginOf(after.URL)
	if in.Err != nil || before.URL == "" || was == is {
		return
	}
	var kept []string
	for _, name := range slices.Sorted(maps.Keys(after.Headers)) {
		if config.CredentialHeader(name) && !given[name] {
			kept = append(kept, name)
		}
	}
	if len(kept) > 0 {
		o.Fail("headers."+kept[0], "is a credential for %s and is not sent to %s by itself; send %s again with its value, "+
			"or null to remove it",
			was, is, strings.Join(kept, ", "))
	}
}

// signing reads the algorithm, and a secret or a private key from another relay. Another one replaces the current one
// at once; rotate_secret keeps both for a while.
func (in *endpointInput) signing(o *frame.Object, d *config.Destination) {
	s := o.Object("signing")
	if s == nil {
		return
	}
	old, err := in.endpoints.signingSecret(d, 0)
	if err != nil {
		in.Err = err
		return
	}
	s.ReadOnly("schemes")
	s.FixedValue("scheme", strconv.Quote(sign.Scheme))
	s.ReadOnly("secret_last4", "secret_set", "public_key")
	algorithm, text := string(old.Algorithm()), ""
	s.Enum("algorithm", &algorithm, sign.Algorithms()...)
	s.Text("secret", 1, frame.MaxHeaderValue, &text)
	s.WarnUnknown()
	if in.Err != nil {
		return
	}
	next := old
	switch {
	case text != "" && text != old.String():
		if next, err = sign.ParseSecret(text); err != nil {
			s.Fail("secret", "%v", err)
		} else if _, given := s.Raw("algorithm"); given && string(next.Algorithm()) != algorithm {
			s.Fail("algorithm", "is %s, but secret is for %s; leave one of them out", algorithm, next.Algorithm())
		}
	case algorithm != string(old.Algorithm()):
		next = sign.New(sign.Algorithm(algorithm))
	}
	checkKey(s, d, next)
	if in.Err == nil && next.Reveal() != old.Reveal() {
		in.setSecret(d, next)
	}
}

// schemes reads by what deliveries are signed, nil for the default. A scheme whose secret is the mask of that of the
// present one with the same header keeps it.
func schemes(o *frame.Object, shown, opened *kinds.Signing) *kinds.Signing {
	s := o.Object("signing")
	if s == nil {
		return shown
	}
	var next kinds.Signing
	if shown != nil {
		next = *shown
	}
	s.Decode(&next)
	if n := len(next.Schemes); n == 0 || n == 1 && next.Schemes[0].Type == kinds.StandardWebhooks {
		return nil
	}
	for i := range next.Schemes {
		x := &next.Schemes[i]
		for j := 0; shown != nil && j < len(shown.Schemes); j++ {
			if was := shown.Schemes[j]; strings.EqualFold(x.Header, was.Header) && x.Secret == was.Secret {
				x.Secret = opened.Schemes[j].Secret
			}
		}
	}
	return &next
}

// checkKey refuses a private key for a scheme that signs with the text of the destination's secret.
func checkKey(o *frame.Object, d *config.Destination, next sign.Secret) {
	if next.Algorithm() != sign.HMAC && d.Signing != nil && slices.ContainsFunc(d.Signing.Schemes,
		func(x kinds.SigningScheme) bool { return x.Type == kinds.Template && x.Secret == "" }) {
		o.Fail("algorithm", "cannot be %s: a scheme of the type template needs a shared secret; give it one of its own",
			sign.Ed25519)
	}
}

// Limits of a destination's filter: number of types, number of paths in the body, bytes of a value as JSON.
const (
	maxFilterTypes = 50
	maxFilterBody  = 20
	maxFilterText  = 500
)

// validTypeFilter reports whether a text is an event type or a prefix of types: order.paid, order.*. Other stars are
// refused: a lone one means the same as no types, and others match nothing.
func validTypeFilter(s string) bool {
	prefix, isPrefix := strings.CutSuffix(s, ".*")
	return event.ValidType(s) && !strings.Contains(prefix, "*") && (prefix != "" || !isPrefix)
}

func (in *endpointInput) filter(o *frame.Object, d *config.Destination) {
	const name = "filter"
	if o.IsNull(name) {
		d.Filter = nil
	}
	f := o.Object(name)
	if f == nil {
		return
	}
	var next filter.Filter
	if d.Filter != nil {
		next = *d.Filter
	}
	if _, ok := f.Raw("types"); ok {
		elements := f.Array("types", maxFilterTypes)
		next.Types = make([]string, 0, len(elements))
		for i, raw := range elements {
			var t string
			if frame.KindOf(raw) == frame.KindString {
				t, _ = web.DecodeString(raw)
			}
			if !validTypeFilter(t) {
				f.Fail(frame.Indexed("types", i), `must be an event type such as "order.paid", or a prefix such as "order.*"; `+
					`leave types out to deliver all types`)
				return
			}
			next.Types = append(next.Types, t)
		}
	}
	in.filterBody(f, &next)
	filterRules(f, &next)
	f.WarnUnknown()
	d.Filter = &next
	if next.IsEmpty() {
		d.Filter = nil
	}
}

// filterRules replaces the pattern and the expression.
func filterRules(f *frame.Object, next *filter.Filter) {
	if f.IsNull("match") {
		next.Match = nil
	} else if raw, ok := f.RawOfKind("match", frame.KindObject); ok {
		if _, err := expr.ParseMatch(raw); err != nil {
			f.Fail("match", "%v", err)
		}
		next.Match = slices.Clone(raw)
	}
	if f.IsNull("when") {
		next.When = ""
	} else if _, ok := f.Raw("when"); ok {
		f.Text("when", 1, expr.MaxText, &next.When)
		if _, err := expr.Compile(next.When, expr.Bool); err != nil {
			f.Fail("when", "%v", err)
		}
	}
}

// filterBody replaces the whole body filter. It cannot merge path by path: null is a value to compare with, not a
// removal.
func (in *endpointInput) filterBody(f *frame.Object, next *filter.Filter) {
	if f.IsNull("body") {
		next.Body = nil
	}
	b := f.Object("body")
	if b == nil {
		return
	}
	next.Body = make(map[string]any, len(b.Members))
	if len(b.Members) > maxFilterBody {
		f.Fail("body", "must have at most %d members", maxFilterBody)
	}
	warned := false // one warning is enough to make somebody look
	for _, m := range b.Members {
		if _, err := event.ParseBodyPath(m.Name); err != nil {
			b.Fail(m.Name, "is not a path in a JSON body: %v", err)
			return
		}
		v, ok := scalar(m.Value)
		if !ok {
			b.Fail(m.Name, "must be a string of at most %d bytes, a number below 2^53, true, false or null", maxFilterText)
			return
		}
		next.Body[m.Name] = v
		if doubt := event.PathDoubt(m.Name); doubt != "" && !warned {
			b.In.Warn(b.Param(m.Name), doubt)
			warned = true
		}
	}
}

// scalar decodes a value to compare with. It refuses numbers from 2^53 on: float64 cannot tell such integers apart.
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
