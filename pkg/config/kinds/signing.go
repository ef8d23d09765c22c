package kinds

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/web"
)

// Types of signature schemes.
const (
	StandardWebhooks = "standard_webhooks"
	Svix             = "svix"
	Template         = "template"
)

// Signing is how deliveries are signed. Without it they are signed by Standard Webhooks alone.
type Signing struct {
	Schemes []SigningScheme `json:"schemes" in:"null" minItems:"1" maxItems:"3" label:"Signature" description:"One of up to three by which deliveries are signed at once."`
}

// SigningScheme is one signature of a delivery. Members of another type than the chosen one are empty.
type SigningScheme struct {
	Type          string      `json:"type" in:"" enum:"standard_webhooks,svix,template" label:"Scheme" description:"standard_webhooks: webhook-id, webhook-timestamp and webhook-signature (Standard Webhooks 1.0.0). svix: svix-id, svix-timestamp and svix-signature beside these. template: an HMAC in a header of your choice. Required."`
	Header        string      `json:"header,omitempty" in:"null" maxLength:"128" pattern:"@header" label:"Header" description:"For template: the header with the signature. Required there." example:"Stripe-Signature"`
	Algorithm     string      `json:"algorithm,omitempty" in:"null" enum:"sha256,sha1,sha512" label:"Hash" description:"For template: the hash of the HMAC. Default sha256."`
	Encoding      string      `json:"encoding,omitempty" in:"null" enum:"hex,base64" label:"Encoding" description:"For template: how the signature is written. Default hex."`
	SignedContent string      `json:"signed_content,omitempty" in:"null" maxLength:"256" label:"Signed text" description:"For template: what is signed, with {body} once, and {id}, {timestamp} (Unix time in seconds) and {url}. Default {body}." example:"{timestamp}.{body}"`
	Value         string      `json:"value,omitempty" in:"null" maxLength:"256" label:"Value of the header" description:"For template: with {signature} or {signatures} once, and {id} and {timestamp}. {signature}: during the overlap of a rotation the part between commas is repeated for the older secret; without a comma only the newest secret signs. {signatures}: those of both secrets with a comma between them. Default {signature}." example:"t={timestamp},v1={signature}"`
	Secret        seal.Secret `json:"secret,omitempty" in:"null" maxLength:"512" label:"Secret" description:"For template: the bytes of the text are the key, which rotate_secret does not change. Default: the text of the destination's secret, whsec_ included. Masked in responses; its mask means unchanged." example:"****4f2a"`
}

func (s *Signing) origin() string { return "" }

func (s *Signing) trim() {
	for i, x := range s.Schemes {
		next := SigningScheme{Type: x.Type}
		if x.Type == Template {
			next = x
			next.Header = http.CanonicalHeaderKey(x.Header)
			next.Algorithm, next.Encoding = cmp.Or(x.Algorithm, "sha256"), cmp.Or(x.Encoding, "hex")
			next.SignedContent, next.Value = cmp.Or(x.SignedContent, "{body}"), cmp.Or(x.Value, "{signature}")
		}
		s.Schemes[i] = next
	}
}

func (s *Signing) validate(Checks) *Fault {
	for i, x := range s.Schemes {
		fault := x.validate()
		if fault == nil && slices.ContainsFunc(s.Schemes[:i], func(other SigningScheme) bool {
			return other.Type == x.Type && other.Header == x.Header
		}) {
			fault = &Fault{map[bool]string{true: "header", false: "type"}[x.Type == Template], "is that of another scheme"}
		}
		if fault != nil {
			return &Fault{fmt.Sprintf("schemes[%d].%s", i, fault.Path), fault.Message}
		}
	}
	return nil
}

// usedHeader matches headers of other formats and schemes, of traces and of the content.
var usedHeader = regexp.MustCompile(`^(Svix-|Ce-|Content-|User-Agent$|Trace)`)

func (x *SigningScheme) validate() *Fault {
	switch {
	case x.Type == "":
		return &Fault{"type", "is required"}
	case x.Type != Template:
		return nil
	case x.Header == "":
		return &Fault{"header", "is required for template"}
	case !httpguts.ValidHeaderFieldName(x.Header):
		return &Fault{"header", "must be the name of a header: letters, digits and hyphens"}
	case !httpguts.ValidHeaderFieldValue(x.Value) || strings.TrimSpace(x.Value) != x.Value ||
		strings.ContainsFunc(x.Value, func(r rune) bool { return r > '~' }):
		return &Fault{"value", "must have printable ASCII characters without spaces at the ends"}
	}
	header := ReservedHeader(x.Header)
	if usedHeader.MatchString(x.Header) {
		header = "has another use"
	}
	for _, fault := range []Fault{{"header", header},
		{"signed_content", faultOf(x.SignedContent, []string{"body"}, "id", "timestamp", "url")},
		{"value", faultOf(x.Value, []string{"signature", "signatures"}, "id", "timestamp")}} {
		if fault.Message != "" {
			return &fault
		}
	}
	return nil
}

// placeholder matches what a template replaces.
var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// faultOf returns what is wrong with a template, empty if nothing: it has one of the required placeholders once.
func faultOf(template string, required []string, others ...string) string {
	n := 0
	for _, found := range placeholder.FindAllString(template, -1) {
		switch name := strings.Trim(found, "{}"); {
		case slices.Contains(required, name):
			n++
		case !slices.Contains(others, name):
			return fmt.Sprintf("has the unknown placeholder %.40s; there are {%s}", found,
				strings.Join(append(required, others...), "}, {"))
		}
	}
	switch {
	case len(template) > 256:
		return "must have at most 256 bytes"
	case n != 1:
		return fmt.Sprintf("must have {%s} once", strings.Join(required, "} or {"))
	}
	return ""
}

// Expand writes a template with values in place of its placeholders.
func Expand(w io.Writer, template string, values map[string][]byte) {
	for template != "" {
		at := placeholder.FindStringIndex(template)
		if at == nil {
			at = []int{len(template), len(template)}
		}
		io.WriteString(w, template[:at[0]])
		w.Write(values[strings.Trim(template[at[0]:at[1]], "{}")])
		template = template[at[1]:]
	}
}

// ReservedHeader says why a destination cannot set the header with that canonical name, empty if it can.
func ReservedHeader(canonical string) string {
	if canonical == "Idempotency-Key" || canonical == "X-Idempotency-Key" {
		return "cannot be set: it would be the same on every delivery; receivers recognise repeats by webhook-id"
	}
	return web.ReservedHeader(canonical)
}
