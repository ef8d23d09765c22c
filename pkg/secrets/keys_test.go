package secrets

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// checkPrivateKey checks that a text has the private key, with the canonical text of the key alone, and nothing else.
func checkPrivateKey(t *testing.T, s *Scanner, what, text, secret string) {
	t.Helper()
	var all []Match
	s.Scan([]byte(text), func(m Match) bool {
		all = append(all, m)
		return true
	})
	if len(all) != 1 || all[0].Rule.ID != "private-key-block" {
		t.Fatalf("%s: found %v in %s", what, all, text)
	}
	r, m := all[0].Rule, all[0]
	got, want := r.Canonical([]byte(text)[m.Start:m.End]), r.Canonical([]byte(secret))
	is.Equal(t, string(got), string(want), "%s: canonical text", what)
}

// A private key in DER is found in base64 without its label too, in one line or in several, with the fingerprint of its
// PEM; so is a private JSON Web Key, whatever the order of its members. Public keys and certificates are not.
func TestPrivateKeysWithoutLabel(t *testing.T) {
	s := newLeaks(t)
	for name, key := range privateKeys(t) {
		var ders [][]byte
		ders = append(ders, must.Get(x509.MarshalPKCS8PrivateKey(key))(t))
		public := any(nil)
		switch key := key.(type) {
		case *rsa.PrivateKey:
			ders, public = append(ders, x509.MarshalPKCS1PrivateKey(key)), &key.PublicKey
		case *ecdsa.PrivateKey:
			ders, public = append(ders, must.Get(x509.MarshalECPrivateKey(key))(t)), &key.PublicKey
		case ed25519.PrivateKey:
			public = key.Public()
		}
		for _, der := range ders {
			text := base64.StdEncoding.EncodeToString(der)
			block := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
			_, lines, _ := strings.Cut(block, "\n")
			lines, _, _ = strings.Cut(lines, "\n-----END")
			checkPrivateKey(t, s, name, "key="+text+" took 3 ms", block)
			checkPrivateKey(t, s, name+" in lines", lines+"\n-----END PRIVATE KEY-----\nand words", block)
			for form, text := range joined(lines) {
				checkPrivateKey(t, s, name+" in "+form, text, block)
			}
			is.Equal(t, found(s, text[:30]), "", "a part of %s: found", name)
		}
		spki := must.Get(x509.MarshalPKIXPublicKey(public))(t)
		is.Equal(t, found(s, base64.StdEncoding.EncodeToString(spki)), "", "the public key of %s: found", name)
	}
}

func privateKeys(t *testing.T) map[string]any {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(nil)
	must.Do(t, err)
	keys := map[string]any{"Ed25519": ed}
	for _, bits := range []int{2048, 3072} {
		keys[fmt.Sprint("RSA ", bits)] = must.Get(rsa.GenerateKey(rand.Reader, bits))(t)
	}
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		keys[curve.Params().Name] = must.Get(ecdsa.GenerateKey(curve, rand.Reader))(t)
	}
	return keys
}

// All private members of a JSON Web Key are one secret, in each order in which libraries write them.
func TestPrivateJSONWebKeys(t *testing.T) {
	s, g := newLeaks(t), newGenerator(23)
	value := map[string]string{"e": "AQAB", "use": "sig", "crv": "P-256"}
	for _, name := range []string{"n", "d", "p", "q", "dp", "dq", "qi", "x", "y", "k"} {
		value[name] = g.run(charsets["urlsafe"], 43)
	}
	text := func(kind, names, form string) string {
		var out []string
		for _, name := range strings.Fields(names) {
			v := value[name]
			if name == "kty" {
				v = kind
			}
			out = append(out, fmt.Sprintf(form, name, v))
		}
		return "{" + strings.Join(out, ",") + "}"
	}
	for _, key := range []struct{ kind, secret, names string }{
		{"RSA", "d", "kty n e d p q dp dq qi"}, {"RSA", "d", "d dp dq e kty n p q qi"},
		{"RSA", "d", "p kty q d e use qi dp dq n"}, {"EC", "d", "kty x y crv d"}, {"EC", "d", "crv d kty x y"},
		{"EC", "d", "kty d use crv x y"}, {"OKP", "d", "crv d x kty"}, {"oct", "k", "kty k"}, {"oct", "k", "k kty"},
	} {
		for _, form := range []string{`"%s":"%s"`, `"%s": "%s"`, `'%s': '%s'`, `\"%s\":\"%s\"`,
			"\n  \"%s\": \x1b[32m\"%s\"\x1b[39m"} {
			text := text(key.kind, key.names, form)
			var all []Match
			s.Scan([]byte(text), func(m Match) bool { all = append(all, m); return true })
			if len(all) != 1 || all[0].Rule.ID != "private-jwk" {
				t.Errorf("found %v in %s", all, text)
				continue
			}
			m := all[0]
			is.Equal(t, string(m.Rule.Canonical([]byte(text[m.Start:m.End]))), value[key.secret], "canonical text in %s", text)
			masked, _ := s.MaskAll(nil, []byte(text))
			for _, name := range []string{"d", "p", "q", "dp", "dq", "qi", "k"} {
				is.Lacks(t, string(masked), value[name], "%s of %s", name, text)
			}
			if form == `"%s":"%s"` && !json.Valid(masked) {
				t.Errorf("masked is no JSON: %s", masked)
			}
		}
	}
	for _, text := range []string{
		text("RSA", "kty n e", `"%s":"%s"`), text("EC", "kty crv x y", `"%s":"%s"`), text("a", "d", `"%s":"%s"`),
		text("oct", "kty d", `"%s":"%s"`), `{"kty":"RSA","e":"AQAB"},{"d":"` + value["d"] + `"}`,
	} {
		is.Equal(t, found(s, text), "", "found in %s:", text)
	}
}
