package api

import (
	"maps"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of the headers that a destination adds.
const (
	maxHeaders     = 20
	maxHeaderName  = 128
	maxHeaderValue = 2048
)

// reservedHeader says why a header cannot be added to deliveries, "" if it can.
func reservedHeader(canonical string) string {
	lower := strings.ToLower(canonical)
	// Receivers that pass headers as variables read Relay_Hops, and some of them Relay.Hops, as relay-hops.
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, lower)
	switch {
	case strings.HasPrefix(plain, "webhook-"), strings.HasPrefix(plain, "relay-"):
		return "is set by the service on every delivery"
	case lower == "host", lower == "content-length", lower == "transfer-encoding", lower == "connection",
		lower == "expect",
		lower == "keep-alive", lower == "proxy-connection", lower == "te", lower == "trailer", lower == "upgrade":
		return "belongs to the transport and cannot be set"
	case lower == "idempotency-key", lower == "x-idempotency-key":
		return "cannot be the same on every delivery; receivers have webhook-id"
	}
	return ""
}

// headers merges name by name; null removes one, the mask of the present value keeps it. It returns the names whose
// values the request brings.
func (in *endpointInput) headers(o *object, d *config.Destination) map[string]bool {
	const name = "headers"
	if o.isNull(name) {
		d.Headers = map[string]config.Sealed{}
	}
	h := o.object(name)
	if h == nil {
		return nil
	}
	merged := maps.Clone(d.Headers)
	given, brought := map[string]bool{}, map[string]bool{}
	for _, m := range h.members {
		canonical := http.CanonicalHeaderKey(m.Name)
		why := reservedHeader(canonical)
		switch {
		case !httpguts.ValidHeaderFieldName(m.Name) || len(m.Name) > maxHeaderName:
			o.fail(name, "must have header names of 1 to %d letters, digits and hyphens", maxHeaderName)
		case why != "":
			h.fail(m.Name, "%s", why)
		case given[canonical]:
			h.fail(m.Name, "stands twice; names do not distinguish case")
		case kindOf(m.Value) == kindNull:
			delete(merged, canonical)
		default:
			brought[canonical] = in.header(h, m, d, canonical, merged)
		}
		given[canonical] = true
	}
	if len(merged) > maxHeaders {
		o.fail(name, "must have at most %d members", maxHeaders)
	}
	d.Headers = merged
	return brought
}

// header reads one of them and reports whether it is a value: the mask of the present one is none.
func (in *endpointInput) header(h *object, m web.Member, d *config.Destination, canonical string,
	merged map[string]config.Sealed,
) bool {
	var value string
	if kindOf(m.Value) == kindString {
		value, _ = web.String(m.Value)
	} else {
		h.fail(m.Name, "must be a string")
	}
	if !httpguts.ValidHeaderFieldValue(value) || !isASCII(value) || strings.TrimSpace(value) != value ||
		len(value) > maxHeaderValue {
		h.fail(m.Name, "must be at most %d printable ASCII characters, none of them a space at the ends", maxHeaderValue)
	}
	if in.err != nil {
		return false
	}
	if sealed, ok := merged[canonical]; ok {
		old, err := in.endpoints.keyring.OpenString(d.ID, config.FieldHeader(canonical), sealed)
		if err != nil {
			in.err = err
			return false
		}
		if value == old || value == shownHeader(canonical, old) {
			return value == old
		}
	}
	merged[canonical] = in.endpoints.keyring.SealString(d.ID, config.FieldHeader(canonical), value)
	return true
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

// shownHeader is a header's value as reads show it.
func shownHeader(name, value string) string {
	if config.CredentialHeader(name) {
		return maskText(value)
	}
	return value
}
