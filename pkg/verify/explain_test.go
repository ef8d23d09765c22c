package verify

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// explained is the time of the requests that are explained.
var explained = time.Unix(1760000000, 0)

// hexBase64 is a secret that can be decoded from hex and from base64.
const hexBase64 = "whsec_5f4dcc3b5aa765d61d8327deb882cf99"

const (
	stripeHeader, twilioHeader = "Stripe-Signature", "X-Twilio-Signature"
	slackTimeHeader            = "X-Slack-Request-Timestamp"
)

// imitations are configurations of the configurable scheme that sign as the other schemes do, so that a test can change
// any part of a signature.
var imitations = map[string]Config{
	Stripe:  {Header: stripeHeader, Prefix: "v1=", SignedContent: "{timestamp}.{body}"},
	GitHub:  {Header: "X-Hub-Signature-256", Prefix: "sha256="},
	Shopify: {Header: "X-Shopify-Hmac-Sha256", Encoding: base64Text},
	Slack:   {Header: "X-Slack-Signature", Prefix: "v0=", SignedContent: "v0:{timestamp:" + slackTimeHeader + "}:{body}"},
	StandardWebhooks: {Header: "Webhook-Signature", Prefix: "v1,", Encoding: base64Text,
		SignedContent: "msg_1.{timestamp:Webhook-Timestamp}.{body}"},
	HMAC: {},
}

// imitation is a request of an imitated scheme: what is signed, and how it is changed afterwards.
type imitation struct {
	scheme  string
	secret  string // of the endpoint
	signing Config // of the sender
	at      time.Time
	signed  []byte
	body    []byte // as received
	change  func(h http.Header)
}

func imitate(scheme, secret string) *imitation {
	x := &imitation{scheme: scheme, secret: secret, signing: imitations[scheme], at: explained}
	x.signing.Type = HMAC
	x.signing.Secrets = []string{secret}
	if scheme == StandardWebhooks {
		x.signing.Secrets[0], _ = decodeStandardSecret(secret)
	}
	x.signed = []byte(`{"b":"ä/<","a":[1,{"c":null}]}`)
	x.body = x.signed
	return x
}

func (x *imitation) explain(t testing.TB) *Explanation {
	t.Helper()
	r := Request{Method: "POST", Header: http.Header{"Webhook-Id": {"msg_1"}}, Body: x.signed, Now: x.at}
	if x.scheme != StandardWebhooks {
		r.Header = http.Header{}
	}
	must.Do(t, Sign(x.signing, r))
	if x.change != nil {
		x.change(r.Header)
	}
	r.Body, r.Now = x.body, explained
	return Explain(Config{Type: x.scheme, Secrets: []string{x.secret}, Tolerance: DefaultTolerance}, r)
}

// wantFinding checks that the explanation is the finding with that code, and that nothing of it is a secret.
func (x *imitation) wantFinding(t *testing.T, name, code string) *Explanation {
	t.Helper()
	out := x.explain(t)
	if out.Reason == "" || len(out.Findings) != 1 || out.Findings[0].Code != code {
		t.Errorf("%s, %s: %q %v, want %s", x.scheme, name, out.Reason, out.Findings, code)
	}
	shown := must.Get(json.Marshal(out))(t)
	for _, secret := range []string{x.secret, x.signing.Secrets[0], strings.TrimPrefix(x.secret, "whsec_")} {
		is.Lacks(t, string(shown), secret, "%s, %s: the explanation contains the secret: %s", x.scheme, name, shown)
	}
	for _, f := range out.Findings {
		text := f.Message
		if !strings.HasSuffix(text, ".") || strings.Contains(text, "%!") || text[0] < 'A' || text[0] > 'Z' {
			t.Errorf("%s: %q is no sentence", f.Code, text)
		}
	}
	return out
}

