package verify

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a configuration.
const (
	MaxSecrets       = 3               // live at once, so that a rotation never has to hurry
	DefaultTolerance = 5 * time.Minute // what the providers' own libraries use
	MinTolerance     = time.Second
	MaxTolerance     = 24 * time.Hour

	MaxSecret   = 512 // bytes
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
	// SignedContent is the signed text: literal text around one {body}, with {timestamp} from the signature header's own
	// `t=` or {timestamp:Header-Name} from another header. Default {body}.
	SignedContent string
}

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	// Param is the member at fault as the API names it: type, secret, secrets, secrets[1], tolerance_seconds, header,
	// algorithm, encoding, prefix, signed_content.
	Param   string
	Message string
}

func (f *Fault) Error() string { return f.Param + " " + f.Message }

// addFault adds a fault of a configuration.
type addFault = func(param, format string, args ...any)

// Validate returns nil or all faults, joined, each a [*Fault]; errors.As finds the first. No message repeats a secret.
func (c Config) Validate() error {
	var faults []error
	add := func(param, format string, args ...any) {
		faults = append(faults, &Fault{Param: param, Message: fmt.Sprintf(format, args...)})
	}
	scheme := ByName(c.Type)
	if !scheme.Signs() {
		add("type", "must be one of %s", strings.Join(Types(), ", "))
	}
	if len(c.Secrets) == 0 {
		add("secret", "is required")
	}
	if len(c.Secrets) > MaxSecrets {
		add("secrets", "may hold at most %d", MaxSecrets)
	}
	for i, secret := range c.Secrets {
		fault := secretFault(secret)
		if fault == "" && scheme.secretFault != nil {
			fault = scheme.secretFault(secret)
		}
		if fault != "" {
			add(secretParam(i, len(c.Secrets)), "%s", fault)
		}
	}
	if c.Tolerance < MinTolerance || c.Tolerance > MaxTolerance {
		add("tolerance_seconds", "must be from %.0f to %.0f", MinTolerance.Seconds(), MaxTolerance.Seconds())
	}
	if scheme.validate != nil {
		scheme.validate(c, add)
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
func secretFault(secret string) string {
	switch {
	case secret == "":
		return "must not be empty"
	case len(secret) > MaxSecret:
		return fmt.Sprintf("must be at most %d bytes", MaxSecret)
	case !utf8.ValidString(secret) || strings.ContainsFunc(secret, unicode.IsControl):
		return "must be text without control characters"
	case strings.TrimSpace(secret) != secret:
		return "must not begin or end with a space"
	}
	return ""
}
