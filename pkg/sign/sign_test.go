package sign

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// The known answer is that of the standard's own libraries (TestWebhookSign in Go; the JavaScript and Python ones use
// the same values): the standard's text shows a signature without the secret.
const (
	knownSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	knownID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	knownBody      = `{"test": 2432232314}`
	knownUnix      = 1614265330
	knownSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func mustParse(tb testing.TB, text string) Secret {
	tb.Helper()
	s := must.Get(ParseSecret(text))(tb)
	return s
}

func TestSignKnownAnswer(t *testing.T) {
	s := mustParse(t, knownSecret)
	for range 3 { // the second and third use the pooled state
		if got := Sign([]Secret{s}, knownID, time.Unix(knownUnix, 999_999_999), []byte(knownBody)); got != knownSignature {
			t.Fatalf("Sign = %q, want %q", got, knownSignature)
		}
	}
}

// verifyGo verifies with the official Go library, which also refuses timestamps that are too far from now.
func verifyGo(t *testing.T, secret Secret, id string, ts time.Time, signature string, body []byte) error {
	t.Helper()
	wh := must.Get(standardwebhooks.NewWebhook(secret.Reveal()))(t)
	h := http.Header{}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", strconv.FormatInt(ts.Unix(), 10))
	h.Set("webhook-signature", signature)
	return wh.Verify(body, h)
}

func TestSignVerifiesWithOfficialGoLibrary(t *testing.T) {
	now := time.Now()
	random := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random) // never fails
	bodies := map[string][]byte{
		"empty":        nil,
		"json":         []byte(`{"type":"a.b","data":{}}`),
		"crlf":         []byte("{\r\n}\r\n"),
		"invalid utf8": {0xff, 0xfe, 0x00, 0x80},
		"full stops":   []byte("1.2.3."),
		"percent":      []byte("%s%d%%"),
		"1 MiB random": random,
	}
	shortest := mustParse(t, knownSecret)
	longest := newSecret(bytes.Repeat([]byte{0xfe}, maxSecretLen))
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			secrets := []Secret{NewSecret(), shortest, longest}
			signature := Sign(secrets, "evt_01J", now, body)
			for i, s := range secrets {
				is.OK(t, verifyGo(t, s, "evt_01J", now, signature, body), "secret %d", i)
			}
			if err := verifyGo(t, NewSecret(), "evt_01J", now, signature, body); err == nil {
				t.Error("another secret verifies")
			}
			if err := verifyGo(t, shortest, "evt_01K", now, signature, body); err == nil {
				t.Error("another id verifies")
			}
			if err := verifyGo(t, shortest, "evt_01J", now.Add(time.Second), signature, body); err == nil {
				t.Error("another timestamp verifies")
			}
			if err := verifyGo(t, shortest, "evt_01J", now, signature, append([]byte{' '}, body...)); err == nil {
				t.Error("another body verifies")
			}
		})
	}
}

// With two secrets the header has one signature for each, in their order, each the same as with that secret alone.
func TestSignTwoSecrets(t *testing.T) {
	now := time.Unix(knownUnix, 0)
	a, b := NewSecret(), mustParse(t, knownSecret)
	onlyA := Sign([]Secret{a}, knownID, now, []byte(knownBody))
	onlyB := Sign([]Secret{b}, knownID, now, []byte(knownBody))
	f := func(secrets []Secret, want string) {
		t.Helper()
		if got := Sign(secrets, knownID, now, []byte(knownBody)); got != want {
			t.Errorf("Sign(%d secrets) = %q, want %q", len(secrets), got, want)
		}
	}
	f([]Secret{a, b}, onlyA+" "+onlyB)
	f([]Secret{b, a}, onlyB+" "+onlyA)
	f([]Secret{{}, a, {}, b}, onlyA+" "+onlyB)
	f([]Secret{{}}, "")
	f(nil, "")
	is.Equal(t, len(onlyA), signatureLen, "a signature has … bytes")
}

func TestAppendSignatureKeepsDst(t *testing.T) {
	got := appendSignatures([]byte("webhook-signature: "), []Secret{mustParse(t, knownSecret)}, knownID,
		time.Unix(knownUnix, 0), []byte(knownBody))
	is.Equal(t, string(got), "webhook-signature: "+knownSignature, "got %q", got)
}

func TestSignOddIDsAndTimes(t *testing.T) {
	s := mustParse(t, knownSecret)
	f := func(id string, unix int64) {
		t.Helper()
		wh := must.Get(standardwebhooks.NewWebhook(knownSecret))(t)
		want := must.Get(wh.Sign(id, time.Unix(unix, 0), []byte(knownBody)))(t)
		is.Equal(t, Sign([]Secret{s}, id, time.Unix(unix, 0), []byte(knownBody)), want,
			"id of %d bytes, time %d: got", len(id), unix)
	}
	f("", 0)
	f("x", -1)
	f(strings.Repeat("i", 10_000), 1<<40)
	f(strings.Repeat("i", 64), knownUnix)
	f("after a long one", knownUnix)
}

