package verify

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Scheme describes a provider: how it signs, the defaults of its endpoints, what a person must do there so that its
// webhooks arrive and are verified, and a sample request.
type Scheme struct {
	Name  string
	Title string // its name in a sentence
	Label string // its name in a list; Title unless set
	About string // one line for the list of providers

	Signature signature
	// TypeSource is the default type_source of its endpoints: where its requests contain the event type. "" for none.
	TypeSource string `json:"type_source"`
	// Headers are names of headers that its requests have, or their beginnings, which end in a hyphen. Headers that other
	// fields of the row name need not be repeated. Nil for a row that many services use: its headers are not known.
	Headers []string
	// Dedup is the key of deduplication of a new endpoint: where a repeated delivery has the id of the first. "" for none.
	Dedup string
	// Answer is the default response to its events, nil for the common one.
	Answer *Answer
	// Handshake is a request with which the provider checks the URL; nil if it has none, or one of those of [Challenge].
	Handshake *handshake

	Menu string // where the provider's settings are; empty: it differs
	// Steps are what to do at the provider, in order. The ingest URL is shown beside them.
	Steps []string
	// Secret says where the secret is found or entered, SecretForm what it looks like. Empty: there is none.
	Secret        string
	SecretForm    string `json:"secret_form"`
	SecretPattern string `json:"secret_pattern"` // a regular expression; secrets that do not match are refused
	SecretLater   bool   `json:"secret_later"`   // the provider shows it once the ingest URL was saved there
	SecretIsOurs  bool   `json:"secret_is_ours"` // whoever sets the webhook up chooses it
	// NotSecrets names, by their prefixes, what the provider's users enter in place of the signing secret.
	NotSecrets map[string]string `json:"not_secrets"`
	Test       string            // what the provider sends to try the URL, and what becomes of it
	Mistake    string            // what is usually wrong when a signature does not match
	Docs       string            // the provider's own page about webhooks
	// Compared is what the signature was compared with in November 2026; for the first rows the set-up steps too.
	Compared string
	Sample   Sample // an example of its requests

	// layout describes the signature; the zero value if the provider has no known signature.
	layout layout
	// vary adapts layout to a configuration and a request; nil if all have the same. It fails if the configuration is
	// invalid.
	vary          func(layout, Config, Request) (layout, error)
	secretPattern *regexp.Regexp
	sends         map[string]bool // canonical names of headers, see SendsHeader
}

// Answer is a response: its status (200 unless set), media type and body.
type Answer struct {
	Status      int
	ContentType string `json:"content_type"`
	Body        string
}

// Signs reports whether the provider can be verified, which makes its name a verification type.
func (s *Scheme) Signs() bool { return s.layout.header != "" }

// Configurable reports whether the scheme uses the members of [Config] after Tolerance.
func (s *Scheme) Configurable() bool { return s.layout.configurable }

// CanSign reports whether [Sign] can sign as the provider does: not if only the provider has the key, or if the
// signature is a part of the body.
func (s *Scheme) CanSign() bool {
	return s.layout.form.check == nil && len(s.layout.formAt) == 0 && !strings.HasPrefix(s.layout.header, bodyPlace)
}

// CanSign reports whether [Sign] can sign with the first secret: it is not the public key of a sender.
func (c Config) CanSign() bool {
	s := ByName(c.Type)
	return s.CanSign() && len(c.Secrets) > 0 && !s.layout.signsAsymmetrically(c.Secrets[0])
}

// SecretHeader returns the header that has the secret itself, "" if the provider signs instead.
func (s *Scheme) SecretHeader() string {
	if !s.Signs() || s.layout.form.isMAC() || s.layout.form.check != nil || strings.HasPrefix(s.layout.header, bodyPlace) {
		return ""
	}
	return s.layout.header
}

// KnowsHeaders reports whether the headers of its requests are known.
func (s *Scheme) KnowsHeaders() bool { return s.Headers != nil }

// SendsHeader reports whether its requests have a header, which has its canonical name.
func (s *Scheme) SendsHeader(name string) bool { return s.sends[name] || HasPrefix(s.Headers, name) }

// HasPrefix reports whether the canonical name of a header begins with one of the names that end in a hyphen.
func HasPrefix(prefixes []string, name string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return strings.HasSuffix(prefix, "-") && strings.HasPrefix(name, prefix)
	})
}

// headerPlace finds the headers that a row names in its places and templates.
var headerPlace = regexp.MustCompile(`header:([A-Za-z0-9-]+)`)

// readHeaders collects the headers that the row names.
func (s *Scheme) readHeaders() {
	s.sends = make(map[string]bool)
	add := func(name string) { s.sends[http.CanonicalHeaderKey(name)] = true }
	for i, name := range s.Headers {
		s.Headers[i] = http.CanonicalHeaderKey(name)
		add(name)
	}
	x := &s.Signature
	for _, place := range []string{x.At, x.ID, x.TimestampAt, x.AlgorithmAt, x.Certificate, x.SecretAt} {
		add(place)
	}
	for _, text := range []string{s.TypeSource, s.Dedup, x.Content} {
		for _, found := range headerPlace.FindAllStringSubmatch(text, -1) {
			add(found[1])
		}
	}
	for name := range s.Sample.Header {
		add(name)
	}
}

