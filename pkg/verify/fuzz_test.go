package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	stripewebhook "github.com/stripe/stripe-go/v82/webhook"

	"github.com/eventrelay/relay/test/must"
)

// For any header, an accepted request contains the signature that Stripe's own library computes.
func FuzzStripe(f *testing.F) {
	c, r := pick(f, Stripe)
	good := r.Header.Get("Stripe-Signature")
	for _, header := range []string{
		good, "", "t=1,v1=", "t=1760000000,v1=00,v1=00", good + ",v0=x", good + "," + good, ",,=,t==", "ts=1;v1=2"} {
		f.Add(header, r.Body)
	}
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		at, _, reason := c.checkSignature(Request{Header: http.Header{"Stripe-Signature": {header}}, Body: body})
		if reason != "" {
			return
		}
		if mac := hex.EncodeToString(stripewebhook.ComputeSignature(at, body, c.Secrets[0])); !strings.Contains(
			header, "v1="+mac) {
			t.Fatalf("accepted %q for %q", header, body)
		}
	})
}

// For any headers, the reference library of Standard Webhooks accepts each request that Check accepts.
func FuzzStandardWebhooks(f *testing.F) {
	c, r := pick(f, StandardWebhooks)
	library := must.Get(standardwebhooks.NewWebhook(c.Secrets[0]))(f)
	id, stamp, list := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), r.Header.Get("Webhook-Signature")
	f.Add(id, stamp, list, r.Body)
	f.Add(id, stamp, "v1a,x v1,"+strings.Repeat("A", 44)+" "+list, r.Body)
	f.Add(id+"."+stamp, "1", "v1, v1 ,v1,,", []byte{})
	f.Add("", "-1", " ", []byte("x"))
	f.Fuzz(func(t *testing.T, id, stamp, list string, body []byte) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {list}}
		if CheckIgnoringAge(c, Request{Header: h, Body: body}) != "" {
			return
		}
		must.Do(t, library.VerifyIgnoringTimestamp(body, h), "accepted %q %q %q for %q", id, stamp, list, body)
	})
}

// Any body signed in any scheme is accepted. If any byte of the body or of a signature header changes, it is rejected.
func FuzzMutation(f *testing.F) {
	headers := maps.Clone(signatureHeaders)
	headers[HMAC] = []string{"X-Signature"}
	schemes := slices.DeleteFunc(Types(), func(s string) bool {
		return !ByName(s).CanSign() || !coversBody(s) || s == "linear"
	})
	for i := range schemes {
		f.Add(i, []byte(`{"type":"a.b","data":{}}`), uint(i), byte(1))
		f.Add(i, []byte("\xff\x00&=%"), uint(3), byte(0x20))
		f.Add(i, []byte("1760000000.x"), uint(70), byte(0x80))
	}
	f.Fuzz(func(t *testing.T, i int, body []byte, at uint, mask byte) {
		if i < 0 || i >= len(schemes) || mask == 0 {
			t.Skip("no such scheme, or no change")
		}
		c, r := signed(t, schemes[i], body)
		must.Equal(t, CheckIgnoringAge(c, r), "", "%s: own signature is rejected", c.Type)
		if len(body) > 0 {
			changed := r
			changed.Body = slices.Clone(body)
			changed.Body[at%uint(len(body))] ^= mask
			if CheckIgnoringAge(c, changed) == "" {
				t.Fatalf("%s: accepted %q for %q", c.Type, changed.Body, body)
			}
		}
		for _, name := range headers[c.Type] {
			if value := []byte(r.Header.Get(name)); len(value) > 0 {
				value[at%uint(len(value))] ^= mask
				changed := r
				changed.Header = r.Header.Clone()
				changed.Header.Set(name, string(value))
				if CheckIgnoringAge(c, changed) == "" {
					t.Fatalf("%s: accepted %s %q", c.Type, name, value)
				}
			}
		}
	})
}

// signed returns a signed request with any bytes as its body; the providers' libraries accept only text.
func signed(t testing.TB, scheme string, body []byte) (Config, Request) {
	t.Helper()
	const secret, stamp = otherSecret, "1760000000"
	key := must.Get(decodeStandardSecret(secret))(t)
	sum := sha256.Sum256(body)
	r := Request{URL: "https://h/?bodySHA256=" + hex.EncodeToString(sum[:]), Body: body, Now: time.Unix(1760000000, 0)}
	mac := func(form macForm, key, head string) string {
		return string(form.appendMAC(nil, key, message{head: head, body: body}))
	}
	switch scheme {
	case Stripe:
		r.Header = http.Header{"Stripe-Signature": {"t=" + stamp + ",v1=" + mac(hexSHA256(), secret, stamp+".")}}
	case GitHub:
		r.Header = http.Header{"X-Hub-Signature-256": {"sha256=" + mac(hexSHA256(), secret, "")}}
	case Shopify:
		r.Header = http.Header{"X-Shopify-Hmac-Sha256": {mac(base64SHA256(), secret, "")}}
	case Slack:
		r.Header = http.Header{
			"X-Slack-Signature": {"v0=" + mac(hexSHA256(), secret, "v0:"+stamp+":")}, "X-Slack-Request-Timestamp": {stamp},
		}
	case Twilio:
		r.Header = http.Header{"X-Twilio-Signature": {string(base64SHA1().appendMAC(nil, secret, message{head: r.URL}))}}
	case StandardWebhooks:
		r.Header = http.Header{
			"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {stamp},
			"Webhook-Signature": {"v1," + mac(base64SHA256(), key, "msg_1."+stamp+".")},
		}
	case HMAC:
		r.Header = http.Header{"X-Signature": {mac(hexSHA256(), secret, "")}}
	default:
		r.Header = http.Header{"Webhook-Id": {"msg_1"}}
		for _, name := range ByName(scheme).layout.required {
			r.Header.Set(name, "1")
		}
		must.Do(t, Sign(Config{Type: scheme, Secrets: []string{secret}}, r))
	}
	return Config{Type: scheme, Secrets: []string{secret}, Tolerance: DefaultTolerance}, r
}

