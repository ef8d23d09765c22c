package verify

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

// StandardWebhooks is the verification type of providers that follow the Standard Webhooks specification.
const StandardWebhooks = "standard_webhooks"

var standardWebhooks = Scheme{
	Name: StandardWebhooks, Title: "Standard Webhooks", TypeSource: "body:$.type", IDHeader: "Webhook-Id",
	check: checkStandard, sign: signStandard, layout: standardLayout, secretFault: standardSecretFault,
	Sample: Sample{
		Type: "invoice.paid", UserAgent: "standard-webhooks-sample/1", ContentType: jsonType,
		Body: func(x SampleValues) string {
			return fmt.Sprintf(`{"type":%q,"timestamp":%q,"data":{"id":"inv_%s","amount":4200,"currency":"eur","sample":true}}`,
				x.Type, x.iso(), x.ID)
		},
	},
}

// checkStandard reads `webhook-id`, `webhook-timestamp` and `webhook-signature: v1,<base64> [v1,<base64>…]`,
// HMAC-SHA256 of `id.timestamp.body`, keyed with the decoded secret (Standard Webhooks 1.0.0). Other versions in the
// list, such as the asymmetric v1a, are ignored.
//
// Svix sends the same headers as `svix-…`. They are read only if the request has no `webhook-…` header. Otherwise an
// attacker could add a new webhook-id, by which destinations deduplicate, to a captured request whose svix signature
// does not cover it.
func checkStandard(c Config, r Request) (time.Time, Reason) {
	prefix := standardPrefix(r)
	list, reason := singleValue(r.Header, prefix+"Signature")
	if reason != "" {
		return time.Time{}, reason
	}
	id, reason := singleValue(r.Header, prefix+"Id")
	if reason != "" {
		return time.Time{}, reason
	}
	stamp, reason := singleValue(r.Header, prefix+"Timestamp")
	if reason != "" {
		return time.Time{}, reason
	}
	signedAt, parsed := parseUnixSeconds(stamp)
	signatures := v1Signatures(list)
	if !parsed || len(signatures) == 0 || hidesTimestamp(id) {
		return time.Time{}, SignatureMalformed
	}
	keys := make([]string, 0, MaxSecrets)
	for _, secret := range c.Secrets {
		if key, err := decodeStandardSecret(secret); err == nil {
			keys = append(keys, key)
		}
	}
	m := message{head: id + "." + stamp + ".", body: r.Body}
	return signedAt, base64SHA256().verify(keys, m, signatures...)
}

// standardPrefix returns how the names of the request's headers begin.
func standardPrefix(r Request) string {
	if len(r.Header["Webhook-Id"])+len(r.Header["Webhook-Timestamp"])+len(r.Header["Webhook-Signature"]) == 0 {
		return "Svix-"
	}
	return "Webhook-"
}

func standardLayout(_ Config, r Request) layout {
	prefix := standardPrefix(r)
	if len(r.Header["Svix-Id"])+len(r.Header["Svix-Timestamp"])+len(r.Header["Svix-Signature"]) == 0 {
		prefix = "Webhook-" // the request has neither; these are the names of the specification
	}
	return layout{
		header: prefix + "Signature", idHeader: prefix + "Id", separators: " ", prefix: "v1,", form: base64SHA256(),
		content: template{head: "{timestamp}.", placeholder: "{timestamp}", header: prefix + "Timestamp"},
		decode:  decodeStandardSecret,
	}
}

// v1Signatures returns the well-formed v1 signatures of a space-separated list.
func v1Signatures(list string) []string {
	signatures := make([]string, 0, 4)
	for item := range strings.SplitSeq(list, " ") {
		if s, found := strings.CutPrefix(item, "v1,"); found && base64SHA256().wellFormed(s) {
			signatures = append(signatures, s)
		}
	}
	return signatures
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
// both.
func decodeStandardSecret(secret string) (string, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	return string(key), err
}

func standardSecretFault(secret string) string {
	if key, err := decodeStandardSecret(secret); err != nil || key == "" {
		return "must be whsec_ followed by base64"
	}
	return ""
}

func signStandard(c Config, r Request, stamp string) error {
	key, err := decodeStandardSecret(c.Secrets[0])
	if err != nil {
		return err
	}
	c.Secrets = []string{key}
	m := message{head: r.Header.Get("Webhook-Id") + "." + stamp + ".", body: r.Body}
	setHeader(r, "Webhook-Timestamp", stamp)
	setHeader(r, "Webhook-Signature", "v1,"+base64SHA256().sign(c, m))
	return nil
}