// A good request has no findings, and the explanation shows what was compared.
func TestExplainAccepted(t *testing.T) {
	for scheme := range imitations {
		x := imitate(scheme, hexBase64)
		out := x.explain(t)
		stamped := strings.Contains(imitations[scheme].SignedContent, "{timestamp")
		if out.Reason != "" || out.Findings != nil || !out.Secrets[0].Matches || out.Secrets[0].Last4 != "cf99" ||
			out.Secrets[0].ExpectedPrefix != out.ReceivedPrefix || len(out.ReceivedPrefix) != 8 || out.TimeSigned != stamped ||
			stamped && (out.Timestamp != "1760000000" || !out.SignedAt.Equal(explained)) ||
			!bytes.HasSuffix(out.Content, x.body) || out.ContentSize != len(out.Content) {
			t.Errorf("%s: %+v", scheme, out)
		}
	}
	c, r := signed(t, Twilio, []byte("x"))
	if out := Explain(c, r); out.Reason != "" || out.URL != r.URL || !out.Secrets[0].Matches ||
		out.Secrets[0].ExpectedPrefix != out.ReceivedPrefix || string(out.Content) != "https://h"+r.URL[len("https://h"):] {
		t.Errorf("%+v", out)
	}
}

// All schemes but Twilio: mistakes in the form of the signature and in the secret.
func TestExplainSignaturesAndSecrets(t *testing.T) {
	for scheme := range imitations {
		f := func(name, code string, change func(x *imitation)) {
			t.Helper()
			x := imitate(scheme, hexBase64)
			change(x)
			x.wantFinding(t, name, code)
		}
		header := headerOf(scheme)
		rewrite := func(change func(mac string) string) func(http.Header) {
			return func(h http.Header) {
				prefix, mac := "", h.Get(header)
				if i := strings.LastIndexAny(strings.TrimRight(mac, "="), "=,"); i >= 0 {
					prefix, mac = mac[:i+1], mac[i+1:]
				}
				h.Set(header, prefix+change(mac))
			}
		}
		f("SHA-512", "algorithm", func(x *imitation) { x.signing.Algorithm = "sha512" })
		f("SHA-1", "algorithm", func(x *imitation) { x.signing.Algorithm = "sha1" })
		f("the other encoding", "encoding", func(x *imitation) {
			x.signing.Encoding = map[string]string{"": base64Text, base64Text: hexText}[x.signing.Encoding]
		})
		if imitations[scheme].Encoding == base64Text {
			f("no padding", "encoding", func(x *imitation) {
				x.change = rewrite(func(mac string) string { return strings.TrimRight(mac, "=") })
			})
		} else {
			f("upper case", "encoding", func(x *imitation) { x.change = rewrite(strings.ToUpper) })
		}
		if imitations[scheme].Prefix != "" {
			f("no prefix", "prefix", func(x *imitation) {
				x.change = func(h http.Header) {
					h.Set(header, strings.Replace(h.Get(header), imitations[scheme].Prefix, "", 1))
				}
			})
		}
		key := imitate(scheme, hexBase64).signing.Secrets[0]
		sender := func(name, code, key string) {
			t.Helper()
			f(name, code, func(x *imitation) { x.signing.Secrets = []string{key} })
		}
		bare := strings.TrimPrefix(hexBase64, "whsec_")
		decoded, _ := base64.StdEncoding.DecodeString(bare)
		raw, _ := hex.DecodeString(bare)
		if scheme == StandardWebhooks {
			sender("the text", "secret_text", hexBase64)
			sender("the text without prefix", "secret_text", bare)
		} else {
			sender("decoded from base64", "secret_base64", string(decoded))
			sender("without whsec_", "secret_prefix", bare)
			f("with whsec_", "secret_prefix", func(x *imitation) { x.secret = bare })
		}
		sender("decoded from hex", "secret_hex", string(raw))
		sender("newline", "secret_whitespace", key+"\n")
		sender("CRLF", "secret_whitespace", key+"\r\n")
		sender("space", "secret_whitespace", key+" ")
		sender("quotes", "secret_quotes", `"`+key+`"`)
		sender("single quotes", "secret_quotes", "'"+key+"'")
		sender("another secret", "no_cause", "another secret")
		if scheme != StandardWebhooks { // Validate refuses quotes in its secrets
			f("entered in quotes", "secret_quotes", func(x *imitation) { x.secret = `"` + hexBase64 + `"` })
		}
	}
}

// headerOf returns the signature header of an imitated scheme.
func headerOf(scheme string) string {
	if h := imitations[scheme].Header; h != "" {
		return h
	}
	return "X-Signature"
}

