package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/verify"
)

// Values of an import are validated like requests to the API: somebody else may have written the document, and every
// part of the service relies on these bounds.

// validate validates a value of an import; see value.validate. checkURL validates the URL of a destination.
func validate(v value, checkURL func(string) error) error {
	if e, ok := v.(*Endpoint); ok {
		return e.validateWith(checkURL)
	}
	return v.validate()
}

func (k *Key) validate() error {
	return requireOneOf("scope", string(k.Scope), string(Read), string(ReadWrite))
}

func (u *User) validate() error {
	u.Link = nil // a link of an import must not let anybody sign in
	email, err := NormalizeEmail(u.Email)
	if err != nil || email != u.Email || u.ID != UserID(email) {
		return fmt.Errorf("email %.100q does not belong to this id", u.Email)
	}
	if u.Password != "" {
		_, err = parseHash(u.Password)
	}
	return errors.Join(err, requireOneOf("scope", string(u.Scope), string(Read), string(ReadWrite)),
		requireRange("epoch", u.Epoch, 0, 1<<53),
		requireRange("ended_sessions", len(u.EndedSessions), 0, maxEndedSessions))
}

func (s *AlertSettings) validate() error {
	errs := []error{requireRange("channels", len(s.Channels), 0, maxAlertChannels)}
	for i := range s.Channels {
		c := &s.Channels[i]
		errs = append(errs, requireRange("channels.to", len(c.To), 0, MaxAlertAddresses))
		if s.Channel(c.Kind) != c {
			errs = append(errs, fmt.Errorf("channels contains %.100q twice", c.Kind))
		}
	}
	return errors.Join(errs...)
}

// Bounds of alert channels. Newer versions may know more kinds than this one.
const (
	maxAlertChannels  = 20
	MaxAlertAddresses = 20 // addresses of one channel
)

// Bounds of the members of an endpoint, the same as in the API.
const (
	maxDestinations  = 50
	maxNameText      = 100
	maxDescription   = 500
	maxMetadataCount = 20
	maxMetadataText  = 500
	maxAddedHeaders  = 20
	maxDay           = 86_400
)

func (e *Endpoint) validateWith(checkURL func(string) error) error {
	if e.Metadata == nil {
		e.Metadata = map[string]string{}
	}
	errs := []error{
		requireText("name", e.Name, 1, maxNameText), requireOneOf("provider", e.Provider, verify.Providers()...),
		requireRange("destinations", len(e.Destinations), 1, maxDestinations),
		requireRange("metadata", len(e.Metadata), 0, maxMetadataCount),
		e.RetryPolicy.validate(), requireBounds("response", &e.Response),
	}
	if e.Description != nil {
		errs = append(errs, requireText("description", *e.Description, 0, maxDescription))
	}
	for key, value := range e.Metadata {
		errs = append(errs, requireText("key of metadata", key, 1, 64), requireText("metadata", value, 0, maxMetadataText))
	}
	if e.TypeSource != nil {
		_, err := event.ParseTypeSource(*e.TypeSource)
		errs = append(errs, err)
	}
	if e.Dedup != nil {
		_, err := event.ParseDedupKey(e.Dedup.Key)
		errs = append(errs, err, requireBounds("dedup", e.Dedup))
	}
	if v := e.Verification; v != nil {
		errs = append(errs, v.validate())
	}
	if e.IngestLimit != nil {
		errs = append(errs, requireBounds("ingest_limit", e.IngestLimit))
	}
	for i := range e.Destinations {
		d := &e.Destinations[i]
		if err := d.validate(checkURL); err != nil {
			errs = append(errs, fmt.Errorf("destination %s: %w", d.ID, err))
		}
	}
	return errors.Join(errs...)
}

// validate validates all members but the texts of the secrets, which are sealed.
func (v *Verification) validate() error {
	conf := verify.Config{Type: v.Type, Header: v.Header, Algorithm: v.Algorithm, Encoding: v.Encoding, Prefix: v.Prefix,
		SignedContent: v.SignedContent, Tolerance: verify.DefaultTolerance, Secrets: []string{"whsec_AAAA"}}
	if err := conf.Validate(); err != nil {
		return fmt.Errorf("verification: %w", err)
	}
	return errors.Join(requireOneOf("verification.mode", v.Mode, "enforce", "observe"),
		requireRange("verification.secrets", len(v.Secrets), 1, verify.MaxSecrets),
		requireRange("verification.tolerance_seconds", v.ToleranceSeconds, 0, maxDay))
}

