package verify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// requestCase changes a vector, and says what becomes of it; "" for accepted.
type requestCase struct {
	name   string
	change func(v *vector, c *Config, r *Request)
	want   func(l *layout, scheme string) Reason
}

func always(reason Reason) func(*layout, string) Reason {
	return func(*layout, string) Reason { return reason }
}

// ifCovered is what becomes of another body.
func ifCovered(_ *layout, scheme string) Reason {
	if coversBody(scheme) {
		return SignatureMismatch
	}
	return ""
}

// other is "rejected, for any reason".
const other Reason = "rejected"

// setSignature replaces the value of the signature, in the header or in the body.
func setSignature(r *Request, l *layout, change func(string) string) {
	old, _ := l.value(*r, l.header)
	if strings.HasPrefix(l.header, bodyPlace) {
		text, _ := json.Marshal(change(old))
		r.Body = []byte(strings.Replace(string(r.Body), `"`+old+`"`, string(text), 1))
		return
	}
	r.Header.Set(l.header, change(old))
}

var requestCases = []requestCase{
	{"valid", func(*vector, *Config, *Request) {}, always("")},
	{"tampered", func(_ *vector, _ *Config, r *Request) {
		r.Body = []byte(strings.NewReplacer("größe", "grösse", "Hello", "hello", "{\"id\":\"evt", "{\"id\":\"Evt",
			"text", "Text", "You have", "You had", "contact", "Contact", "email", "Email", "hook_id", "Hook_id",
			"token\":\"z", "token\":\"Z", "amount\":{", "Amount\":{", "id\":\"1\"", "id\":\"2\"").Replace(string(r.Body)))
	}, func(l *layout, scheme string) Reason {
		if len(l.paths) > 0 && l.form.algorithm != "token" && scheme != "mailgun" && scheme != "linear" {
			return other
		}
		return ifCovered(l, scheme)
	}},
	{"stale", func(_ *vector, _ *Config, r *Request) { r.Now = r.Now.Add(time.Hour) }, func(l *layout, _ string) Reason {
		if l.content.placeholder != "" && !l.ageless {
			return TimestampOutsideTolerance
		}
		return ""
	}},
	{"wrong secret", func(v *vector, c *Config, _ *Request) {
		c.Secrets = []string{strings.Map(func(r rune) rune {
			if r >= '1' && r <= '8' {
				return r + 1
			}
			return r
		}, v.Secret)}
		if c.Secrets[0] == v.Secret {
			c.Secrets = []string{v.Secret + "x"}
		}
	}, always(SignatureMismatch)},
	{"other headers", func(_ *vector, _ *Config, r *Request) { r.Header.Set("X-Other", "1") }, always("")},
	{"other id", func(_ *vector, _ *Config, r *Request) {
		for _, name := range []string{"Webhook-Id", "Svix-Id", "Twitch-Eventsub-Message-Id", "Paypal-Transmission-Id"} {
			if r.Header.Get(name) != "" {
				r.Header.Set(name, "another")
			}
		}
	}, func(l *layout, scheme string) Reason {
		isID := func(field string) bool { return strings.HasSuffix(field, "-Id}") }
		if l.idHeader != "" || slices.ContainsFunc(l.content.fields, isID) {
			return SignatureMismatch
		}
		return ""
	}},
	{"wrong algorithm", func(_ *vector, c *Config, r *Request) {
		l := layoutOf(c.layoutFor(*r))
		algorithm := map[string]string{"sha1": "sha256"}[l.form.algorithm]
		form, _ := newMACForm(cmp.Or(algorithm, "sha1"), map[bool]string{true: hexText}[l.form.encoding == hexText])
		form.encoding = cmp.Or(form.encoding, base64Text)
		key, _ := l.key(c.Secrets[0])
		stamp, _ := l.value(*r, l.content.header)
		m := l.appendMessages(nil, *r, r.Header.Get(l.idHeader), cmp.Or(stamp, l.timestamp(r.Now)))
		setSignature(r, &l, func(string) string { return l.prefixed(r, form.sign(key, m[0])) })
	}, always(other)},
	{"two signatures", func(_ *vector, c *Config, r *Request) {
		l := layoutOf(c.layoutFor(*r))
		setSignature(r, &l, func(old string) string {
			if l.separators == "" {
				return old + "," + old
			}
			wrong := old[strings.LastIndex(old, l.prefix)+len(l.prefix):]
			wrong = strings.NewReplacer("a", "b", "b", "a", "A", "B", "1", "2").Replace(wrong)
			return old + l.separators[:1] + l.prefix + wrong
		})
	}, func(l *layout, _ string) Reason {
		if l.separators != "" {
			return ""
		}
		return other
	}},
	{"duplicate", func(_ *vector, c *Config, r *Request) {
		l := layoutOf(c.layoutFor(*r))
		if path, inBody := strings.CutPrefix(l.header, bodyPlace); inBody {
			name := path[strings.LastIndex(path, ".")+1:]
			r.Body = []byte(strings.Replace(string(r.Body), `"`+name+`":`, `"`+strings.ToUpper(name)+`":"x","`+name+`":`, 1))
			return
		}
		r.Header.Add(l.header, "x")
	}, always(SignatureMalformed)},
	{"byte order mark", func(_ *vector, _ *Config, r *Request) { r.Body = append([]byte("\ufeff"), r.Body...) },
		func(l *layout, scheme string) Reason {
			if len(l.paths) > 0 {
				return other
			}
			return ifCovered(l, scheme)
		}},
	{"form", signedBody("a=1&b=2"), signedReason},
	{"1 MiB", signedBody(strings.Repeat("a", 1<<20)), signedReason},
}