// All schemes but Twilio: the body is not the one that was signed.
func TestExplainBodies(t *testing.T) {
	const compact = `{"b":"ä/<","a":[1,{"c":null}]}`
	for scheme := range imitations {
		f := func(code, signed, received string) {
			t.Helper()
			x := imitate(scheme, hexBase64)
			x.signed, x.body = []byte(signed), []byte(received)
			x.wantFinding(t, signed, code)
		}
		f("body_newline", compact, compact+"\n")
		f("body_newline", compact, compact+"\r\n")
		f("body_newline", compact+"\n", compact)
		f("body_newline", compact+"\r\n", compact)
		f("body_line_ends", "{\n \"a\": 1\n}", "{\r\n \"a\": 1\r\n}")
		f("body_line_ends", "{\r\n \"a\": 1\r\n}", "{\n \"a\": 1\n}")
		f("body_empty", "", compact)
		for _, text := range []string{
			compact,
			`{"b": "ä/<", "a": [1, {"c": null}]}`, // Python with ensure_ascii=False
			`{"b": "\u00e4/<", "a": [1, {"c": null}]}`,                                          // Python
			`{"b":"\u00e4\/<","a":[1,{"c":null}]}`,                                              // PHP
			`{"a":[1,{"c":null}],"b":"ä/\u003c"}`,                                               // Go, from a map
			`{"b":"ä/\u003c","a":[1,{"c":null}]}`,                                               // Go, from a struct
			`{"a": [1, {"c": null}], "b": "\u00e4/<"}`,                                          // Python with sort_keys=True
			"{\n  \"b\": \"ä/<\",\n  \"a\": [\n    1,\n    {\n      \"c\": null\n    }\n  ]\n}", // JSON.stringify(x, null, 2)
		} {
			for _, received := range []string{`{ "b" : "ä/<", "a":[1,{"c":null}] }`, compact + " "} {
				f("body_json", text, received)
			}
		}
		f("no_cause", compact, `{"b":"changed"}`)
		f("no_cause", compact, "\x00\xff")
		f("no_cause", "{}", "")
	}
	surrogates := imitate(GitHub, hexBase64)
	surrogates.signed, surrogates.body = []byte(`{"a":"\ud83d\ude00\n\u0001"}`), []byte("{\"a\": \"😀\\n\\u0001\"}")
	surrogates.wantFinding(t, "surrogates", "body_json")
}

// All schemes but Twilio: headers that are missing, repeated or malformed.
func TestExplainHeaders(t *testing.T) {
	for scheme, config := range imitations {
		header := headerOf(scheme)
		f := func(name, code string, change func(h http.Header)) {
			t.Helper()
			x := imitate(scheme, hexBase64)
			x.change = change
			x.wantFinding(t, name, code)
		}
		other := map[string]string{"Stripe-Signature": "X-Hub-Signature-256"}[header]
		if other == "" {
			other = stripeHeader
		}
		f("missing", "header_missing", func(h http.Header) { h.Del(header) })
		f("empty", "header_missing", func(h http.Header) { h.Set(header, "") })
		f("of another scheme", "other_scheme", func(h http.Header) { h.Del(header); h.Set(other, "x") })
		f("another header", "other_header", func(h http.Header) { h.Del(header); h.Set("X-Acme-Signature", "x") })
		f("twice", "header_repeated", func(h http.Header) { h.Add(header, h.Get(header)) })
		f("long", "header_too_long", func(h http.Header) { h.Set(header, strings.Repeat("x", maxHeader+1)) })
		if !strings.Contains(config.SignedContent, "{timestamp") {
			f("nonsense", "malformed", func(h http.Header) { h.Set(header, "nonsense") })
		}
	}
	out := imitate(GitHub, hexBase64)
	out.change = func(h http.Header) { h.Del("X-Hub-Signature-256"); h.Set("Svix-Signature", "x") }
	got := out.wantFinding(t, "Svix", "other_scheme")
	is.Has(t, got.Findings[0].Message, "`standard_webhooks`", got.Findings)
}