// headerName matches header names in the form in which they are stored and sent.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")

func (d *Destination) validate(checkURL func(string) error) error {
	if d.Headers == nil {
		d.Headers = map[string]Sealed{}
	}
	errs := []error{
		checkURL(d.URL), requireRange("timeout_seconds", d.TimeoutSeconds, 1, 60),
		requireRange("max_in_flight", d.MaxInFlight, 1, 1000),
		requireRange("headers", len(d.Headers), 0, maxAddedHeaders), requireRange("signing secrets", len(d.Secrets), 1, 10),
	}
	if d.Name != nil {
		errs = append(errs, requireText("name", *d.Name, 0, maxNameText))
	}
	for name := range d.Headers {
		if !headerName.MatchString(name) {
			errs = append(errs, fmt.Errorf("%.100q is not a valid header name", name))
		}
	}
	if r := d.RateLimit; r != nil {
		errs = append(errs, requireBounds("rate_limit", r))
	}
	if f := d.Filter; f != nil {
		errs = append(errs, requireRange("filter.types", len(f.Types), 0, 50),
			requireRange("filter.body", len(f.Body), 0, 20))
		for path, want := range f.Body {
			errs = append(errs, requireText("path of filter.body", path, 1, 500))
			switch want.(type) {
			case nil, bool, string, float64:
			default:
				errs = append(errs, errors.New("filter.body must contain only strings, numbers, booleans and null"))
			}
		}
	}
	return errors.Join(errs...)
}

// requireBounds returns the errors of the members of x, a pointer to a struct, that are outside of the bounds in their
// tags. These are the bounds of the API; see package wire. Those of a member that omitempty leaves out do not count.
func requireBounds(name string, x any) error {
	var errs []error
	v := reflect.ValueOf(x).Elem()
	for i := range v.NumField() {
		at, tag := v.Field(i), v.Type().Field(i).Tag
		if at.Kind() == reflect.Pointer {
			at = at.Elem() // invalid if it is nil
		}
		member, options, _ := strings.Cut(tag.Get("json"), ",")
		if options == "omitempty" && at.IsZero() {
			continue
		}
		member = name + "." + member
		bound := func(keyword string) float64 {
			n, _ := strconv.ParseFloat(tag.Get(keyword), 64)
			return n
		}
		switch at.Kind() {
		case reflect.Int:
			errs = append(errs, requireRange(member, int(at.Int()), int(bound("minimum")), int(bound("maximum"))))
		case reflect.Float64:
			errs = append(errs, requireRange(member, at.Float(), bound("minimum"), bound("maximum")))
		case reflect.Slice:
			errs = append(errs, requireRange(member, at.Len(), int(bound("minItems")), int(bound("maxItems"))))
			numbers, _ := at.Interface().([]int)
			for _, n := range numbers {
				errs = append(errs, requireRange(member, n, int(bound("items.minimum")), int(bound("items.maximum"))))
			}
		case reflect.String:
			switch words := tag.Get("enum"); {
			case strings.HasPrefix(words, "@"): // a table, which the caller has
			case words != "":
				errs = append(errs, requireOneOf(member, at.String(), strings.Split(words, ",")...))
			default:
				errs = append(errs, requireText(member, at.String(), int(bound("minLength")), int(bound("maxLength"))))
			}
		}
	}
	return errors.Join(errs...)
}

// requireRange returns an error unless lo <= n <= hi.
func requireRange[N int | float64](name string, n, lo, hi N) error {
	if n >= lo && n <= hi { // false for NaN
		return nil
	}
	return fmt.Errorf("%s must be %[3]v to %[4]v, not %[2]v", name, n, lo, hi)
}

func requireHash(hash []byte) error {
	return requireRange("length of hash", len(hash), conflog.HashLen, conflog.HashLen)
}

// requireText returns an error unless s is valid UTF-8 of lo to hi characters.
func requireText(name, s string, lo, hi int) error {
	if n := utf8.RuneCountInString(s); n < lo || n > hi || !utf8.ValidString(s) {
		return fmt.Errorf("%s must have %[3]d to %[4]d characters, not %[2]d", name, n, lo, hi)
	}
	return nil
}

// requireOneOf returns an error unless value is one of the words.
func requireOneOf(name, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	return fmt.Errorf("%s must be one of %[3]s, not %.100[2]q", name, value, strings.Join(words, ", "))
}
