package verify

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The verification types.
const (
	Stripe           = "stripe"
	GitHub           = "github"
	Shopify          = "shopify"
	Slack            = "slack"
	Twilio           = "twilio"
	StandardWebhooks = "standard_webhooks"
	HMAC             = "hmac"
)

// Bounds of a configuration.
const (
	MaxSecrets       = 3               // live at once, so that a rotation never has to hurry
	DefaultTolerance = 5 * time.Minute // what the providers' own libraries use
	MinTolerance     = time.Second
	MaxTolerance     = 24 * time.Hour

	maxSecret   = 512 // bytes
	maxName     = 128 // bytes of a header name
	maxPrefix   = 64  // bytes
	maxTemplate = 256 // bytes
)

// Config is what an endpoint's verification says.
type Config struct {
	Type string
	// Secrets in clear, opened by the caller: one to MaxSecrets, any of which may match.
	Secrets []string
	// Tolerance is how far a signed time may be from now, in either direction; used where the scheme signs a time.
	Tolerance time.Duration

	// The rest is for HMAC alone and ignored elsewhere.

	Header    string // of the signature; default X-Signature
	Algorithm string // sha256 (default), sha1, sha512
	Encoding  string // hex (default, lower-case) or base64 (padded)
	Prefix    string // before the MAC in the header, such as "sha256="
	// SignedContent is the signed text: literal text around one {body}, with {timestamp} from the signature header's own `t=`
	// or {timestamp:Header-Name} from another header. Default {body}.
	SignedContent string
}

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	// Param is the member at fault as the API names it: type, secret, secrets, secrets[1], tolerance_seconds, header, algorithm,
	// encoding, prefix, signed_content.
	Param   string
	Message string
}

func (f *Fault) Error() string { return f.Param + " " + f.Message }

// Validate returns nil or all faults, joined, each a [*Fault]; errors.As finds the first. No message repeats a secret.
func (c Config) Validate() error {
	var faults []error
	add := func(param, format string, args ...any) {
		faults = append(faults, &Fault{Param: param, Message: fmt.Sprintf(format, args...)})
	}
	switch c.Type {
	case Stripe, GitHub, Shopify, Slack, Twilio, StandardWebhooks, HMAC:
	default:
		add("type", "must be one of stripe, github, shopify, slack, twilio, standard_webhooks, hmac")
	}
	if len(c.Secrets) == 0 {
		add("secret", "is required")
	}
	if len(c.Secrets) > MaxSecrets {
		add("secrets", "may hold at most %d", MaxSecrets)
	}
	for i, secret := range c.Secrets {
		if fault := c.secretFault(secret); fault != "" {
			add(secretParam(i, len(c.Secrets)), "%s", fault)
		}
	}
	if c.Tolerance < MinTolerance || c.Tolerance > MaxTolerance {
		add("tolerance_seconds", "must be from %.0f to %.0f", MinTolerance.Seconds(), MaxTolerance.Seconds())
	}
	if c.Type == HMAC {
		c.validateCustom(add)
	}
	return errors.Join(faults...)
}

func secretParam(i, n int) string {
	if n == 1 {
		return "secret"
	}
	return fmt.Sprintf("secrets[%d]", i)
}

// secretFault says what is wrong with one secret, "" if nothing. The rules are those that catch a bad paste: apart from
// Standard Webhooks the vendors promise no form.
func (c Config) secretFault(secret string) string {
	switch {
	case secret == "":
		return "must not be empty"
	case len(secret) > maxSecret:
		return fmt.Sprintf("must be at most %d bytes", maxSecret)
	case !utf8.ValidString(secret) || strings.ContainsFunc(secret, unicode.IsControl):
		return "must be text without control characters"
	case strings.TrimSpace(secret) != secret:
		return "must not begin or end with a space"
	}
	if c.Type == StandardWebhooks {
		if key, err := standardKey(secret); err != nil || key == "" {
			return "must be whsec_ followed by base64"
		}
	}
	return ""
}

func (c Config) validateCustom(add func(param, format string, args ...any)) {
	if c.Header != "" && (!isToken(c.Header) || len(c.Header) > maxName) {
		add("header", "must be a header name of at most %d characters", maxName)
	}
	if _, known := newMACForm(c.algorithm(), hexText); !known {
		add("algorithm", "must be sha256, sha1 or sha512")
	}
	if _, known := newMACForm(defaultAlgorithm, c.encoding()); !known {
		add("encoding", "must be hex or base64")
	}
	if len(c.Prefix) > maxPrefix || !isPrintable(c.Prefix) || strings.HasPrefix(c.Prefix, " ") {
		add("prefix", "must be at most %d printable ASCII characters, the first not a space", maxPrefix)
	}
	t, err := parseTemplate(c.template())
	switch {
	case len(c.SignedContent) > maxTemplate:
		add("signed_content", "must be at most %d bytes", maxTemplate)
	case err != nil:
		add("signed_content", "%s", err.Error())
	case t.inList() && !isListPrefix(c.Prefix):
		add("prefix", "must hold no comma, semicolon or space and not begin with t= or ts=: {timestamp} makes the header a list")
	}
}

// isPrintable reports printable ASCII (RFC 9110 §5.5 allows more in a header value, but no provider uses it).
func isPrintable(s string) bool {
	return all(s, func(c byte) bool { return c >= ' ' && c <= '~' })
}

func isListPrefix(s string) bool {
	_, stamp := cutStamp(s)
	return !stamp && !strings.ContainsAny(s, listSeparators)
}