// Schemes with a timestamp: it is missing, malformed, in milliseconds or too old, or not signed.
func TestExplainTimestamps(t *testing.T) {
	timed := map[string]string{Stripe: "", Slack: slackTimeHeader, StandardWebhooks: "Webhook-Timestamp"}
	for scheme, header := range timed {
		f := func(name, code string, change func(x *imitation)) *Explanation {
			t.Helper()
			x := imitate(scheme, hexBase64)
			change(x)
			return x.wantFinding(t, name, code)
		}
		stamp := func(text string) func(x *imitation) {
			return func(x *imitation) {
				x.change = func(h http.Header) {
					switch {
					case header != "" && text == "":
						h.Del(header)
					case header != "":
						h.Set(header, text)
					default:
						h.Set(stripeHeader, strings.Replace(h.Get(stripeHeader), "t=1760000000", "t="+text, 1))
					}
				}
			}
		}
		f("missing", "timestamp_missing", stamp(""))
		f("milliseconds", "timestamp_milliseconds", stamp("1760000000000"))
		f("a date", "timestamp_malformed", stamp("2026-01-01"))
		f("another time", "no_cause", stamp("1760000001"))
		old := f("old", "timestamp_old", func(x *imitation) { x.at = explained.Add(-time.Hour) })
		if !strings.Contains(old.Findings[0].Message, " 3600 seconds before") || !old.Secrets[0].Matches {
			t.Errorf("%+v", old)
		}
		f("of the future", "timestamp_future", func(x *imitation) { x.at = explained.Add(time.Hour) })
		f("not signed", "content", func(x *imitation) {
			x.signing.SignedContent = ""
			x.change = func(h http.Header) {
				if header == "" {
					h.Set(stripeHeader, "t=1760000000,"+h.Get(stripeHeader))
				} else {
					h.Set(header, "1760000000")
				}
			}
		})
	}
	x := imitate(StandardWebhooks, hexBase64)
	x.change = func(h http.Header) { h.Del("Webhook-Id") }
	x.wantFinding(t, "no id", "id_missing")
	x.change = func(h http.Header) { h.Set("Webhook-Id", "msg.1") }
	x.wantFinding(t, "id with a number", "id_malformed")
}

// The configurable scheme: findings name the member of the verification and its value.
func TestExplainConfigurable(t *testing.T) {
	body := []byte(`{"a":1}`)
	f := func(code, names string, configured, signing Config) {
		t.Helper()
		for _, c := range []*Config{&configured, &signing} {
			c.Type, c.Secrets, c.Tolerance = HMAC, []string{"a secret of the test"}, DefaultTolerance
		}
		r := Request{Header: http.Header{}, Body: body, Now: explained}
		must.Do(t, Sign(signing, r))
		out := Explain(configured, r)
		if len(out.Findings) != 1 || out.Findings[0].Code != code || !strings.Contains(out.Findings[0].Message, names) {
			t.Errorf("%q %v, want %s with %s", out.Reason, out.Findings, code, names)
		}
	}
	f("algorithm", "`verification.algorithm` to `sha512`", Config{}, Config{Algorithm: "sha512"})
	f("encoding", "`verification.encoding` to `base64`", Config{}, Config{Encoding: base64Text})
	f("prefix", "`verification.prefix` to that text", Config{}, Config{Prefix: "sha256="})
	f("prefix", "stands after `sha256=`", Config{Prefix: "v1="}, Config{Prefix: "sha256="})
	f("prefix", "to an empty text", Config{Prefix: "sha256="}, Config{})
	f("other_header", "but X-Acme-Hmac", Config{}, Config{Header: "X-Acme-Hmac"})
	for _, text := range []string{"{timestamp}.{body}", "{timestamp:X-Timestamp}.{body}",
		"v0:{timestamp:X-Timestamp}:{body}", "{body}{timestamp:X-Timestamp}"} {
		f("content", "`verification.signed_content` to `"+text+"`", Config{}, Config{SignedContent: text})
	}
	f("content", "to `{body}`", Config{SignedContent: "x{body}"}, Config{})
	c := Config{Type: HMAC, Secrets: []string{"x"}, SignedContent: "{timestamp:x-sent-at}.{body}", Header: "x-mac"}
	r := Request{Header: http.Header{"X-Mac": {strings.Repeat("a", 64)}, "X-Sent-At": {"today"}}}
	for _, code := range []string{"timestamp_malformed", "timestamp_missing"} {
		if out := Explain(c, r); len(out.Findings) != 1 || out.Findings[0].Code != code {
			t.Errorf("%v, want %s", out.Findings, code)
		}
		r.Header.Del("X-Sent-At")
	}
	out := Explain(Config{Type: HMAC, Secrets: []string{"x"}, Algorithm: "md5"}, Request{Body: body})
	if out.Reason == "" || out.Findings[0].Code != "unknown_scheme" {
		t.Errorf("%+v", out)
	}
}

