package sign

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestNewSecret(t *testing.T) {
	a, b := NewSecret(), NewSecret()
	if a.Reveal() == b.Reveal() {
		t.Fatal("two new secrets are equal")
	}
	back := mustParse(t, a.Reveal())
	if back.Reveal() != a.Reveal() || len(back.k.m.raw) != newSecretLen {
		t.Errorf("a new secret of %d bytes reads back with %d", newSecretLen, len(back.k.m.raw))
	}
}

func TestParseSecret(t *testing.T) {
	text := func(n int) string {
		return Prefix + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, n))
	}
	good := func(in string) {
		t.Helper()
		s, err := ParseSecret(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
		} else if s.Reveal() != in {
			t.Errorf("%q is revealed as %q", in, s.Reveal())
		}
	}
	bad := func(in, want string) {
		t.Helper()
		s, err := ParseSecret(in)
		if !errors.Is(err, ErrSecret) || !s.IsZero() {
			t.Errorf("%q: accepted or a wrong error: %v", in, err)
			return
		}
		is.Has(t, err.Error(), want, "%q: %q does not say %q", in, err, want)
		if rest := strings.TrimPrefix(in, Prefix); len(rest) > 8 && strings.Contains(err.Error(), rest[:8]) {
			t.Errorf("%q: the error shows the secret: %q", in, err)
		}
	}
	good(knownSecret)
	for _, n := range []int{24, 25, 26, 32, 63, 64} {
		good(text(n))
	}
	bad("", "begin with")
	bad(strings.TrimPrefix(knownSecret, Prefix), "begin with")
	bad("WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "begin with")
	bad("whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "32 or 64 bytes")
	bad(" "+knownSecret, "begin with")
	bad(Prefix, "24 to 64 bytes, not 0")
	bad(text(23), "24 to 64 bytes, not 23")
	bad(text(65), "24 to 64 bytes, not 65")
	bad(text(67), "at most 64 bytes")
	bad(Prefix+strings.Repeat("A", 1<<20), "at most 64 bytes")
	bad(strings.TrimRight(text(32), "="), "base64 with padding")
	bad(knownSecret+"\n", "base64 with padding")
	bad(knownSecret[:12]+"\r\n"+knownSecret[12:], "base64 with padding")
	bad(strings.ReplaceAll(text(32), "+", "-"), "base64 with padding")
	bad(knownSecret[:len(knownSecret)-1]+"*", "base64 with padding")
	bad(Prefix+"****LaSw", "base64 with padding")
	// The same bytes with other bits after the end: not canonical.
	bad(text(32)[:len(text(32))-2]+"t=", "base64 with padding")
}

func TestSecretIsNeverPrinted(t *testing.T) {
	s := mustParse(t, knownSecret)
	const mask = "whsec_****LaSw"
	const whole = "MfKQ9r8GKYqr"
	type holder struct {
		Public Secret
		hidden Secret
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "s", s, "p", &s, "h", holder{s, s})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s, "p", &s, "h", holder{s, s})
	asJSON := must.Get(json.Marshal(holder{s, s}))(t)
	for _, out := range []string{
		s.String(), fmt.Sprint(s), fmt.Sprintf("%v", s), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s), fmt.Sprintf("%q", s),
		log.String(), string(asJSON), s.LogValue().String(),
	} {
		is.Has(t, out, mask, "does not show the mask")
		is.Lacks(t, out, whole, "shows the secret")
	}
	// fmt cannot call the methods of an unexported field: it prints a pointer.
	raw := []string{whole, fmt.Sprint(s.k.m.raw), fmt.Sprintf("%x", s.k.m.raw), fmt.Sprintf("%X", s.k.m.raw)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%d"} {
		out := fmt.Sprintf(verb, holder{s, s}) + fmt.Sprintf(verb, []Secret{s}) + fmt.Sprintf(verb, &s)
		for _, r := range raw {
			is.Lacks(t, out, strings.Trim(r, "[]"), "%s shows the secret", verb)
		}
	}
}

func TestZeroSecret(t *testing.T) {
	var s Secret
	if !s.IsZero() || s.Reveal() != "" || s.String() != "" || s.Last4() != "" {
		t.Errorf("the zero secret reveals %q, prints %q", s.Reveal(), s.String())
	}
	if NewSecret().IsZero() {
		t.Error("a new secret is zero")
	}
}

func FuzzParseSecret(f *testing.F) {
	f.Add(knownSecret)
	f.Add(Prefix)
	f.Add(knownSecret + "\n")
	f.Add("whsec_****LaSw")
	f.Fuzz(func(t *testing.T, in string) {
		s, err := ParseSecret(in)
		if err != nil {
			if !s.IsZero() {
				t.Fatal("an error and a secret")
			}
			return
		}
		must.Equal(t, s.Reveal(), in, "%q is revealed as", in)
		if n := len(s.k.m.raw); n < minSecretLen || n > maxSecretLen {
			t.Fatalf("accepted %d bytes", n)
		}
	})
}
