package secrets

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestMaskAll(t *testing.T) {
	s := newLeaks(t)
	f := func(text, want string, n int) {
		t.Helper()
		got, found := s.MaskAll(nil, []byte(text))
		if string(got) != want || found != n {
			t.Errorf("%q: %q (%d), want %q (%d)", text, got, found, want, n)
		}
	}
	f("nothing", "nothing", 0)
	f("a ghp_"+"q8ZkT2vN4xW7yR1mB5cJ9dL3fH6gS0pAaEuX b", "a ghp_***aEuX b", 1)
	f("postgres://me:"+"hunter22xyz@db.internal:5432/app?x", "postgres://me:***@db.internal:5432/app?x", 1)
	f("sk_live_"+"q8ZkT2vN4xW7yR1m", "sk_live_***", 1)
	f(`{"api_key":"`+`q8ZkT2vN4xW7yR1mB5cJ9dL3"}`, `{"api_key":"***9dL3"}`, 1)
}

// A mask shows neither eight characters of a secret in a row nor anything that JSON escapes.
func TestMaskHidesTheSecret(t *testing.T) {
	s := newLeaks(t)
	for _, p := range wrapped(s, newGenerator(5), 2*len(s.rules)) {
		s.Scan([]byte(p.text()), func(m Match) bool {
			secret := []byte(p.text()[m.Start:m.End])
			mask := m.Rule.Mask(secret)
			hiddenPart := secret[min(len(secret), maxHead):]
			if m.Rule.Kind == KindURI {
				hiddenPart = bytes.SplitN(secret, []byte("app"), 2)[1][:22]
			}
			for i := 0; i+8 <= len(hiddenPart); i++ {
				is.Lacks(t, mask, string(hiddenPart[i:i+8]), "%s: of %s", m.Rule.ID, secret)
			}
			if len(mask) > maxMask || strings.ContainsFunc(mask, func(c rune) bool { return c <= ' ' && c != ' ' || c > '~' }) ||
				strings.ContainsAny(mask, `"\<>&`) || !strings.Contains(mask, hidden) {
				t.Errorf("%s: mask %q", m.Rule.ID, mask)
			}
			return true
		})
	}
}