// IDHeader returns the name of a signed header that the caller sets before [Sign], "" for none.
func (s *Scheme) IDHeader() string { return s.layout.idHeader }

// ByName returns the scheme of a provider, or that of [Generic] for an unknown name.
func ByName(name string) *Scheme {
	if s := byName[name]; s != nil {
		return s
	}
	return byName[Generic]
}

// layoutFor returns how a request is signed, or an error if the scheme is unknown or the configuration is invalid.
func (c Config) layoutFor(r Request) (layout, error) {
	s := ByName(c.Type)
	if !s.Signs() {
		return layout{}, fmt.Errorf("unknown scheme %q", c.Type)
	}
	l := s.layout
	l.readBody(r)
	if l.formAt != "" {
		word, _ := l.value(r, l.formAt)
		form, known := l.forms[word]
		if l.unknown = word != "" && !known; known {
			l.form = form
		}
	}
	l.form.certificate = r.Certificate
	if s.vary != nil {
		return s.vary(l, c, r)
	}
	return l, nil
}

// BodySignature is a header with one MAC over the body alone, which stands after Prefix.
type BodySignature struct{ Header, Prefix, Algorithm, Encoding string }

// BodySignature returns how requests are signed; ok is false if that is not a BodySignature.
func (c Config) BodySignature() (s BodySignature, ok bool) {
	l, err := c.layoutFor(Request{})
	return BodySignature{l.header, l.prefix, l.form.algorithm, l.form.encoding},
		err == nil && l.content.isBody() && !l.signsURL && l.form.hash != nil && l.form.check == nil
}

// Providers returns the names of all providers, including [Generic].
func Providers() []string { return schemeNames(func(*Scheme) bool { return true }) }

// Types returns the verification types: the names of the providers with a known signature.
func Types() []string { return schemeNames((*Scheme).Signs) }

// Listed returns all providers in the order of lists for people: by their labels, and last those that are no service.
func Listed() []*Scheme {
	return slices.SortedFunc(slices.Values(schemes), func(a, b *Scheme) int {
		isOther := func(s *Scheme) int { return map[bool]int{true: 1}[s.Menu == ""] }
		return cmp.Or(isOther(a)-isOther(b), strings.Compare(strings.ToLower(a.Label), strings.ToLower(b.Label)))
	})
}

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
	Type        string            // default event type
	UserAgent   string            `json:"user_agent"`
	ContentType string            `json:"content_type"` // application/json unless set
	Header      map[string]string // further headers
	Body        SampleBody
}

// SampleBody is the text of a body. In the table it is a JSON object, or a string if the provider sends something else.
type SampleBody string

// UnmarshalJSON reads the body of a row.
func (b *SampleBody) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, (*string)(b))
	}
	var compact bytes.Buffer
	err := json.Compact(&compact, text)
	*b = SampleBody(compact.String())
	return err
}

// SampleValues are the values that differ between two samples.
type SampleValues struct {
	Type string
	ID   string // unique, 26 characters
	At   time.Time
}

// Fill replaces the placeholders in a text of a sample: {type}, in quotes too, {id}, {ID} in upper case, and the time
// as {unix} in seconds, as {millis} and as {iso} in RFC 3339. "#unix" and "#millis" in quotes are numbers.
func (x SampleValues) Fill(text string) string {
	unix, millis := strconv.FormatInt(x.At.Unix(), 10), strconv.FormatInt(x.At.UnixMilli(), 10)
	return strings.NewReplacer(`"{type}"`, strconv.Quote(x.Type), "{type}", x.Type, "{id}", x.ID,
		"{ID}", strings.ToUpper(x.ID), "{unix}", unix, "{millis}", millis, `"#unix"`, unix, `"#millis"`, millis,
		"{iso}", x.At.UTC().Format(time.RFC3339)).Replace(text)
}

// Names of the providers that code or tests name. All but Generic are verification types too.
const (
	Generic          = "generic" // for endpoints without a known provider; it has no signature
	Stripe           = "stripe"
	GitHub           = "github"
	Shopify          = "shopify"
	Slack            = "slack"
	Twilio           = "twilio"
	StandardWebhooks = "standard_webhooks" // for providers that follow the Standard Webhooks specification
	HMAC             = "hmac"              // the configurable scheme, for providers that have no scheme of their own here
)

// table has one row for each provider. It is JSON because most of a row is text for people: how the provider signs is
// one line of it. Its fields are those of [Scheme] and of signature; a row that cannot be read ends every test and
// the process at its start.
//
//go:embed providers.json
var table []byte

// schemes are all providers, in the order of the API's enums. Validation, the enums, defaults, pages, samples and the
// table in docs/start/providers.md use this list.
var schemes, byName = readTable(table)

