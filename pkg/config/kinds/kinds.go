// Package kinds has the settings of the kinds of destinations. A member of [Settings] is one struct with tags, as in
// package wire, from which come the decoding of requests, the OpenAPI document, relay apply, bounds, masks and the
// forms of the dashboard. Fields of type [seal.Secret] are secrets: sealed where they are stored, masked where they are
// shown.
//
// How events are delivered to a kind is in dispatcher/destination.
package kinds

import (
	"reflect"
	"strings"

	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/config/seal"
)

// Settings are the settings of a destination that depend on its kind. A destination without those of another kind is a
// webhook.
type Settings struct {
	Auth      *Auth      `json:"auth,omitempty" in:"null" description:"How requests to the URL are authenticated, beside headers and signature. Merged member by member; null ends it." label:"Authentication"`
	HTTPBatch *HTTPBatch `json:"http_batch,omitempty" in:"null" description:"Events gather and go to the URL as one JSON array in one request. Merged member by member; null sends a request for each event." label:"Batches"`
	// Ordering is of destinations of any kind.
	Ordering *Ordering `json:"ordering,omitempty" in:"null" description:"One delivery at a time for each key, in the order in which its events were accepted. Merged member by member; null ends it." label:"Order"`
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
		case of != "" && name != of && name != "ordering":
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
		}
	}
}

// Clone returns a copy whose structs are its own.
func (s Settings) Clone() Settings {
	cloneStructs(reflect.ValueOf(&s).Elem())
	return s
}

func cloneStructs(v reflect.Value) {
	for i := range v.NumField() {
		if at := v.Field(i); at.Kind() == reflect.Pointer && at.Type().Elem().Kind() == reflect.Struct && !at.IsNil() {
			next := reflect.New(at.Type().Elem())
			next.Elem().Set(at.Elem())
			at.Set(next)
			cloneStructs(next.Elem())
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