// The masks that a rule makes have its shape, and the secrets have not.
func TestShapeOfMasks(t *testing.T) {
	s := newLeaks(t)
	for _, p := range wrapped(s, newGenerator(7), 2*len(s.rules)) {
		s.Scan([]byte(p.text()), func(m Match) bool {
			secret := p.text()[m.Start:m.End]
			mask := m.Rule.Mask([]byte(secret))
			if !m.Rule.IsMask(mask) || !IsMask(mask) {
				t.Errorf("%s: %q is not accepted as a mask", m.Rule.ID, mask)
			}
			if masked, n := s.MaskAll(nil, []byte(mask)); n > 0 {
				t.Errorf("%s: the mask %q is masked: %s", m.Rule.ID, mask, masked)
			}
			if m.Rule.IsMask(secret) || m.Rule.IsMask(mask+"x") && m.Rule.Kind != KindURI || m.Rule.IsMask("x"+mask) {
				t.Errorf("%s: %q is accepted as a mask", m.Rule.ID, secret)
			}
			return true
		})
	}
	rule := func(id string) *Rule {
		i := slices.IndexFunc(s.rules, func(r Rule) bool { return r.ID == id })
		return &s.rules[i]
	}
	for id, texts := range map[string][]string{
		"stripe-secret-live": {"", "***", "sk_live_***", "sk_live_***aB3d", "rk_live_***aB3d", "pk_live_***aB3d",
			"sk_live_***aB3", "sk_live_***aB3dX", "sk_live_x***aB3d", "sk_live_***aB3d***", "sk_live_*** aB3",
			"sk_live_***aB3\n",
			"sk_live_***<b>", "sk_live_***äB", "sk_live_***aB\u202e"},
		"database-uri": {"postgres://me***:***@db/x", "POSTGRES://:***@db", "postgres://secret***:***@db",
			"http://a:***@db", "postgres://a:b@db", "postgres://a:***@q8ZkT2vN4x", "postgres://a:***@db/q8ZkT2vN4x"},
		"private-key-block": {"-----BEGIN ***", "-----BEGIN RSA", "***"},
	} {
		var got []string
		for _, text := range texts {
			if rule(id).IsMask(text) {
				got = append(got, text)
			}
		}
		want := map[string][]string{
			"stripe-secret-live": {"***", "sk_live_***", "sk_live_***aB3d", "rk_live_***aB3d"},
			"database-uri":       {"postgres://me***:***@db/x", "POSTGRES://:***@db"},
			"private-key-block":  {"-----BEGIN ***"},
		}[id]
		is.List(t, got, want, "%s: are accepted", id)
	}
	for text, want := range map[string]bool{"new_key_***1234": true, "***": true, "-----BEGIN ***": true,
		"x://a:***@h": true, "new_key_1***": false, "***12345": false, "a***b***c": false, "plain": false, "": false,
		"x://" + strings.Repeat("a", 80) + ":***@h": false} {
		if IsMask(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// The mask of a URI shows at most four characters of its user, and nothing of what may be a token.
func TestMaskOfURIHidesTheUser(t *testing.T) {
	s := newLeaks(t)
	const password = "q8ZkT2vN4x"
	for text, want := range map[string]string{
		"redis://:" + password + "@cache:6379":                               "redis://:***@cache:6379",
		"postgres://u:" + "p@ss@h":                                           "postgres://u:***@h",
		"postgres://u:" + password + "@x@y.z@db/orders":                      "postgres://u:***@db/orders",
		"postgres%3A%2F%2Fu%3A" + password + "%40x%40db%2Forders":            "postgres://u:***@db/orders",
		"redis://me:" + password + "@cache:6379/0":                           "redis://me:***@cache:6379/0",
		"postgres://postgres:" + password + "@db/orders":                     "postgres://post***:***@db/orders",
		"amqp://" + password + ":" + password + "@mq/":                       "amqp://***:***@mq/",
		"amqp://worker:worker" + "1793@mq":                                   "amqp://***:***@mq",
		"amqp://WORK" + ":workbench81@mq":                                    "amqp://***:***@mq",
		"redis://aKzkTqvNxRwB:" + password + "@cache":                        "redis://***:***@cache",
		"redis://user2024:" + password + "@cache":                            "redis://***:***@cache",
		"redis://qjxkzvwpmbhgtyd:" + password + "@cache":                     "redis://***:***@cache",
		"redis://a.name.of.twenty.char:" + password + "@c":                   "redis://***:***@c",
		"mongodb+srv://app:" + password + "@a.b,c.d/x1y2":                    "mongodb+srv://app:***@a.b,c.d/x1y2",
		"mongodb%2Bsrv%3A%2F%2Fapp%3A" + password + "%40host%2Fsome_orders2": "mongodb+srv://app:***@host/***",
		`redis:\/\/x%40y:` + password + `@cache`:                             "redis://x@y:***@cache",
	} {
		got := ""
		s.Scan([]byte(text), func(m Match) bool {
			got += m.Rule.Mask([]byte(text[m.Start:m.End]))
			return true
		})
		is.Equal(t, got, want, text)
	}
}

// Wherever a token stands in a URI, the URI's mask does not show it.
func TestMaskOfURIHidesTokens(t *testing.T) {
	s := newLeaks(t)
	g := newGenerator(23)
	masks := 0
	for i := range s.rules {
		r := &s.rules[i]
		if r.Kind != KindToken && r.Kind != KindJWT {
			continue
		}
		token := g.secret(r, false)
		hiddenPart := token // without what everybody knows of it
		for _, prefix := range slices.Concat(r.Prefixes, r.separators()) {
			hiddenPart = strings.Replace(hiddenPart, prefix, "\n", 1)
		}
		for _, uri := range []string{
			"redis://" + token + ":x-oauth-basic@host", "redis://" + token + ":" + token + "@host",
			"redis://:q8ZkT2vN4x@host/" + token, "redis://:q8ZkT2vN4x@" + token + ".example.com",
		} {
			s.Scan([]byte(uri), func(m Match) bool {
				mask := m.Rule.Mask([]byte(uri[m.Start:m.End]))
				if m.Rule.Kind != KindURI {
					return true
				}
				masks++
				if rule := s.Find(mask); rule != nil {
					t.Errorf("%s in %s: %s", rule.ID, uri, mask)
				}
				for at := 0; at+8 <= len(hiddenPart); at++ {
					if strings.Contains(mask, hiddenPart[at:at+8]) {
						t.Errorf("%s: mask %s shows %s", uri, mask, hiddenPart[at:at+8])
					}
				}
				return true
			})
		}
	}
	if masks < 2*len(s.rules) {
		t.Errorf("%d masks of URIs", masks)
	}
}

// separators returns the texts between the parts of a rule.
func (r *Rule) separators() (texts []string) {
	for _, p := range r.Then {
		if p.Separator != "" {
			texts = append(texts, p.Separator)
		}
	}
	return texts
}

// chains are texts in which each mask completes a credential beside it: passes over the whole text would be as many as
// its length allows.
var chains = []string{
	"-----BEGIN PRIVATE KEY-----\n", "PRIVATE KEY-----", "glpat-", "sl.u.glpat-", "glpat-ya29.", ".atlasv1.glpat-",
	"glpat-eyJhbGciOiJIUzI1NiJ9.", "redis://:abcdefgh@h",
}

func chain(unit string, n int) []byte {
	return append([]byte("-----BEGIN "), bytes.Repeat([]byte(unit), n/len(unit))...)
}

// MaskAll reads a text of any length a bounded number of times, and leaves nothing that is found.
func TestMaskAllIsLinear(t *testing.T) {
	for _, s := range []*Scanner{newLeaks(t), newReceipts(t)} {
		for _, unit := range chains {
			text := chain(unit, 128<<10)
			masked, _, scanned := s.maskAll(nil, text)
			if scanned > len(margins)*len(text) {
				t.Errorf("%q: %d bytes of %d scanned", unit, scanned, len(text))
			}
			if rule := s.Find(string(masked)); rule != nil {
				t.Errorf("%q: %s is left", unit, rule.ID)
			}
		}
	}
	// A secret in ordinary text costs a second pass and no more, and the text around it stays.
	s := newLeaks(t)
	key := "ghp" + "_" + newGenerator(6).run(charsets["alnum"], 36)
	text := bytes.Repeat(append(logLines(1<<10), key...), 20)
	masked, n, scanned := s.maskAll(nil, text)
	if n != 20 || scanned > 2*len(text) || len(masked) < len(text)-20*len(key) {
		t.Errorf("%d secrets, %d of %d bytes scanned, %d left", n, scanned, len(text), len(masked))
	}
}

// BenchmarkMaskAll reports the slowest of the chains.
func BenchmarkMaskAll(b *testing.B) {
	s := newLeaks(b)
	for _, unit := range chains {
		text := chain(unit, 891_000)
		b.Run(strings.TrimSpace(unit), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s.MaskAll(nil, text)
			}
		})
	}
}

// The service and the fixture runner, which is one file, have the same patterns of names.
func TestNamesAreThoseOfTheRunner(t *testing.T) {
	text := must.Get(os.ReadFile("../../sdk/fixture-run/relay-fixture-run.mjs"))(t)
	script := strings.ReplaceAll(string(text), "' +\n  '", "")
	for _, pattern := range []string{
		credentialWord, credentialEnd, joinedName, harmlessName, addedWord, identifiedWord,
	} {
		if !strings.Contains(script, "'"+pattern+"'") && !strings.Contains(script, "/"+pattern+"/") {
			t.Errorf("the runner has no pattern %s", pattern)
		}
	}
}

func TestNamesCredential(t *testing.T) {
	for _, name := range []string{"pass", "auth", "pin", "csrf", "sig", "X-Api-Key", "verification_code", "accesstoken",
		"a[token][0]", "secret_id", "api_key_v2", "PHPSESSID", "APIkey", "jwt", "userPassword"} {
		if !NamesCredential(name) {
			t.Errorf("%s announces no credential", name)
		}
	}
	for _, name := range []string{"passenger", "author", "design", "id", "value", "spinner", "keyboard", "token_type",
		"pageToken", "primaryKeyId", "token_id", "code", "", "[]", "compass", "object_key"} {
		if NamesCredential(name) {
			t.Errorf("%s announces a credential", name)
		}
	}
}