// signature is how a provider signs, as a row has it. A place is the name of a header or `body:$.path`.
type signature struct {
	Like string // the name of a row above, whose signature this is
	At   string // place of the signature
	ID   string // header whose value and a full stop begin the signed text
	List string // bytes between the items of the header; "" if its value is one signature
	// Time is the item of the list before its timestamp, `t=` unless set.
	Time   string
	Prefix string // of a signature
	// Algorithm is sha256 (default), sha1 or sha512 for HMAC, ed25519, ecdsa, rsa-sha1, rsa-sha256, token, or basic for
	// basic authentication. AlgorithmAt is a place that names one of Algorithms instead.
	Algorithm   string
	AlgorithmAt string `json:"algorithm_at"`
	Algorithms  map[string]string
	Encoding    string // hex (default) or base64; of public keys too
	// Content is the signed text, see parseContent. Default {body}.
	Content string
	// Clock is the form of the timestamp: seconds (default), milliseconds or rfc3339. TimestampAt is its place if Content
	// does not name it.
	Clock       string
	TimestampAt string `json:"timestamp_at"`
	// Ageless: the age is not checked, because the provider repeats requests with their old timestamp, or may do so.
	Ageless bool
	Key     string // of an HMAC: text (default), hex, or whsec for base64 after `whsec_`
	// Certificate is the place of the URL of an RSA certificate. Only URLs that match CertificateURL are fetched, and a
	// name in the certificate must match CertificateName.
	Certificate     string
	CertificateURL  string `json:"certificate_url"`
	CertificateName string `json:"certificate_name"`
	SecretAt        string `json:"secret_at"` // place that must equal the secret
	SignsURL        bool   `json:"signs_url"` // Twilio: see appendURLMessages
	// DecodesURL: the provider may have decoded some characters of {url} before it signed: see signedCharacters.
	DecodesURL bool `json:"decodes_url"`
}

// varies adapts the layout of a row to a configuration and a request.
var varies = map[string]func(layout, Config, Request) (layout, error){
	Twilio: varyTwilio, StandardWebhooks: varyStandard, HMAC: varyCustom,
}

// readTable reads the rows. It panics for one that cannot be read.
func readTable(text []byte) (all []*Scheme, byName map[string]*Scheme) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		panic(fmt.Sprintf("providers.json: %v", err))
	}
	byName = make(map[string]*Scheme, len(all))
	for _, s := range all {
		if byName[s.Name] != nil {
			panic("providers.json has two rows " + s.Name)
		}
		byName[s.Name] = s
		if s.Label == "" {
			s.Label = s.Title
		}
		if s.Sample.ContentType == "" {
			s.Sample.ContentType = jsonType
		}
		if s.SecretPattern != "" {
			s.secretPattern = regexp.MustCompile(`^(?:` + s.SecretPattern + `)$`)
		}
		s.readHeaders()
		s.layout, s.vary = s.Signature.layout(), varies[s.Name]
		s.layout.configurable = s.Name == HMAC
		if like := byName[s.Signature.Like]; like != nil {
			s.layout, s.vary = like.layout, like.vary
		}
	}
	return all, byName
}

// layout converts the signature of a row.
func (s *signature) layout() layout {
	if s.At == "" {
		return layout{}
	}
	l := layout{
		header: canonicalPlace(s.At), idHeader: http.CanonicalHeaderKey(s.ID), separators: s.List, prefix: s.Prefix,
		timeItem: cmp.Or(s.Time, "t="), form: formOf(cmp.Or(s.Algorithm, "sha256"), cmp.Or(s.Encoding, hexText)),
		formAt: canonicalPlace(s.AlgorithmAt), clock: s.Clock, ageless: s.Ageless, keyForm: s.Key, signsURL: s.SignsURL,
		decodesURL:  s.DecodesURL,
		certificate: canonicalPlace(s.Certificate), secretAt: canonicalPlace(s.SecretAt),
		forms: map[string]macForm{},
	}
	if s.Content != "" {
		l.content = parseContent(s.Content)
	}
	if s.TimestampAt != "" {
		l.content.placeholder, l.content.header = "{timestamp:"+s.TimestampAt+"}", canonicalPlace(s.TimestampAt)
	}
	if s.Certificate != "" {
		l.certificateURL = regexp.MustCompile(`^(?:` + s.CertificateURL + `)$`)
		l.certificateName = regexp.MustCompile(`^(?i:` + s.CertificateName + `)$`)
	}
	for word, algorithm := range s.Algorithms {
		l.forms[word] = formOf(algorithm, cmp.Or(s.Encoding, hexText))
	}
	settings := slices.DeleteFunc([]string{l.formAt, l.certificate, l.secretAt}, func(s string) bool { return s == "" })
	l.required = settings
	for _, place := range slices.Concat(settings, []string{l.header, l.content.header}, l.content.places()) {
		path, inBody := strings.CutPrefix(place, bodyPlace)
		switch {
		case inBody:
			l.paths = append(l.paths, path)
		case place != l.header && place != l.content.header && !slices.Contains(l.required, place):
			l.required = append(l.required, place) // fields of the body may be left out
		}
	}
	return l
}

const jsonType = "application/json"
