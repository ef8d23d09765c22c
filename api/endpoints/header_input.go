package endpoints

import (
	"maps"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of the headers that a destination adds: their number, and the bytes of a name.
const (
	maxHeaders    = 20
	maxHeaderName = 128
)

// headers merges header by header; null removes one, the mask of the current value keeps it. It returns the names of
// the headers whose values are in the request.
func (in *endpointInput) headers(o *frame.Object, d *config.Destination) map[string]bool {
	const name = "headers"
	if o.IsNull(name) {
		d.Headers = map[string]seal.Secret{}
	}
	h := o.Object(name)
	if h == nil {
		return nil
	}
	merged := maps.Clone(d.Headers)
	seen, given := map[string]bool{}, map[string]bool{}
	for _, m := range h.Members {
		canonical := http.CanonicalHeaderKey(m.Name)
		why := kinds.ReservedHeader(canonical)
		switch {
		case !httpguts.ValidHeaderFieldName(m.Name) || len(m.Name) > maxHeaderName:
			o.Fail(name, "must have header names of 1 to %d letters, digits and hyphens", maxHeaderName)
		case why != "":
			h.Fail(m.Name, "%s", why)
		case seen[canonical]:
			h.Fail(m.Name, "is given twice; header names are case-insensitive")
		case frame.KindOf(m.Value) == frame.KindNull:
			delete(merged, canonical)
		default:
			given[canonical] = in.header(h, m, d, canonical, merged)
		}
		seen[canonical] = true
	}
	if len(merged) > maxHeaders {
		o.Fail(name, "must have at most %d members", maxHeaders)
	}
	d.Headers = merged
	return given
}

// header reads one header and reports whether the request contains its value rather than its mask.
func (in *endpointInput) header(h *frame.Object, m web.Member, d *config.Destination, canonical string,
	merged map[string]seal.Secret,
) bool {
	var value string
	if frame.KindOf(m.Value) == frame.KindString {
		value, _ = web.DecodeString(m.Value)
	} else {
		h.Fail(m.Name, "must be a string")
	}
	if !httpguts.ValidHeaderFieldValue(value) || !isASCII(value) || strings.TrimSpace(value) != value ||
		len(value) > frame.MaxHeaderValue {
		h.Fail(m.Name, "must be at most %d printable ASCII characters without spaces at the ends", frame.MaxHeaderValue)
	}
	if in.Err != nil {
		return false
	}
	// A mask is compared with the current mask alone, which responses show, never with the value.
	masked := config.CredentialHeader(canonical) && isMask(value)
	if sealed, ok := merged[canonical]; ok {
		old, err := in.endpoints.Keyring.OpenString(d.ID, seal.FieldHeader(canonical), sealed)
		if err != nil {
			in.Err = err
			return false
		}
		if value == shownHeader(canonical, old) || value == old && !masked {
			return value == old && !masked
		}
	}
	if masked {
		h.Fail(m.Name, "is masked and matches no existing value; send the value itself")
		return false
	}
	merged[canonical] = in.endpoints.Keyring.SealString(d.ID, seal.FieldHeader(canonical), value)
	return true
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

// shownHeader returns a header's value as responses show it: masked if it is a credential.
func shownHeader(name, value string) string {
	if config.CredentialHeader(name) {
		return frame.MaskText(value)
	}
	return value
}
