package verify

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits and defaults of a configuration.
const (
	MaxSecrets       = 3               // valid at the same time, for rotation
	DefaultTolerance = 5 * time.Minute // the default of the providers' own libraries
	MinTolerance     = time.Second
	MaxTolerance     = 24 * time.Hour

	MaxSecret   = 512 // bytes
	maxName     = 128 // bytes of a header name
	maxPrefix   = 64  // bytes
	maxTemplate = 256 // bytes
)

// Config is the configuration of an endpoint's verification.
type Config struct {
	Type string
	// Secrets are one to MaxSecrets secrets in clear text. A signature by any of them is accepted; Sign uses the first.
	Secrets []string
	// Tolerance is how far the signed time may be in the past or in the future. Schemes that sign no time ignore it.
	Tolerance time.Duration

	// Only HMAC uses the fields below.

	Header    string // name of the signature header; default X-Signature
	Algorithm string // sha256 (default), sha1, sha512
	Encoding  string // hex (default, lower-case) or base64 (padded)
	Prefix    string // before the MAC in the header, such as "sha256="
	// SignedContent is a template of the signed text: literal text with one {body}, and optionally {timestamp}, the `t=`
	// or `ts=` of the signature header, or {timestamp:Header-Name}, the value of another header. Default {body}.
	SignedContent string
}

// Fault is one invalid member of a configuration.
type Fault struct {
	// Param is the name of the invalid member in the API: type, secret, secrets, secrets[1], tolerance_seconds, header,
	// algorithm, encoding, prefix, signed_content.
	Param   string
	Message string
}

func (f *Fault) Error() string { return f.Param + " " + f.Message }

// addFault adds a Fault of the parameter; format and args make its message.
type addFault = func(param, format string, args ...any)

// Validate returns nil, or all faults joined, each a [*Fault]; errors.As finds the first. No message contains a secret.
func (c Config) Validate() error { return c.validate(true) }

// ValidateSettings is Validate without the secrets.
func (c Config) ValidateSettings() error { return c.validate(false) }

func (c Config) validate(secrets bool) error {
	var faults []error
	add := func(param, format string, args ...any) {
		faults = append(faults, &Fault{Param: param, Message: fmt.Sprintf(format, args...)})
	}
	scheme := ByName(c.Type)
	if !scheme.Signs() {
		add("type", "must be one of %s", strings.Join(Types(), ", "))
	}
	if secrets {
		c.validateSecrets(scheme, add)
	}
	if c.Tolerance < MinTolerance || c.Tolerance > MaxTolerance {
		add("tolerance_seconds", "must be from %.0f to %.0f", MinTolerance.Seconds(), MaxTolerance.Seconds())
	}
	if scheme.Configurable() {
		validateCustom(c, add)
	}
	return errors.Join(faults...)
}

func (c Config) validateSecrets(scheme *Scheme, add addFault) {
	if len(c.Secrets) == 0 {
		add("secret", "is required")
	}
	if len(c.Secrets) > MaxSecrets {
		add("secrets", "may hold at most %d", MaxSecrets)
	}
	for i, secret := range c.Secrets {
		if fault := cmp.Or(secretFault(secret), scheme.formFault(secret)); fault != "" {
			add(secretParam(i, len(c.Secrets)), "%s", fault)
		}
	}
}

// formFault returns what is wrong with the form of a secret, or "".
func (s *Scheme) formFault(secret string) string {
	key, err := s.layout.key(secret)
	switch wellFormed := s.secretPattern == nil || s.secretPattern.MatchString(secret); {
	case err == nil && key != "" && wellFormed:
		return ""
	case s.layout.keyForm == "whsec":
		return "must be whsec_ followed by base64, or whpk_ followed by the base64 of an Ed25519 key"
	}
	return "is not the secret of " + s.Title + ", which looks like this: " + s.SecretForm
}

func secretParam(i, n int) string {
	if n == 1 {
		return "secret"
	}
	return fmt.Sprintf("secrets[%d]", i)
}

// secretFault returns what is wrong with a secret, or "". Its rules catch mistakes of copying: except for Standard
// Webhooks, the providers specify no format.
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