// Twilio signs the address; everything but the address and the body is as in the other schemes.
func TestExplainTwilio(t *testing.T) {
	const assumed, form = "https://relay.example.com/in/token?a=1", "From=%2B1&Body=x"
	c := Config{Type: Twilio, Secrets: []string{"an auth token of the test"}, Tolerance: DefaultTolerance}
	f := func(code, names, called, body string, change func(r *Request, c *Config)) {
		t.Helper()
		r := Request{URL: called, Header: http.Header{}, Body: []byte(body), Now: explained}
		c := c
		if fields, ok := signedFields(r.Body); ok && !strings.Contains(called, "bodySHA256") {
			r.Header.Set(twilioHeader, string(base64SHA1().appendMAC(nil, c.Secrets[0], message{head: called, body: fields})))
		} else {
			r.Header.Set(twilioHeader, string(base64SHA1().appendMAC(nil, c.Secrets[0], message{head: called})))
		}
		r.URL = assumed
		if change != nil {
			change(&r, &c)
		}
		out := Explain(c, r)
		if len(out.Findings) != 1 || out.Findings[0].Code != code || !strings.Contains(out.Findings[0].Message, names) {
			t.Errorf("%s: %q %v, want %s with %s", called, out.Reason, out.Findings, code, names)
		}
	}
	for _, called := range []string{"http://relay.example.com", "https://other.example", "http://other.example:8080"} {
		f("url", "`"+called+"`, and this service assumes one at `https://relay.example.com`", called+"/in/token?a=1", form,
			func(r *Request, _ *Config) { r.Header.Set("Host", strings.SplitAfter(called, "://")[1]) })
	}
	f("url", "`https://front.example`", "https://front.example/in/token?a=1", form, func(r *Request, _ *Config) {
		r.Header.Set("X-Forwarded-Host", "front.example, relay")
	})
	f("url", "has a slash at the end", "https://relay.example.com/in/token/?a=1", form, nil)
	f("url", "has no query", "https://relay.example.com/in/token", form, nil)
	f("no_cause", "", "https://unknown.example/in/token?a=1", form, nil)
	f("body_not_form", "", assumed+"&bodySHA256=00", `{"a":1}`,
		func(r *Request, _ *Config) { r.Header.Set("Content-Type", jsonType) })
	f("body_not_form", "", assumed, "%zz", nil)
	f("body_changed", "", assumed, `{"a":1}`, func(r *Request, _ *Config) { r.URL += "&bodySHA256=00" })
	f("header_missing", twilioHeader, assumed, form, func(r *Request, _ *Config) { r.Header.Del(twilioHeader) })
	f("encoding", "", assumed, form, func(r *Request, _ *Config) {
		raw, _ := base64.StdEncoding.DecodeString(r.Header.Get(twilioHeader))
		r.Header.Set(twilioHeader, hex.EncodeToString(raw))
	})
	f("algorithm", "HMAC-SHA256", assumed, form, func(r *Request, c *Config) {
		fields, _ := signedFields(r.Body)
		r.Header.Set(twilioHeader, base64SHA256().sign(c.Secrets[0], message{head: assumed, body: fields}))
	})
	f("algorithm", "HMAC-SHA256", assumed, form, func(r *Request, _ *Config) {
		r.Header.Set(twilioSettings, "key=k,algorithm=HMAC_SHA256") // signed with HMAC-SHA1
	})
	f("algorithm", "names an algorithm other", assumed, form, func(r *Request, _ *Config) {
		r.Header.Set(twilioSettings, "algorithm=HMAC_SHA512,algorithm=HMAC_SHA1")
	})
	f("header_repeated", twilioSettings, assumed, form, func(r *Request, _ *Config) {
		r.Header[twilioSettings] = []string{"key=k", "key=k"}
	})
	const plain = "http://relay.example.com/in/token?a=1"
	f("url", "`http://relay.example.com`", plain, form, func(r *Request, c *Config) {
		fields, _ := signedFields(r.Body)
		r.Header.Set(twilioHeader, base64SHA256().sign(c.Secrets[0], message{head: plain, body: fields}))
		r.Header.Set(twilioSettings, "key=k,algorithm=HMAC_SHA256")
	})
	f("secret_kind", "`webhooks_sharedkey_`", assumed, form,
		func(_ *Request, c *Config) { c.Secrets = []string{"webhooks_sharedkey_0000"} })
	f("secret_whitespace", "a newline", assumed, form, func(r *Request, c *Config) {
		fields, _ := signedFields(r.Body)
		m := message{head: assumed, body: fields}
		r.Header.Set(twilioHeader, string(base64SHA1().appendMAC(nil, c.Secrets[0]+"\n", m)))
	})
	f("malformed", "HMAC-SHA1", assumed, form, func(r *Request, _ *Config) { r.Header.Set(twilioHeader, "x") })
	f("secret_kind", "`AC`", assumed, form, func(_ *Request, c *Config) { c.Secrets = []string{"AC00000000000000"} })
}