// Goroutines can sign with one secret at once, as concurrent deliveries to one destination do.
func TestSignConcurrently(t *testing.T) {
	s := NewSecret()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			body := bytes.Repeat([]byte{byte(g)}, 100*g)
			want := Sign([]Secret{newSecret(s.k.m.raw)}, fmt.Sprint(g), time.Unix(int64(g), 0), body)
			for range 200 {
				if got := Sign([]Secret{s}, fmt.Sprint(g), time.Unix(int64(g), 0), body); got != want {
					t.Errorf("goroutine %d: got %q, want %q", g, got, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestAppendSignatureAllocatesNothing(t *testing.T) {
	secrets := []Secret{NewSecret(), NewSecret()}
	dst := make([]byte, 0, 2*(signatureLen+1))
	body := make([]byte, 1024)
	now := time.Now()
	// The garbage collector may empty a pool during the run; an average below one is what matters.
	if n := testing.AllocsPerRun(1000, func() { appendSignatures(dst, secrets, knownID, now, body) }); n >= 1 &&
		!raceEnabled {
		t.Errorf("%v allocations a call, want none", n)
	}
}

func BenchmarkAppendSignature(b *testing.B) {
	for _, a := range Algorithms() {
		for _, size := range []int{0, 1 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("%s/%dB", a, size), func(b *testing.B) {
				secrets := []Secret{New(Algorithm(a))}
				dst := make([]byte, 0, 2*signatureLen)
				body := make([]byte, size)
				now := time.Now()
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					appendSignatures(dst, secrets, knownID, now, body)
				}
			})
		}
	}
}

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

// The key of the second test of RFC 8032, 7.1.
const (
	rfcSeed   = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"
	rfcPublic = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
)

func bytesOf(t *testing.T, text string) []byte { return must.Get(hex.DecodeString(text))(t) }

func TestParsePrivateKey(t *testing.T) {
	seed, public := bytesOf(t, rfcSeed), bytesOf(t, rfcPublic)
	text := func(raw ...byte) string { return PrivatePrefix + base64.StdEncoding.EncodeToString(raw) }
	whole := text(append(append([]byte(nil), seed...), public...)...)
	for _, in := range []string{text(seed...), whole} {
		s, err := ParseSecret(in)
		if err != nil || s.Algorithm() != Ed25519 || s.Reveal() != whole {
			t.Fatalf("%q: %s, %v", in, s.Reveal(), err)
		}
		is.Equal(t, *s.PublicText(), "whpk_"+base64.StdEncoding.EncodeToString(public), "the public key")
		if got := fmt.Sprintf("%v %+v %#v", s, s, s); strings.Contains(got, whole[5:20]) ||
			!strings.HasPrefix(got, "whsk_****") {
			t.Errorf("printed as %s", got)
		}
	}
	for in, want := range map[string]string{
		text(append(append([]byte(nil), seed...), seed...)...): "not the public key",
		text(seed[:31]...):                       "32 or 64 bytes",
		PrivatePrefix:                            "32 or 64 bytes",
		PrivatePrefix + strings.Repeat("A", 1e6): "32 or 64 bytes",
		whole + "\n":                             "standard base64",
	} {
		if s, err := ParseSecret(in); err == nil || !s.IsZero() || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %q", in, err, want)
		}
	}
	if s := NewSecret(); s.Algorithm() != HMAC || s.PublicText() != nil || s.PublicKey() != nil {
		t.Error("an HMAC secret has a public key")
	}
}

// Receivers that read one signature only keep working while the algorithm changes, in both directions.
func TestSignaturesOfBothAlgorithms(t *testing.T) {
	symmetric, private := New(HMAC), New(Ed25519)
	for _, secrets := range [][]Secret{{symmetric, private}, {private, symmetric}} {
		got := strings.Fields(Sign(secrets, "evt_1", time.Unix(1700000000, 0), []byte("body")))
		if len(got) != 2 || !strings.HasPrefix(got[0], "v1,") || !strings.HasPrefix(got[1], "v1a,") {
			t.Errorf("signed %q", got)
		}
	}
}

// Two other implementations of Ed25519, OpenSSL in Node and libsodium in PHP, verify what the header says with the
// public key that the API shows. That in Node is the receiver of docs/start/clients.md.
func TestEd25519VerifiesInOtherLanguages(t *testing.T) {
	private, dir := New(Ed25519), t.TempDir()
	text := string(must.Get(os.ReadFile("../../docs/start/clients.md"))(t))
	_, text, _ = strings.Cut(text, "### With a public key")
	_, text, _ = strings.Cut(text, "```js\n")
	receiver, _, ok := strings.Cut(text, "```\n")
	if !ok {
		t.Fatal("docs/start/clients.md has no receiver with a public key")
	}
	scripts := map[string]string{
		"node": receiver + `
const [, , key, id, time, signature, body] = process.argv
const headers = {'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signature}
process.exit(isFromRelay(key, headers, Buffer.from(body)) ? 0 : 3)`,
		"php": `<?php [, $key, $id, $time, $signature, $body] = $argv;
exit(sodium_crypto_sign_verify_detached(base64_decode(str_replace('v1a,', '', $signature)), "$id.$time.$body",
  base64_decode(str_replace('whpk_', '', $key))) ? 0 : 3);`,
	}
	for name, script := range scripts {
		program, err := exec.LookPath(name)
		if err != nil {
			kit.SkipMissing(t, "verifying with %s: it is not installed", name)
		}
		file := filepath.Join(dir, name+".mjs")
		must.Do(t, os.WriteFile(file, []byte(script), 0o600))
		now := time.Now()
		for _, x := range []struct {
			signed, sent string
			by           Secret
			valid        bool
		}{{`{"a":"é ✓"}`, `{"a":"é ✓"}`, private, true}, {"", "", private, true}, {"x", "y", private, false},
			{"x", "x", New(Ed25519), false}} {
			unix := strconv.FormatInt(now.Unix(), 10)
			cmd := exec.CommandContext(t.Context(), program, file, *private.PublicText(), "evt_1", unix,
				Sign([]Secret{x.by}, "evt_1", now, []byte(x.signed)), x.sent)
			if out, err := cmd.CombinedOutput(); (err == nil) != x.valid || cmd.ProcessState.ExitCode() > 3 {
				t.Errorf("%s, signed %q, sent %q: %v %s", name, x.signed, x.sent, err, out)
			}
		}
	}
}
