package secrets_test

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func scanner(t testing.TB) *secrets.Scanner {
	t.Helper()
	s := must.Get(secrets.New(secrets.ForReceipts))(t)
	return s
}

// The stages of a node and the tests of a package make scanners without compiling the rules again.
func TestScannersOfAllRulesAreShared(t *testing.T) {
	leaks, err := secrets.New(secrets.ForLeaks)
	if again, _ := secrets.New(secrets.ForLeaks); err != nil || again != leaks || leaks == scanner(t) {
		t.Errorf("%p, then %p, %v", leaks, again, err)
	}
}

// fill returns n characters with letters and digits. Tests add the prefix at run time, so that no file of the project
// contains what scanners call a leak.
func fill(n int) string { return strings.Repeat("a1B2c3D4", n/8+1)[:n] }

func TestScanFindsKnownShapes(t *testing.T) {
	s := scanner(t)
	jwt := "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0."
	key := apikey.New()
	broken := key[:len(key)-1] + "~"
	f := func(text, want string) {
		t.Helper()
		got := ""
		s.Scan([]byte(text), func(m secrets.Match) bool {
			got += text[m.Start:m.End] + " " + m.Rule.ID + ";"
			return true
		})
		is.Equal(t, got, want, "%q: found", text)
	}
	one := func(secret, rule string) {
		t.Helper()
		f(secret, secret+" "+rule+";")
		f("see ("+secret+"), it", secret+" "+rule+";")
	}
	one(key, "relay-api-key")
	f(broken, "")
	f(key+"x", "") // longer than any of our keys
	one("sk_live_"+fill(16), "stripe-secret-live")
	f("sk_live_"+fill(15), "")
	f("sk_test_"+fill(24), "")
	one("rk_live_"+fill(247), "stripe-secret-live")
	f("rk_live_"+fill(248), "")
	one("whsec_"+fill(24)+"+/=", "webhook-secret")
	f("whsec_"+fill(23), "")
	one("ghp_"+fill(36), "github-token")
	f("ghp_"+fill(35), "")
	one("github_pat_"+fill(11)+"_"+fill(59), "github-fine-grained")
	one("xoxb-1234-5678-"+fill(8), "slack-token")
	f("xoxb-only-letters-here", "")
	one("AKIA"+"IOSFODNN7EXAMPLE", "aws-access-key")
	f("AKIA"+"IOSFODNN7EXAMPL", "")
	f("AKIA"+"IOSFODNN7EXAMPLE2", "")
	one("AIza"+fill(35), "google-api-key")
	one(jwt+"c2ln", "json-web-token")
	one(jwt, "json-web-token") // unsigned
	f("eyJ"+"hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0", "")
	f("eyJ"+"hIjoxfQ.e30.c2ln", "") // {"a":1} names no algorithm
	one("-----BEGIN PRIVATE KEY-----", "private-key")
	one("-----BEGIN RSA PRIVATE KEY-----", "private-key")
	f("-----BEGIN PUBLIC KEY-----", "")
	f("-----BEGIN CERTIFICATE-----\nPRIVATE KEY-----", "")
	one("Bearer "+fill(16), "bearer-token")
	one("BEARER  "+fill(40), "bearer-token")
	f("bearer "+fill(15), "")
	f("bearer of extraordinarilygoodnews", "")
	f("nothing to see", "")
	f("", "")
}

// A key is found wherever a log or a URL may put it, but not in the middle of a longer word.
func TestKeysAreFoundAtWordStartsOnly(t *testing.T) {
	s := scanner(t)
	secret := "sk_live_" + fill(24)
	for _, before := range []string{"", " ", "=", "\n", "é", `\n`, `\\t`, "\\u000a", `\x0A`, "%3D", `"`, ":", "-"} {
		if s.Find(before+secret) == nil {
			t.Errorf("not found behind %q", before)
		}
	}
	for _, before := range []string{"a", "n", "_", "7", "%3", "u000a", `\q`} {
		if s.Find(before+secret) != nil {
			t.Errorf("found behind %q, the middle of a word", before)
		}
	}
	is.Equal(t, s.Find(secret).Name, "Stripe live secret key", "found as")
}

func TestScanStopsWhenEmitReturnsFalse(t *testing.T) {
	n := 0
	scanner(t).Scan([]byte(strings.Repeat("AKIA"+"IOSFODNN7EXAMPLE ", 3)), func(secrets.Match) bool {
		n++
		return n < 2
	})
	is.Equal(t, n, 2, "matches were emitted")
}

// Whatever the bytes are, a match lies within them.
func FuzzScan(f *testing.F) {
	s := scanner(f)
	f.Add([]byte("bearer " + fill(20) + " eyJ" + "hbGciOiJIUzI1NiJ9.e30."))
	f.Add([]byte("-----BEGIN "))
	f.Add([]byte("%eyJ\\u00xox"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s.Scan(b, func(m secrets.Match) bool {
			if m.Start < 0 || m.End > len(b) || m.Start >= m.End {
				t.Fatalf("match [%d, %d) of %d bytes", m.Start, m.End, len(b))
			}
			return true
		})
	})
}