func layoutOf(l layout, err error) layout {
	if err != nil {
		panic(err)
	}
	return l
}

// prefixed returns a signature as the header has it, with the timestamp of the old one in a list.
func (l *layout) prefixed(r *Request, signature string) string {
	if l.content.timestampInList() {
		return l.timeItem + l.timestamp(r.Now) + l.separators[:1] + l.prefix + signature
	}
	return l.prefix + signature
}

// signedBody signs another body if anyone but the provider can.
func signedBody(body string) func(*vector, *Config, *Request) {
	return func(_ *vector, c *Config, r *Request) {
		r.Body = []byte(body)
		if ByName(c.Type).CanSign() {
			_ = Sign(*c, *r)
		}
	}
}

func signedReason(l *layout, scheme string) Reason {
	if ByName(scheme).CanSign() && len(l.paths) == 0 {
		return ""
	}
	return other
}

// Each provider with each case: the reason is the expected one, and whatever is rejected is explained in sentences that
// contain no secret. The test prints the table.
func TestProvidersAndCases(t *testing.T) {
	all, now := vectors(t)
	rows := map[string]string{}
	for _, v := range all {
		if v.Type == Twilio || rows[v.Type] != "" {
			continue // Twilio signs forms and URLs: twilio_test.go
		}
		for _, x := range requestCases {
			c, r := v.config(), v.request(now)
			r.Header = r.Header.Clone()
			x.change(&v, &c, &r)
			l := ByName(v.Type).layout
			want, got := x.want(&l, v.Type), Check(c, r)
			if want != got && (want != other || got == "") {
				t.Errorf("%s, %s: %q, want %q", v.Type, x.name, got, want)
			}
			code := firstFinding(t, v, c, r, got)
			if x.name == "wrong algorithm" && l.form.isMAC() && !l.content.noBody && code != "algorithm" {
				t.Errorf("%s, %s: explained as %s", v.Type, x.name, code)
			}
			rows[v.Type] += fmt.Sprintf(" %s |", code)
		}
	}
	names := make([]string, len(requestCases))
	for i, x := range requestCases {
		names[i] = x.name
	}
	var table strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&table, "| %s |%s\n", name, rows[name])
	}
	t.Logf("| provider | %s |\n%s", strings.Join(names, " | "), &table)
}