// An address with a port is tried with and without it. The explanation shows the spelling that was signed; if none was,
// it shows the address with its port, as in the URL beside it.
func TestExplainTwilioPort(t *testing.T) {
	const path, with, without = "/in/token?a=1", "https://relay.example.com:8443", "https://relay.example.com"
	c := Config{Type: Twilio, Secrets: []string{"an auth token of the test"}, Tolerance: DefaultTolerance}
	for _, x := range []struct {
		assumed, signed, shown string
		reason                 Reason
	}{
		{with, with, with, ""}, {with, without, without, ""}, {with, "https://other.example", with, SignatureMismatch},
		{without, without + ":443", without + ":443", ""}, {without, "https://other.example", without, SignatureMismatch},
	} {
		signature := base64SHA1().sign(c.Secrets[0], message{head: x.signed + path, body: []byte("Bodyx")})
		r := Request{URL: x.assumed + path, Header: http.Header{twilioHeader: {signature}}, Body: []byte("Body=x"),
			Now: explained}
		out := Explain(c, r)
		expected := base64SHA1().sign(c.Secrets[0], message{head: x.shown + path, body: []byte("Bodyx")})
		if out.Reason != x.reason || out.URL != r.URL || string(out.Content) != x.shown+path+"Bodyx" ||
			out.Secrets[0].ExpectedPrefix != expected[:8] || out.Secrets[0].Matches != (x.reason == "") {
			t.Errorf("%s, signed %s: %q, %q, %s beside %s, %+v", x.assumed, x.signed, out.Reason, out.URL, out.Content,
				expected, out.Secrets)
		}
	}
}

// A secret that the provider uses for something else is named by its prefix.
func TestExplainSecretKinds(t *testing.T) {
	for scheme, secret := range map[string]string{
		Stripe: "sk_" + "live_0000000000000000", GitHub: "ghp_" + "000000000000000000", Slack: "xoxb-" + "0000000000000",
		Shopify: "shpat_" + "00000000000000000",
	} {
		x := imitate(scheme, secret)
		x.signing.Secrets = []string{"made by another"}
		x.wantFinding(t, "another kind", "secret_kind")
	}
}

// Of several secrets the one that matches is named, a short one shows nothing of itself, and each shows at most eight
// characters of the signature that it makes.
func TestExplainSecrets(t *testing.T) {
	c, r := signed(t, Stripe, []byte("{}"))
	c.Secrets = append([]string{"short", "a second secret of the test"}, c.Secrets...)
	out := Explain(c, r)
	var matches []bool
	for i, s := range out.Secrets {
		matches = append(matches, s.Matches)
		full := hexSHA256().sign(c.Secrets[i], message{head: "1760000000.", body: r.Body})
		if s.ExpectedPrefix != full[:8] || s.Last4 != map[int]string{1: "test", 2: otherSecret[len(otherSecret)-4:]}[i] {
			t.Errorf("%d: %+v, want %s", i, s, full)
		}
	}
	if len(matches) != 3 || matches[0] || matches[1] || !matches[2] {
		t.Errorf("%v", matches)
	}
}

// The signed text is cut to 64 KiB and keeps its size. A large body is not written anew as JSON.
func TestExplainLargeBody(t *testing.T) {
	body := []byte(`{"a":"` + strings.Repeat("x", maxThorough) + `"}`)
	x := imitate(Stripe, hexBase64)
	x.signed, x.body = body, append(bytes.Clone(body), '\n')
	out := x.wantFinding(t, "large", "body_newline")
	if len(out.Content) != maxShownContent || out.ContentSize != len(body)+1+len("1760000000.") {
		t.Errorf("%d of %d bytes", len(out.Content), out.ContentSize)
	}
	x.body = bytes.Replace(body, []byte(":"), []byte(": "), 1)
	x.wantFinding(t, "large", "no_cause")
	x.signing.SignedContent, x.body = "{body}", body
	x.change = func(h http.Header) { h.Set(stripeHeader, "t=1760000000,"+h.Get(stripeHeader)) }
	x.wantFinding(t, "large, without the timestamp", "no_cause")
	x.signed, x.body = []byte("{}"), []byte("{}")
	x.wantFinding(t, "small, without the timestamp", "content")
}

