// Package kinds has the settings of the kinds of destinations, and of where events of an endpoint come from
// (source.go). A member of [Settings] is one struct with tags, as in package wire, from which come the decoding of
// requests, the OpenAPI document, relay apply, bounds, masks and the forms of the dashboard. Fields of type
// [seal.Secret] are secrets: sealed where they are stored, masked where they are shown.
//
// How events are delivered to a kind is in dispatcher/destination.
package kinds

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
)

// Settings are the settings of a destination that depend on its kind. A destination without those of another kind is a
// webhook.
type Settings struct {
	Auth      *Auth      `json:"auth,omitempty" in:"null" description:"How requests to the URL are authenticated, beside headers and signature. Merged member by member; null ends it." label:"Authentication"`
	HTTPBatch *HTTPBatch `json:"http_batch,omitempty" in:"null" description:"Events gather and go to the URL as one JSON array in one request. Merged member by member; null sends a request for each event." label:"Batches"`
	// Ordering is of destinations of any kind.
	Ordering *Ordering `json:"ordering,omitempty" in:"null" description:"One delivery at a time for each key, in the order in which its events were accepted. Merged member by member; null ends it." label:"Order"`
	// Signing is of destinations of any kind that has headers. The API shows it in the member signing.
	Signing *Signing `json:"signing,omitempty"`
	// Each further member is a kind, whose destinations have no URL of their own.
	Kafka *Kafka `json:"kafka,omitempty" in:"null" description:"A topic in your Kafka, in place of a url: each event is a record, acknowledged by all in-sync replicas. Merged member by member." label:"Kafka"`
	S3    *S3    `json:"s3,omitempty" in:"null" description:"A bucket of an S3-compatible store, in place of a url: events gather in objects with one JSON object a line. Merged member by member." label:"S3"`
	Pull  *Pull  `json:"pull,omitempty" in:"null" description:"Consumers fetch the events themselves and acknowledge them, in place of a url: for applications that cannot be reached. Merged member by member." label:"Consumers that pull"`
	SQS   *SQS   `json:"sqs,omitempty" in:"null" description:"A queue of Amazon SQS or of a service with its API, in place of a url: each event is a message. Merged member by member." label:"SQS"`
}

// kind is what all settings have.
type kind interface {
	// trim gives members their defaults, and empties those that say nothing beside the others.
	trim()
	// validate returns the first fault that the bounds of the members do not show.
	validate(Checks) *Fault
	// origin is where the secrets are sent.
	origin() string
}

// addressed is a kind in place of a URL.
type addressed interface {
	// address is the URL that stands for the destination.
	address() string
}

// Fault is an error of the member at a path, such as auth.username.
type Fault struct{ Path, Message string }

func (e *Fault) Error() string { return e.Path + " " + e.Message }

// Checks are what a validation needs.
type Checks struct {
	// URL validates that a URL may be reached.
	URL func(string) error
	// Opened: the secrets are open.
	Opened bool
}

// each calls f with the settings that are set and their names.
func (s *Settings) each(f func(name string, value kind)) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if at := v.Field(i); !at.IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			f(name, at.Interface().(kind))
		}
	}
}

// Trim gives members their defaults, and empties those that say nothing beside the others.
func (s *Settings) Trim() { s.each(func(_ string, value kind) { value.trim() }) }

// Origin is where the secrets are sent, beside the URL of the destination.
func (s *Settings) Origin() (all string) {
	s.each(func(_ string, value kind) { all += value.origin() })
	return all
}

// Kind returns the kind of the destination, empty for a webhook, and the URL that stands for it.
func (s *Settings) Kind() (name, address string) {
	s.each(func(of string, value kind) {
		if other, ok := value.(addressed); ok && other.address() != "" {
			name, address = of, other.address()
		}
	})
	return name, address
}