// firstFinding returns the code of the first finding, "ok" for an accepted request.
func firstFinding(t *testing.T, v vector, c Config, r Request, reason Reason) string {
	t.Helper()
	out := Explain(c, r)
	if out.Reason != reason || (reason == "") != (len(out.Findings) == 0) {
		t.Fatalf("%s: explained %q as %q %v", v.Name, reason, out.Reason, out.Findings)
	}
	out.Content = nil // has the body, and with it Figma's passcode
	shown := string(must.Get(json.Marshal(out))(t))
	l := ByName(v.Type).layout
	for _, secret := range []string{v.Secret, c.Secrets[0]} {
		if l.form.check == nil && strings.Contains(shown, secret) {
			t.Errorf("%s: the explanation contains the secret: %s", v.Name, shown)
		}
	}
	if reason == "" {
		return "ok"
	}
	if text := out.Findings[0].Message; !strings.HasSuffix(text, ".") || strings.Contains(text, "%!") {
		t.Errorf("%s: %q is no sentence", v.Name, text)
	}
	return out.Findings[0].Code
}

// Secrets in a wrong form are refused, with what the right one looks like.
func TestSecretsInAWrongForm(t *testing.T) {
	all, _ := vectors(t)
	for _, v := range all {
		s := ByName(v.Type)
		must.Do(t, v.config().Validate())
		c := v.config()
		c.Secrets = []string{"!"}
		err := c.Validate()
		checked := s.secretPattern != nil && v.Type != "figma" || s.layout.keyForm != "" || s.layout.form.parseKey != nil
		if checked != (err != nil) {
			t.Errorf("%s: %v", v.Type, err)
		} else if checked && !strings.Contains(err.Error(), s.SecretForm) && !strings.Contains(err.Error(), "whsec_") {
			t.Errorf("%s: %v does not say what the secret looks like", v.Type, err)
		}
	}
}

// Adding a provider is a row and its vector, nothing else: a row that no code names is verified, explained, listed and
// has a sample.
func TestAProviderIsARow(t *testing.T) {
	const row = `[{"name":"acme","title":"Acme","about":"Orders.","signature":{"at":"X-Acme-Signature","prefix":"v2=",` +
		`"algorithm":"sha512","content":"{timestamp:X-Acme-Time}:{body}","clock":"rfc3339"},` +
		`"menu":"Settings","steps":["Save."],` +
		`"secret":"Settings","secret_form":"acme_ and digits.","secret_pattern":"acme_[0-9]+",` +
		`"test":"None.","mistake":"Another.",` +
		`"docs":"https://acme.example.com/","compared":"this test","sample":{"type":"order","body":{"at":"#unix"}}}]`
	before, beforeNames := schemes, byName
	defer func() { schemes, byName = before, beforeNames }()
	all, _ := readTable([]byte(row))
	schemes, byName = append(slices.Clone(before), all...), maps.Clone(beforeNames)
	byName["acme"] = all[0]

	c := Config{Type: "acme", Secrets: []string{"acme_1"}, Tolerance: DefaultTolerance}
	must.Do(t, c.Validate())
	x := SampleValues{Type: "order", At: explained}
	r := Request{Method: http.MethodPost, Header: http.Header{}, Now: explained,
		Body: []byte(x.Fill(string(all[0].Sample.Body)))}
	is.Equal(t, string(r.Body), `{"at":1760000000}`, "sample %s", r.Body)
	must.Do(t, Sign(c, r))
	want(t, c, r, "")
	r.Header.Set("X-Acme-Signature", strings.ToUpper(r.Header.Get("X-Acme-Signature")))
	if out := Explain(c, r); out.Findings[0].Code != "prefix" && out.Findings[0].Code != "encoding" {
		t.Errorf("%+v", out.Findings)
	}
	c.Secrets = []string{"acme"}
	is.Failed(t, c.Validate(), "acme_ and digits")
	if !slices.Contains(Types(), "acme") || !slices.Contains(Listed(), all[0]) {
		t.Error("the row is not listed")
	}
}
