package verify

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

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

	// layout describes the signature; the zero value if the provider has no known signature.
	layout layout
	// vary adapts layout to a configuration and a request; nil if all have the same. It fails if the configuration is
	// invalid.
	vary func(layout, Config, Request) (layout, error)
	// secretsOfOtherUse names, by their prefixes, what the provider's users enter in place of the signing secret.
	secretsOfOtherUse map[string]string
}

// Answer is the body of a response and its media type.
type Answer struct{ ContentType, Body string }

// Signs reports whether the provider can be verified, which makes its name a verification type.
func (s *Scheme) Signs() bool { return s.layout.header != "" }

// Configurable reports whether the scheme uses the members of [Config] after Tolerance.
func (s *Scheme) Configurable() bool { return s.layout.configurable }

// IDHeader returns the name of a signed header that the caller sets before [Sign], "" for none.
func (s *Scheme) IDHeader() string { return s.layout.idHeader }

// ByName returns the scheme of a provider, or that of [Generic] for an unknown name.
func ByName(name string) *Scheme {
	for _, s := range schemes {
		if s.Name == name {
			return s
		}
	}
	return &generic
}

// layoutFor returns how a request is signed, or an error if the scheme is unknown or the configuration is invalid.
func (c Config) layoutFor(r Request) (layout, error) {
	s := ByName(c.Type)
	if !s.Signs() {
		return layout{}, fmt.Errorf("unknown scheme %q", c.Type)
	}
	if s.vary == nil {
		return s.layout, nil
	}
	return s.vary(s.layout, c, r)
}

// BodySignature is a header with one MAC over the body alone, which stands after Prefix.
type BodySignature struct{ Header, Prefix, Algorithm, Encoding string }

// BodySignature returns how requests are signed; ok is false if that is not a BodySignature.
func (c Config) BodySignature() (s BodySignature, ok bool) {
	l, err := c.layoutFor(Request{})
	return BodySignature{l.header, l.prefix, l.form.algorithm, l.form.encoding},
		err == nil && l.content == template{} && !l.signsURL
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

// Sample is a small example request of a provider. It contains no personal data. [SampleValues.Fill] replaces the
// placeholders in Body and in the values of Header.
type Sample struct {
	Type        string // default event type
	UserAgent   string
	ContentType string
	Header      map[string]string // further headers
	Body        string
}

// SampleValues are the values that differ between two samples.
type SampleValues struct {
	Type string
	ID   string // unique, 26 characters
	At   time.Time
}

// Fill replaces the placeholders in a text of a sample: {type}, in quotes too, {id}, {ID} in upper case, and the time
// as {unix} in seconds, as {millis} and as {iso} in RFC 3339.
func (x SampleValues) Fill(text string) string {
	return strings.NewReplacer(`"{type}"`, strconv.Quote(x.Type), "{type}", x.Type, "{id}", x.ID,
		"{ID}", strings.ToUpper(x.ID), "{unix}", strconv.FormatInt(x.At.Unix(), 10),
		"{millis}", strconv.FormatInt(x.At.UnixMilli(), 10), "{iso}", x.At.UTC().Format(time.RFC3339)).Replace(text)
}
