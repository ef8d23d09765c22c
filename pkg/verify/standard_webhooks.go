package verify

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

const (
	standardPrefixText = "whsec_"
	publicPrefixText   = "whpk_" // of an Ed25519 key, with which asymmetric signatures are verified
	asymmetricPrefix   = "v1a,"
)

// signsAsymmetrically reports whether a secret of Standard Webhooks is the public key of the sender.
func (l *layout) signsAsymmetrically(secret string) bool {
	return l.keyForm == "whsec" && strings.HasPrefix(secret, publicPrefixText)
}

var ed25519Base64 = formOf("ed25519", base64Text)

// formFor returns how signatures are verified with a secret.
func (l *layout) formFor(secret string) macForm {
	if l.signsAsymmetrically(secret) {
		return ed25519Base64
	}
	return l.form
}

// varyStandard reads the headers that Svix sends with the same meaning as `svix-…`, if the request has no `webhook-…`
// header. Otherwise an attacker could add a new webhook-id, by which destinations deduplicate, to a captured request
// whose svix signature does not cover it. For the same reason a request with both must have the same id in both.
func varyStandard(l layout, _ Config, r Request) (layout, error) {
	if !hasStandardHeader(r.Header, "Webhook-") && hasStandardHeader(r.Header, "Svix-") {
		l.header, l.idHeader, l.content = "Svix-Signature", "Svix-Id", svixContent
	} else if ids := r.Header["Svix-Id"]; ids != nil {
		l.unknown = !slices.Equal(ids, r.Header["Webhook-Id"])
	}
	return l, nil
}

var svixContent = parseContent("{timestamp:Svix-Timestamp}.{body}")

func hasStandardHeader(h http.Header, prefix string) bool {
	return len(h[prefix+"Id"])+len(h[prefix+"Timestamp"])+len(h[prefix+"Signature"]) > 0
}

// hidesTimestamp reports whether a part of id after its first full stop is a number. The signature covers
// `id.timestamp.body`. If a body begins with a number and a full stop, an attacker could use that number as the
// timestamp and the signed `id.timestamp` as the id, with the same signature. The specification warns of full stops in
// ids.
func hidesTimestamp(id string) bool {
	_, rest, more := strings.Cut(id, ".")
	for more {
		var part string
		part, rest, more = strings.Cut(rest, ".")
		if isNumber(part) {
			return true
		}
	}
	return false
}

// decodeStandardSecret decodes a secret in base64, with or without the prefix `whsec_`; the vendors' libraries accept
// both. Supabase shows it after `v1,`. A public key has the prefix `whpk_`.
func decodeStandardSecret(secret string) (string, error) {
	if encoded, ok := strings.CutPrefix(secret, publicPrefixText); ok {
		key, err := ed25519Base64.decode(encoded)
		if err == nil {
			err = isEd25519(key)
		}
		if err != nil {
			return "", err
		}
		return string(key), nil
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimPrefix(secret, "v1,"), standardPrefixText))
	if err != nil {
		return "", err // key has the bytes before the invalid character
	}
	return string(key), nil
}
