package sign

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventrelay/relay/test/is"
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
		if got := Sign([]Secret{s}, id, time.Unix(unix, 0), []byte(knownBody)); got != want {
			t.Errorf("id of %d bytes, time %d: got %q, want %q", len(id), unix, got, want)
		}
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