// signedFields decodes and sorts a form as net/url and a plain sort do.
func FuzzTwilioForm(f *testing.F) {
	all, _ := vectors(f)
	for _, v := range all {
		if v.Type == Twilio {
			f.Add([]byte(v.Body))
		}
	}
	f.Add([]byte("a=%&%zz=+&=&&a"))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, ok := signedFields(body)
		values, err := url.ParseQuery(string(body))
		if strings.Contains(string(body), ";") || strings.Count(string(body), "&") >= maxFormFields {
			return // net/url rejects the former, signedFields the latter
		}
		must.Equal(t, ok, err == nil, "%q: ok: net/url says %v", body, err)
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(values)) {
			slices.Sort(values[name])
			for _, value := range slices.Compact(values[name]) {
				text.WriteString(name + value)
			}
		}
		if ok && string(got) != text.String() {
			t.Fatalf("%q: got %q, want %q", body, got, text.String())
		}
	})
}

// All spellings of a URL are equivalent, apart from the port.
func FuzzTwilioURL(f *testing.F) {
	for _, address := range []string{
		"h/in/t?a=1&b=%20+", "[::1]:80?x", "h:/", "", "h?%", "h/?a=b?c=d", "u:p@h:8443/", "?://",
	} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		address = "https://" + address
		spellings := signedURLs(address)
		if len(spellings) == 0 || len(spellings) > 4 {
			t.Fatalf("%d spellings", len(spellings))
		}
		_, query, _ := strings.Cut(address, "?")
		first, err := url.ParseQuery(query)
		for _, each := range spellings {
			if _, q, _ := strings.Cut(each, "?"); err == nil {
				if values, err := url.ParseQuery(q); err != nil || values.Encode() != first.Encode() {
					t.Fatalf("%q became %q", address, each)
				}
			}
		}
	})
}

// A valid configuration accepts what is signed with it and nothing else. No configuration causes a panic.
func FuzzHMAC(f *testing.F) {
	f.Add("{body}", "", "deadbeef", "", []byte("x"))
	f.Add("{timestamp}.{body}", "v1=", "t=1760000000,v1=00", "", []byte("{}"))
	f.Add("v0:{timestamp:X-Ts}:{body}", "v0=", "v0=00", "1760000000000", []byte{})
	f.Add("{timestamp:X-Ts}{body}", "v0=", "v0=00", "2025-10-09T08:53:20Z", []byte{})
	f.Add("{timestamp:X-Ts}.{body}.{timestamp:X-Ts}", "h1=", "ts=1;h1=", "1", []byte{0xff})
	f.Add("{{body}}{timestamp", "t=", ",;", "", []byte{})
	f.Fuzz(func(t *testing.T, content, prefix, header, stamp string, body []byte) {
		c := Config{Type: HMAC, Secrets: []string{"k"}, Tolerance: DefaultTolerance, SignedContent: content, Prefix: prefix}
		r := Request{Header: http.Header{"X-Signature": {header}, "X-Ts": {stamp}}, Body: body}
		valid := c.Validate() == nil
		if CheckIgnoringAge(c, r) == "" && !valid {
			t.Fatalf("%+v accepted %q", c, header)
		}
		tpl, err := parseTemplate(c.template())
		if !valid || err != nil || len(prefix) > maxPrefix {
			return
		}
		if tpl.timestampInList() || tpl.header == "" {
			stamp = "1760000000"
		}
		if _, ok := parseCustomTime(stamp, tpl.timestampTouchesBody()); !ok || len(stamp) > maxHeader {
			return
		}
		mac := string(hexSHA256().appendMAC(nil, "k", tpl.render(stamp, body)))
		header = prefix + mac
		if tpl.timestampInList() {
			header = "t=" + stamp + "," + header
		}
		r.Header = http.Header{"X-Signature": {header}}
		if tpl.header != "" {
			r.Header.Set(tpl.header, stamp)
		}
		if http.CanonicalHeaderKey(tpl.header) == "X-Signature" {
			return // the signature would cover itself
		}
		must.Equal(t, CheckIgnoringAge(c, r), "", "%+v: own signature %q is rejected", c, header)
		r.Body = append(slices.Clone(body), 'x')
		if CheckIgnoringAge(c, r) == "" {
			t.Fatalf("%+v accepted a longer body", c)
		}
	})
}

func FuzzChallenge(f *testing.F) {
	f.Add("GET", "https://h/?hub.challenge=1", []byte{})
	f.Add("GET", "https://h/?challenge=%41%zz&challenge=a", []byte{})
	f.Add("POST", "https://h/", []byte(`{"type":"url_verification","challenge":"a"}`))
	f.Add("POST", "", []byte(`{"type":"url_verification","challenge":"<script>"}`))
	safe := regexp.MustCompile(`^[A-Za-z0-9._~+/=-]{1,512}$`)
	f.Fuzz(func(t *testing.T, method, address string, body []byte) {
		if text, ok := Challenge(Request{Method: method, URL: address, Body: body}); ok != safe.MatchString(text) {
			t.Fatalf("%v %q", ok, text)
		}
	})
}
