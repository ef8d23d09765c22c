package verify

import (
	"fmt"
	"net/http"
	"time"
)

// schemes are all providers, in the order of the documents. To add one, add a file and an entry here. Validation, the
// API's enums, defaults and samples use this list; tests compare it with the OpenAPI document and the table in
// README.md.
var schemes = []*Scheme{&generic, &stripe, &github, &shopify, &slack, &twilio, &standardWebhooks, &custom}

// Scheme describes a provider: how it signs, the defaults of its endpoints, and a sample request.
type Scheme struct {
	Name  string
	Title string // its name in a sentence
	// TypeSource is the default type_source of its endpoints: where its requests contain the event type. "" for none.
	TypeSource string
	// Answer is the default response to its events, nil for the common one.
	Answer *Answer
	// Sample is an example of its requests.
	Sample Sample
	// IDHeader is a signed header that the caller sets before [Sign], "" for none.
	IDHeader string

	// check verifies the signature without its age and returns the signed time, zero if the scheme signs none. The time is
	// valid only if the reason is empty. nil if the provider has no known signature.
	check func(Config, Request) (time.Time, Reason)
	// sign sets the headers that check reads; stamp is the time of the request in Unix seconds.
	sign func(c Config, r Request, stamp string) error
	// secretsOfOtherUse names, by their prefixes, what the provider's users enter in place of the signing secret.
	secretsOfOtherUse map[string]string
	// layout describes the signature to Explain. It is nil if check is nil, and returns the zero value for an invalid
	// configuration.
	layout func(Config, Request) layout
	// secretFault returns what is wrong with a secret, or "", after the common rules; nil if the scheme has no rule of its
	// own.
	secretFault func(secret string) string
	// validate adds the faults of the members that only this scheme uses; nil if there are none.
	validate func(Config, addFault)
}

// Answer is the body of a response and its media type.
type Answer struct{ ContentType, Body string }

// Signs reports whether the provider can be verified, which makes its name a verification type.
func (s *Scheme) Signs() bool { return s.check != nil }

// Configurable reports whether the scheme uses the members of [Config] after Tolerance.
func (s *Scheme) Configurable() bool { return s.validate != nil }

// ByName returns the scheme of a provider, or that of [Generic] for an unknown name.
func ByName(name string) *Scheme {
	for _, s := range schemes {
		if s.Name == name {
			return s
		}
	}
	return &generic
}

// Providers returns the names of all providers, including [Generic].
func Providers() []string { return schemeNames(func(*Scheme) bool { return true }) }

// Types returns the verification types: the names of the providers with a known signature.
func Types() []string { return schemeNames((*Scheme).Signs) }

func schemeNames(include func(*Scheme) bool) (all []string) {
	for _, s := range schemes {
		if include(s) {
			all = append(all, s.Name)
		}
	}
	return all
}

// Sample is a small example request of a provider. It contains no personal data.
type Sample struct {
	Type        string // default event type
	UserAgent   string
	ContentType string
	Header      func(x SampleValues) map[string]string // further headers; nil for none
	Body        func(x SampleValues) string
}

// SampleValues are the values that differ between two samples.
type SampleValues struct {
	Type string
	ID   string // unique, 26 characters
	At   time.Time
}

// unix and iso return the time of the sample in Unix seconds and in RFC 3339.
func (x SampleValues) unix() int64 { return x.At.Unix() }

func (x SampleValues) iso() string { return x.At.UTC().Format(time.RFC3339) }

const jsonType = "application/json"

// plainSample is the sample of schemes that do not define the content of a request.
var plainSample = Sample{
	Type: "sample.created", UserAgent: "webhook-sample/1", ContentType: jsonType,
	Body: func(x SampleValues) string {
		return fmt.Sprintf(`{"id":"sample_%s","type":%q,"created_at":%q,"data":{"sample":true,"amount":4200}}`,
			x.ID, x.Type, x.iso())
	},
}

// setHeader sets a header of a request and replaces its former values.
func setHeader(r Request, name, value string) {
	r.Header[http.CanonicalHeaderKey(name)] = []string{value}
}
