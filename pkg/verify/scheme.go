package verify

import (
	"fmt"
	"net/http"
	"time"
)

// schemes are all providers, in the order in which documents list them. Each has a file of its own; a new one is a file
// and a line here. Validation, the API's words, defaults and samples are taken from it, and a test holds the enums of
// the OpenAPI document and the table in README.md to it.
var schemes = []*Scheme{&generic, &stripe, &github, &shopify, &slack, &twilio, &standardWebhooks, &custom}

// Scheme is what is known of a provider: how it signs, and what its endpoints have unless they say otherwise.
type Scheme struct {
	Name string
	// TypeSource is where the type of its events stands, "" if it has no usual place.
	TypeSource string
	// Answer is what it wants to read when its event is durable, nil for the usual one.
	Answer *Answer
	// Sample is a request as the provider sends it.
	Sample Sample
	// IDHeader is a signed header that must be set before [Sign], "" for none.
	IDHeader string

	// check verifies the signature without its age and returns the signed time, zero if the scheme signs none. Use the
	// time only if the reason is empty. nil: the provider has no known signature.
	check func(Config, Request) (time.Time, Reason)
	// sign sets the headers that check reads; stamp is the time of the request in seconds.
	sign func(c Config, r Request, stamp string) error
	// secretFault says what is wrong with a secret that is good text; nil: there is no more to a secret.
	secretFault func(secret string) string
	// validate adds the faults of the members that only this scheme has; nil: it has none of its own.
	validate func(Config, addFault)
}

// Answer is the body of a response and its media type.
type Answer struct{ ContentType, Body string }

// Signs reports whether the provider can be verified, which makes its name a verification type.
func (s *Scheme) Signs() bool { return s.check != nil }

// Configurable reports whether the members of [Config] after Tolerance mean something.
func (s *Scheme) Configurable() bool { return s.validate != nil }

// ByName returns the scheme of a provider, that of [Generic] for a name of which nothing is known.
func ByName(name string) *Scheme {
	for _, s := range schemes {
		if s.Name == name {
			return s
		}
	}
	return &generic
}

// Providers are the names of all.
func Providers() []string { return schemeNames(func(*Scheme) bool { return true }) }

// Types are the names of those that sign: the verification types.
func Types() []string { return schemeNames((*Scheme).Signs) }

func schemeNames(of func(*Scheme) bool) (all []string) {
	for _, s := range schemes {
		if of(s) {
			all = append(all, s.Name)
		}
	}
	return all
}

// Sample is a small request of a provider, with nobody's data in it.
type Sample struct {
	Type        string // of the event, unless another is asked for
	UserAgent   string
	ContentType string
	Header      func(x SampleValues) map[string]string // nil: no more
	Body        func(x SampleValues) string
}

// Sampling is what differs from one sample to the next.
type SampleValues struct {
	Type string
	ID   string // 26 characters that occur once
	At   time.Time
}

// unix and iso are the time of the sample as providers write it.
func (x SampleValues) unix() int64 { return x.At.Unix() }

func (x SampleValues) iso() string { return x.At.UTC().Format(time.RFC3339) }

const jsonType = "application/json"

// plainSample is the sample of providers that may send anything.
var plainSample = Sample{
	Type: "sample.created", UserAgent: "webhook-sample/1", ContentType: jsonType,
	Body: func(x SampleValues) string {
		return fmt.Sprintf(`{"id":"sample_%s","type":%q,"created_at":%q,"data":{"sample":true,"amount":4200}}`,
			x.ID, x.Type, x.iso())
	},
}

// setHeader sets a header of a request that is signed.
func setHeader(r Request, name, value string) {
	r.Header[http.CanonicalHeaderKey(name)] = []string{value}
}
