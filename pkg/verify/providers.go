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
	"strings"
)

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
	// Certificate is the place of the URL of an RSA certificate. Only URLs that match CertificateURL are fetched.
	Certificate    string
	CertificateURL string `json:"certificate_url"`
	SecretAt       string `json:"secret_at"` // place that must equal the secret
	SignsURL       bool   `json:"signs_url"` // Twilio: see appendURLMessages
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