// The signatures that are read, and the characters of a secret that are shown, are limited.
func TestExplainBounds(t *testing.T) {
	list := strings.Repeat(strings.Repeat("ab", 32)+" ", maxReceived+1)
	is.Equal(t, len(receivedMACs(list)), maxReceived, "signatures")
	for secret, want := range map[string]string{"elevenbytes": "", "twelve bytes": "ytes"} {
		x := imitate(GitHub, secret)
		is.Equal(t, x.explain(t).Secrets[0].Last4, want, "%q shows", secret)
	}
}

// For a request without a signature the explanation names the headers of Standard Webhooks.
func TestExplainNamesHeaders(t *testing.T) {
	c := Config{Type: StandardWebhooks, Secrets: []string{otherSecret}, Tolerance: DefaultTolerance}
	want := []string{"Webhook-Signature", "Webhook-Timestamp", "Webhook-Id"}
	if out := Explain(c, Request{Now: explained}); !slices.Equal(out.Headers, want) {
		t.Errorf("%q, want %q", out.Headers, want)
	}
	out := Explain(Config{Type: HMAC, Secrets: []string{"x"}, SignedContent: "{body}{body}"}, Request{})
	if out.Reason == "" || out.Findings[0].Code != "unknown_scheme" {
		t.Errorf("%+v", out)
	}
}

// For any request, Explain agrees with Check, and shows no more than the beginning of a signature.
func FuzzExplain(f *testing.F) {
	for scheme := range imitations {
		_, r := signed(f, scheme, []byte(`{"a": 1}`))
		f.Add(scheme, headerOf(scheme), r.Header.Get(headerOf(scheme)), "1760000000", r.Body)
		f.Add(scheme, headerOf(scheme), "t=1,t=2, =,v1=,sha256=", "x", []byte("\xff"))
	}
	f.Add(Twilio, twilioHeader, "x", "a?bodySHA256=", []byte("a=%"))
	f.Fuzz(func(t *testing.T, scheme, header, value, stamp string, body []byte) {
		c := Config{Type: scheme, Secrets: []string{hexBase64, "another secret"}, Tolerance: DefaultTolerance}
		r := Request{URL: stamp, Body: body, Now: explained, Header: http.Header{
			http.CanonicalHeaderKey(header): {value}, slackTimeHeader: {stamp}, "Webhook-Id": {"x"},
			"Webhook-Timestamp": {stamp},
		}}
		out := Explain(c, r)
		matches := false
		for _, s := range out.Secrets {
			matches = matches || s.Matches
			if len(s.ExpectedPrefix) > 8 {
				t.Errorf("%q", s.ExpectedPrefix)
			}
		}
		if out.Reason != Check(c, r) || len(out.Findings) == 0 != (out.Reason == "") ||
			ByName(scheme).Signs() && matches != (CheckIgnoringAge(c, r) == "") || len(out.Content) > maxShownContent {
			t.Errorf("%+v", out)
		}
	})
}

// BenchmarkExplain explains a request that no mistake explains, with three secrets.
func BenchmarkExplain(b *testing.B) {
	for name, size := range map[string]int{"1KB": 1 << 10, "60KB": 50 << 10, "10MB": 9 << 20} {
		b.Run(name, func(b *testing.B) {
			c, r := signed(b, Stripe, []byte("{}"))
			c.Secrets = []string{"one secret of the test", "two secrets of the test", "three secrets of the test"}
			r.Body = []byte(`{"a":[` + strings.Repeat(`{"b":"äöü","c":1},`, size/20) + `0]}`)
			b.ReportAllocs()
			for b.Loop() {
				if out := Explain(c, r); out.Findings[0].Code != "no_cause" {
					b.Fatalf("%v", out.Findings)
				}
			}
		})
	}
}

func base64SHA1() macForm { return formOf("sha1", base64Text) }