// Validate validates all members. Its error is a [Fault], if it is one of a member.
func (s *Settings) Validate(c Checks) (err error) {
	if !c.Opened {
		masked := s.Masked(func(string) string { return "sealed" }) // a sealed secret is longer than its bounds
		s = &masked
	}
	of, _ := s.Kind()
	s.each(func(name string, value kind) {
		switch {
		case err != nil:
			return
		case of != "" && name != of && name != "ordering" && name != "signing":
			err = &Fault{name, "cannot be used with " + of}
			return
		}
		if fault := value.validate(c); fault != nil {
			err = &Fault{name + "." + fault.Path, fault.Message}
		} else {
			err = require.Bounds(name, value)
		}
	})
	return err
}

// Names returns the names of all kinds but webhooks.
func Names() (all []string) {
	for f := range reflect.TypeFor[Settings]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.Type.Implements(reflect.TypeFor[addressed]()) {
			all = append(all, name)
		}
	}
	return all
}

// secretType is the type of members with secrets.
var secretType = reflect.TypeFor[seal.Secret]()

// Secrets returns the secrets that are set, by their paths, such as auth.password. A secret is sealed under
// its path.
func (s *Settings) Secrets() map[string]*seal.Secret {
	found := map[string]*seal.Secret{}
	eachSecret(reflect.ValueOf(s).Elem(), "", func(path string, secret *seal.Secret) { found[path] = secret })
	return found
}

func eachSecret(v reflect.Value, path string, f func(string, *seal.Secret)) {
	for i := range v.NumField() {
		at := v.Field(i)
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch {
		case at.Type() == secretType && at.Len() > 0:
			f(path+name, at.Addr().Interface().(*seal.Secret))
		case at.Kind() == reflect.Pointer && at.Type().Elem().Kind() == reflect.Struct && !at.IsNil():
			eachSecret(at.Elem(), path+name+".", f)
		case isList(at):
			for j := range at.Len() {
				eachSecret(at.Index(j), fmt.Sprintf("%s%s[%d].", path, name, j), f)
			}
		}
	}
}

// isList reports whether a member is a list of structs.
func isList(v reflect.Value) bool {
	return v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct
}

// Clone returns a copy whose structs are its own.
func (s Settings) Clone() Settings {
	cloneStructs(reflect.ValueOf(&s).Elem())
	return s
}

func cloneStructs(v reflect.Value) {
	for i := range v.NumField() {
		switch at := v.Field(i); {
		case at.Kind() == reflect.Pointer && at.Type().Elem().Kind() == reflect.Struct && !at.IsNil():
			next := reflect.New(at.Type().Elem())
			next.Elem().Set(at.Elem())
			at.Set(next)
			cloneStructs(next.Elem())
		case isList(at):
			at.Set(reflect.AppendSlice(reflect.MakeSlice(at.Type(), 0, at.Len()), at))
		}
	}
}

// Open returns a copy with opened secrets. id is that of the destination.
func (s Settings) Open(k *seal.Keyring, id string) (Settings, error) {
	next := s.Clone()
	return next, open(k, id, next.Secrets())
}

// Seal returns a copy of opened settings with sealed secrets. Those that before has, too, stay as they were sealed.
func (s Settings) Seal(k *seal.Keyring, id string, sealed, before Settings) Settings {
	next := s.Clone()
	sealAll(k, id, next.Secrets(), sealed.Secrets(), before.Secrets())
	return next
}

// Masked returns a copy of opened settings with masked secrets.
func (s Settings) Masked(mask func(string) string) Settings {
	next := s.Clone()
	maskAll(next.Secrets(), mask)
	return next
}

// Pull has the settings of a destination whose events consumers fetch.
type Pull struct {
	LeaseSeconds int `json:"lease_seconds" in:"" minimum:"1" maximum:"600" label:"Lease" description:"How long a consumer has to acknowledge an event that it has pulled, in seconds. Then the attempt has failed (not_acknowledged), and the event is delivered again. Default 60." example:"60"`
}

func (p *Pull) trim()                  { p.LeaseSeconds = cmp.Or(p.LeaseSeconds, 60) }
func (p *Pull) origin() string         { return "" }
func (p *Pull) address() string        { return "pull://consumers" }
func (p *Pull) validate(Checks) *Fault { return nil }

