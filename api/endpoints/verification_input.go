package endpoints

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/verify"
)

// verification reads how the provider signs its requests. Members that are left out keep their current value.
func (in *endpointInput) verification(o *frame.Object, e *config.Endpoint) {
	const name = "verification"
	if o.IsNull(name) {
		e.Verification = nil
	}
	v := o.Object(name)
	if v == nil {
		if e.Verification != nil && e.Verification.Type != e.Provider {
			o.Fail("provider", "is %s, but verification is of type %s; change both", e.Provider, e.Verification.Type)
		}
		return
	}
	next := config.Verification{Type: e.Provider, Mode: "enforce", ToleranceSeconds: 300}
	v.Enum("type", &next.Type, verify.Types()...)
	if _, given := o.Raw("provider"); !given && in.creating {
		e.Provider = next.Type
	}
	if next.Type != e.Provider || next.Type == verify.Generic {
		v.Fail("type", "must be the same as the provider, which is %s", e.Provider)
		return
	}
	if old := e.Verification; old != nil && old.Type == next.Type {
		next = *old
	}
	x := wire.Verification{Mode: next.Mode, ToleranceSeconds: next.ToleranceSeconds}
	v.Decode(&x)
	next.Mode, next.ToleranceSeconds = x.Mode, x.ToleranceSeconds
	if verify.ByName(next.Type).Configurable() { // other types would ignore them, so there they are unknown members
		v.Text("header", 1, maxSignatureText, &next.Header)
		v.Enum("algorithm", &next.Algorithm, verify.Algorithms()...)
		v.Enum("encoding", &next.Encoding, verify.Encodings()...)
		v.Text("prefix", 0, maxSignatureText, &next.Prefix)
		v.Text("signed_content", 1, maxSignatureText, &next.SignedContent)
	}
	secrets := in.verificationSecrets(v, e, &next)
	v.WarnUnknown()
	if len(secrets) == 0 {
		v.Fail("secret", "is required")
	}
	if in.Err != nil {
		return
	}
	if param, message := in.endpoints.validateVerification(next, secrets); message != "" {
		v.Fail(param, "%s", message)
		return
	}
	e.Verification = &next
}

// Limits of a verification: characters of a text, and number of secrets. Deps.ValidateVerification checks the meaning
// of the texts.
const (
	maxSignatureText = 256
	maxSecrets       = verify.MaxSecrets
)

// verificationSecrets reads secret or secrets into next and returns all resulting secrets in clear. In secrets, a
// mask stands for the current secret with that mask; in secret, the mask that responses show leaves all secrets
// unchanged.
func (in *endpointInput) verificationSecrets(v *frame.Object, e *config.Endpoint, next *config.Verification) []string {
	var old []string
	for _, sealed := range next.Secrets {
		text, err := in.endpoints.keyring.OpenString(e.ID, seal.FieldVerification, sealed)
		if err != nil {
			in.Err = err
			return nil
		}
		old = append(old, text)
	}
	secrets := in.givenSecrets(v)
	if _, one := v.Raw("secret"); one && len(old) > 0 && len(secrets) > 0 && secrets[0] == frame.MaskText(old[0]) {
		return old
	}
	for i, s := range secrets {
		if !isMask(s) { // whether it is a current one or not: otherwise a guess could be tried
			in.warnWeak(v, i, s)
		}
	}
	secrets = resolveMasks(v, secrets, old)
	if in.Err != nil || secrets == nil || slices.Equal(secrets, old) {
		return old
	}
	next.Secrets = nil
	for _, s := range secrets {
		next.Secrets = append(next.Secrets, in.endpoints.keyring.SealString(e.ID, seal.FieldVerification, s))
	}
	next.SecretLast4 = strings.TrimPrefix(frame.MaskText(secrets[0]), frame.Mask)
	return secrets
}

// minSecretLength is how many characters a provider's secret should have; a shorter one can be guessed from a signed
// request.
const minSecretLength = 16

func (in *endpointInput) warnWeak(v *frame.Object, i int, secret string) {
	if utf8.RuneCountInString(secret) >= minSecretLength {
		return
	}
	name := "secret"
	if _, many := v.Raw("secrets"); many {
		name = frame.Indexed("secrets", i)
	}
	in.Warn(v.Param(name), "has fewer than "+strconv.Itoa(minSecretLength)+
		" characters: anyone who sees one signed request can guess it; "+
		"create a longer one at the provider")
}

func isMask(secret string) bool {
	return strings.HasPrefix(secret, frame.Mask) && len(secret) <= len(frame.Mask)+frame.VisibleTail
}

// resolveMasks replaces masks with the current secrets, in order, so that a client can add a secret next to one that
// it does not know: ["****abcd", "new"].
func resolveMasks(v *frame.Object, given, old []string) []string {
	rest := slices.Clone(old)
	for i, s := range given {
		if !isMask(s) {
			continue
		}
		j := slices.IndexFunc(rest, func(secret string) bool { return frame.MaskText(secret) == s })
		if j < 0 {
			name := "secret"
			if _, many := v.Raw("secrets"); many {
				name = frame.Indexed("secrets", i)
			}
			v.Fail(name, "is masked and matches no existing secret; send the secret itself")
			return nil
		}
		given[i] = rest[j]
		rest = slices.Delete(rest, j, j+1)
	}
	return given
}

// givenSecrets returns the secrets in the request, nil if it has none.
func (in *endpointInput) givenSecrets(v *frame.Object) []string {
	_, one := v.Raw("secret")
	_, many := v.Raw("secrets")
	switch {
	case one && many:
		v.Fail("secrets", "cannot be sent together with secret; send one of them")
	case one:
		var s string
		v.Text("secret", 1, verify.MaxSecret, &s)
		return []string{s}
	case many:
		elements := v.Array("secrets", maxSecrets)
		if len(elements) == 0 {
			v.Fail("secrets", "must be an array of 1 to %d strings", maxSecrets)
			return nil
		}
		var secrets []string
		for i, raw := range elements {
			if frame.KindOf(raw) != frame.KindString {
				v.Fail(frame.Indexed("secrets", i), "must be a string")
				return nil
			}
			s, problem := frame.TextOf(raw, 1, verify.MaxSecret)
			if problem != "" {
				v.Fail(frame.Indexed("secrets", i), "%s", problem)
			}
			secrets = append(secrets, s)
		}
		return secrets
	}
	return nil
}