// HTTPBatch has the settings of a webhook that gets several events in a request.
type HTTPBatch struct {
	Events  int `json:"max_events" in:"" minimum:"1" maximum:"1000" label:"Events of a batch" description:"A batch leaves when it has so many events. Default 100."`
	Seconds int `json:"flush_seconds" in:"" minimum:"1" maximum:"30" label:"Time of a batch" description:"How long events gather in a batch, in seconds. Default 2."`
	Bytes   int `json:"max_bytes" in:"" minimum:"1024" maximum:"16777216" label:"Size of a batch, in bytes" description:"Largest body of a request. A larger event fails as too_large. Default 1048576."`
}

func (h *HTTPBatch) trim() {
	h.Events, h.Seconds, h.Bytes = cmp.Or(h.Events, 100), cmp.Or(h.Seconds, 2), cmp.Or(h.Bytes, 1<<20)
}

func (h *HTTPBatch) origin() string { return "" }

// Gathers reports whether events wait for others and leave together.
func (s *Settings) Gathers() bool { return s.HTTPBatch != nil || s.S3 != nil }

func (h *HTTPBatch) validate(Checks) *Fault { return nil }

// Keys are the keys of records and groups of messages that are no selectors.
var Keys = []string{"event_id", "endpoint_id", "type", "none"}

func validateKey(name, key string) *Fault {
	if _, err := event.ParseDedupKey(key); err == nil || slices.Contains(Keys, key) {
		return nil
	}
	return &Fault{name, "must be one of " + strings.Join(Keys, ", ") + ", or a path such as body:$.data.id or " +
		"header:X-Shop"}
}

// What follows a delivery of an ordered destination that has failed for good.
const (
	BlockAfterFailure = "block"
	SkipFailure       = "skip"
)

// byEndpoint orders all events of an endpoint.
const byEndpoint = "endpoint"

// Ordering is the order in which a destination gets its events.
type Ordering struct {
	By         string `json:"by" in:"" maxLength:"512" pattern:"^(endpoint|(body:[$]|header:)[^|]+)$" label:"By" description:"Which events are delivered one after the other: all of the endpoint, or those with the same value at a path of the JSON body or in a header. Events without a value have no order. Required." example:"body:$.data.id"`
	WhenFailed string `json:"when_failed,omitempty" in:"null" enum:"block,skip" label:"When a delivery has failed for good" description:"block: those behind it wait until a replay or a recovery job has delivered it, or until this is skip. skip: the next one is delivered. Default block."`
	Unverified string `json:"unverified,omitempty" in:"null" enum:"unordered,ordered" label:"Events that are not verified" description:"unordered: they are delivered at once and hold up none, so that a stranger who knows ingest_url cannot stop the others with an event that fails. ordered: they have the order of all others. Events that are sent through the API count as verified. Default unordered. Without this member the order is older than it: all events are ordered but those whose verification failed."`
}

// Ordering.Unverified.
const (
	UnverifiedUnordered = "unordered"
	unverifiedOrdered   = "ordered"
)

// Includes reports whether the event has an order. Orders that were made before Unverified existed include the events
// of endpoints that verify none, as they did then: all events of such an endpoint would lose the order that its owner
// has asked for.
func (o *Ordering) Includes(ev *event.Event) bool {
	switch o.Unverified {
	case unverifiedOrdered:
		return true
	case "":
		return ev.Verdict != event.VerdictObserved
	}
	return ev.Authenticated()
}

func (o *Ordering) trim()          { o.WhenFailed = cmp.Or(o.WhenFailed, BlockAfterFailure) }
func (o *Ordering) origin() string { return "" }

func (o *Ordering) validate(Checks) *Fault {
	if o.By == "" {
		return &Fault{"by", "is required"}
	}
	if _, err := o.KeyOf(); err != nil {
		return &Fault{"by", err.Error()}
	}
	return nil
}

// KeyOf returns a function for the key of an event; it returns false for an event without one.
func (o *Ordering) KeyOf() (func(header http.Header, body []byte) (string, bool), error) {
	if o.By == byEndpoint {
		return func(http.Header, []byte) (string, bool) { return "", true }, nil
	}
	key, err := event.ParseDedupKey(o.By)
	return key.Of, err
}
