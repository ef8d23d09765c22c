package verify

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func want(t *testing.T, c Config, r Request, reason Reason) {
	t.Helper()
	is.Equal(t, Check(c, r), reason, "got")
}

// hexMAC returns the HMAC-SHA256 in hex, for requests that no library signs.
func hexMAC(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// pick returns the first vector of a scheme.
func pick(t testing.TB, scheme string) (Config, Request) {
	t.Helper()
	all, now := vectors(t)
	for _, v := range all {
		if v.Type == scheme {
			return v.config(), v.request(now)
		}
	}
	t.Fatalf("no vector of %s", scheme)
	return Config{}, Request{}
}

func TestMissingHeaders(t *testing.T) {
	for scheme, names := range signatureHeaders {
		t.Run(scheme, func(t *testing.T) {
			c, r := pick(t, scheme)
			want(t, c, Request{Header: http.Header{}, Body: r.Body, Now: r.Now}, SignatureMissing)
			want(t, c, Request{Body: r.Body, Now: r.Now}, SignatureMissing)
			for _, name := range names {
				if r.Header.Get(name) == "" {
					continue // the other spelling of Standard Webhooks
				}
				without := r
				without.Header = r.Header.Clone()
				without.Header.Del(name)
				want(t, c, without, SignatureMissing)
				without.Header.Set(name, "")
				want(t, c, without, SignatureMissing)
			}
		})
	}
}

func TestMalformedHeaders(t *testing.T) {
	for scheme, names := range signatureHeaders {
		t.Run(scheme, func(t *testing.T) {
			c, r := pick(t, scheme)
			for _, name := range names {
				value := r.Header.Get(name)
				if value == "" {
					continue // the other spelling of Standard Webhooks
				}
				changed := r
				changed.Header = r.Header.Clone()
				for _, values := range [][]string{{value, value}, {value, ""}, {"", value}, {"x", value}} {
					changed.Header[http.CanonicalHeaderKey(name)] = values
					want(t, c, changed, SignatureMalformed)
				}
				changed.Header.Set(name, value+strings.Repeat(" ", maxHeader))
				want(t, c, changed, SignatureMalformed)
			}
		})
	}
}

func TestMalformedSignatures(t *testing.T) {
	f := func(scheme, name, value string) {
		t.Helper()
		c, r := pick(t, scheme)
		r.Header.Set(name, value)
		want(t, c, r, SignatureMalformed)
	}
	mac := strings.Repeat("ab", sha256.Size)
	f(Stripe, "Stripe-Signature", "x")
	f(Stripe, "Stripe-Signature", "t=1760000000")
	f(Stripe, "Stripe-Signature", "v1="+mac)
	f(Stripe, "Stripe-Signature", "t=,v1="+mac)
	f(Stripe, "Stripe-Signature", "t=+1760000000,v1="+mac)
	f(Stripe, "Stripe-Signature", "t=1760000000000,v1="+mac)
	f(Stripe, "Stripe-Signature", "t=1760000000,v0="+mac)
	f(Stripe, "Stripe-Signature", "t=1760000000,v1="+mac[1:])
	f(Stripe, "Stripe-Signature", "t=1760000000,v1="+strings.ToUpper(mac))
	f(Stripe, "Stripe-Signature", "t=1760000000,t=1760000000,v1="+mac)
	f(GitHub, "X-Hub-Signature-256", mac)
	f(GitHub, "X-Hub-Signature-256", "sha256=")
	f(GitHub, "X-Hub-Signature-256", "sha1="+mac[:40])
	f(GitHub, "X-Hub-Signature-256", "sha256="+mac+" ")
	f(GitHub, "X-Hub-Signature-256", "sha256="+strings.Replace(mac, "a", "g", 1))
	f(Shopify, "X-Shopify-Hmac-Sha256", mac)
	f(Shopify, "X-Shopify-Hmac-Sha256", strings.Repeat("-", 44))
	f(Slack, "X-Slack-Signature", "v1="+mac)
	f(Slack, "X-Slack-Signature", "v0="+mac[1:])
	f(Slack, "X-Slack-Request-Timestamp", "soon")
	f(Slack, "X-Slack-Request-Timestamp", "-1760000000")
	f(Slack, "X-Slack-Request-Timestamp", strings.Repeat("1", 13))
	f(Twilio, "X-Twilio-Signature", mac)
	f(StandardWebhooks, "Webhook-Signature", mac)
	f(StandardWebhooks, "Webhook-Signature", "v1,")
	f(StandardWebhooks, "Webhook-Signature", "v1a,"+strings.Repeat("A", 44))
	f(StandardWebhooks, "Webhook-Timestamp", "1760000000.5")
	f(StandardWebhooks, "Webhook-Id", "msg.1760000000")
	f(StandardWebhooks, "Webhook-Id", "msg.a.1.b")
}

// Invalid configurations accept nothing, not even a signature by the empty key.
func TestBrokenConfigurationsAcceptNothing(t *testing.T) {
	now := time.Unix(1760000000, 0)
	r := Request{Body: []byte("body"), Now: now, Header: http.Header{}}
	r.Header.Set("X-Hub-Signature-256", "sha256="+hexMAC("", "body"))
	r.Header.Set("X-Signature", hexMAC("", "body"))
	f := func(c Config) {
		t.Helper()
		if c.Validate() == nil {
			t.Error("configuration is valid")
		}
		want(t, c, r, SignatureMismatch)
	}
	f(Config{})
	f(Config{Type: "hmac2", Secrets: []string{"s"}})
	f(Config{Type: GitHub})
	f(Config{Type: GitHub, Secrets: []string{"", ""}})
	f(Config{Type: HMAC, Secrets: []string{""}})
	r.Header.Set("X-Signature", hexMAC("s", "body"))
	f(Config{Type: HMAC, Secrets: []string{"s"}, Algorithm: "md5"})
	f(Config{Type: HMAC, Secrets: []string{"s"}, Encoding: "base32"})
	f(Config{Type: HMAC, Secrets: []string{"s"}, SignedContent: "body"})
	f(Config{Type: HMAC, Secrets: []string{"s"}, SignedContent: "{body}{body}"})
	r.Header.Set("X-Signature", hexMAC("s", "body{url}"))
	f(Config{Type: HMAC, Secrets: []string{"s"}, SignedContent: "{body}{url}"})

	c, r := pick(t, StandardWebhooks)
	c.Secrets = []string{"whsec_%%%", "whsec_"}
	want(t, c, r, SignatureMismatch)
	// A secret with an invalid character has no key, not even the bytes before that character.
	c, r = signed(t, StandardWebhooks, []byte("{}"))
	c.Secrets[0] += "!"
	want(t, c, r, SignatureMismatch)
	if s := Explain(c, r).Secrets[0]; s.Matches || s.ExpectedPrefix != "" {
		t.Errorf("a secret that is not base64 gives %+v", s)
	}
}

// Check accepts what Sign makes for every provider.
func TestSignedRequestsAreAccepted(t *testing.T) {
	for _, scheme := range Types() {
		if !ByName(scheme).CanSign() || len(ByName(scheme).layout.paths) > 0 { // those need a time in the body
			continue
		}
		c := Config{Type: scheme, Secrets: []string{otherSecret}, Tolerance: DefaultTolerance}
		r := Request{URL: "https://h/in", Header: http.Header{"Webhook-Id": {"msg_1"}}, Body: []byte("a=1"),
			Now: time.Unix(1760000000, 0)}
		for _, name := range ByName(scheme).layout.required {
			r.Header.Set(name, "1")
		}
		is.OK(t, Sign(c, r), scheme)
		want(t, c, r, "")
		c.Secrets = nil
		if Sign(c, r) == nil {
			t.Errorf("%s signs without a secret", scheme)
		}
	}
	for scheme, fault := range map[string]string{
		Generic: "unknown scheme", Twilio: "not a form", StandardWebhooks: "base64"} {
		c := Config{Type: scheme, Secrets: []string{"whsec_%"}}
		err := Sign(c, Request{Header: http.Header{}, Body: []byte("%")})
		is.Failed(t, err, fault, scheme)
	}
}

// A header of maxHeader bytes is read.
func TestHeaderBound(t *testing.T) {
	h := http.Header{"A": {strings.Repeat("x", maxHeader)}, "B": {strings.Repeat("x", maxHeader+1)}}
	if s, reason := singleValue(h, "A"); len(s) != maxHeader || reason != "" {
		t.Errorf("%d bytes, %q", len(s), reason)
	}
	if s, reason := singleValue(h, "B"); s != "" || reason != SignatureMalformed {
		t.Errorf("%d bytes, %q", len(s), reason)
	}
}

func TestStripeRollsSecrets(t *testing.T) {
	c, r := pick(t, Stripe)
	good := r.Header.Get("Stripe-Signature")
	stamp, mac, _ := strings.Cut(good, ",")
	other := "v1=" + strings.Repeat("0", 64)
	for _, value := range []string{
		stamp + "," + other + "," + mac, stamp + "," + mac + "," + other, mac + "," + stamp,
		stamp + ",v0=" + other + ",scheme=x,," + mac,
	} {
		r.Header.Set("Stripe-Signature", value)
		want(t, c, r, "")
	}
	// many signatures are compared, but the body is hashed once per secret
	r.Header.Set("Stripe-Signature", stamp+strings.Repeat(","+other, 50))
	want(t, c, r, SignatureMismatch)
}

// The id by which destinations deduplicate must be the signed one, whichever of both names they read.
func TestStandardIDsAgree(t *testing.T) {
	c := Config{Type: StandardWebhooks, Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
		Tolerance: DefaultTolerance}
	r := Request{Header: http.Header{"Webhook-Id": {"msg_1"}}, Body: []byte("{}"), Now: time.Unix(1760000000, 0)}
	must.Do(t, Sign(c, r))
	r.Header.Set("Svix-Id", "msg_1")
	want(t, c, r, "")
	r.Header.Set("Svix-Id", "msg_2")
	want(t, c, r, SignatureMalformed)
}

// WooCommerce makes its delivery id from the webhook and the second, so two orders can have the same one.
func TestNoDedupByAnIDOfTheSecond(t *testing.T) {
	is.Equal(t, ByName("woocommerce").Dedup, "", "deduplicates by")
}

// Headers named webhook-… and svix-… are not combined.
func TestStandardWebhooksSpellingsDoNotMix(t *testing.T) {
	c, r := pick(t, StandardWebhooks)
	svix := http.Header{}
	for name, values := range r.Header {
		svix["Svix-"+strings.TrimPrefix(name, "Webhook-")] = values
	}
	r.Header = svix
	want(t, c, r, "")
	r.Header = svix.Clone()
	r.Header.Set("Webhook-Id", "msg_another")
	want(t, c, r, SignatureMissing)
}

func TestStandardWebhooksIDs(t *testing.T) {
	c, r := pick(t, StandardWebhooks)
	key := must.Get(decodeStandardSecret(c.Secrets[0]))(t)
	id := "evt.order.created" // not recommended, but unambiguous
	m := message{head: id + ".1760000000.", body: r.Body}
	r.Header.Set("Webhook-Id", id)
	r.Header.Set("Webhook-Signature", "v1,"+string(base64SHA256().appendMAC(nil, key, m)))
	want(t, c, r, "")

	c.Secrets = []string{strings.TrimPrefix(c.Secrets[0], "whsec_")}
	want(t, c, r, "")
}

func TestCheckDoesNotChangeTheRequest(t *testing.T) {
	all, now := vectors(t)
	for _, v := range all {
		r := v.request(now)
		body := bytes.Clone(r.Body)
		want(t, v.config(), r, "")
		if !bytes.Equal(body, r.Body) {
			t.Errorf("%s: the body was changed", v.Name)
		}
	}
}

// faults returns the invalid members, in order.
func faults(err error) []string {
	var params []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, each := range joined.Unwrap() {
			var fault *Fault
			if errors.As(each, &fault) {
				params = append(params, fault.Param)
			}
		}
	}
	return params
}

func TestValidate(t *testing.T) {
	f := func(change func(*Config), params ...string) {
		t.Helper()
		c := Config{Type: HMAC, Secrets: []string{"s3cret"}, Tolerance: DefaultTolerance}
		change(&c)
		is.Equal(t, cmp.Diff(params, faults(c.Validate())), "", "%+v: params (-want +got)", c)
	}
	f(func(*Config) {})
	f(func(c *Config) { *c = Config{} }, "type", "secret", "tolerance_seconds")

	for _, scheme := range []string{Stripe, GitHub, Shopify, Slack, Twilio, StandardWebhooks, HMAC} {
		f(func(c *Config) { c.Type, c.Secrets = scheme, []string{otherSecret} })
	}
	f(func(c *Config) { c.Type = "generic" }, "type")
	f(func(c *Config) { c.Type = "Stripe" }, "type")

	f(func(c *Config) { c.Secrets = []string{"a", "b", "c"} })
	f(func(c *Config) { c.Secrets = []string{"a", "b", "c", "d"} }, "secrets")
	f(func(c *Config) { c.Secrets = []string{""} }, "secret")
	f(func(c *Config) { c.Secrets = []string{"a", " b", "c\n"} }, "secrets[1]", "secrets[2]")
	f(func(c *Config) { c.Secrets = []string{"a\xff"} }, "secret")
	f(func(c *Config) { c.Secrets = []string{"a\nb"} }, "secret")
	f(func(c *Config) { c.Secrets = []string{strings.Repeat("a", MaxSecret)} })
	f(func(c *Config) { c.Secrets = []string{strings.Repeat("a", MaxSecret+1)} }, "secret")
	f(func(c *Config) { c.Secrets = []string{"größe"} })
	f(func(c *Config) { c.Type, c.Secrets = StandardWebhooks, []string{otherSecret, otherSecret[6:]} })
	f(func(c *Config) { c.Type, c.Secrets = StandardWebhooks, []string{"s3cret"} }, "secret")
	f(func(c *Config) { c.Type, c.Secrets = StandardWebhooks, []string{"whsec_", otherSecret} }, "secrets[0]")

	f(func(c *Config) { c.Tolerance = 0 }, "tolerance_seconds")
	f(func(c *Config) { c.Tolerance = -time.Second }, "tolerance_seconds")
	f(func(c *Config) { c.Tolerance = time.Second })
	f(func(c *Config) { c.Tolerance = 24 * time.Hour })
	f(func(c *Config) { c.Tolerance = 24*time.Hour + 1 }, "tolerance_seconds")

	f(func(c *Config) {
		c.Header, c.Algorithm, c.Encoding, c.Prefix = "X-Acme-Signature", "sha512", "base64", "HMAC "
	})
	f(func(c *Config) { c.Header = "X-AZ-az-09" })
	f(func(c *Config) { c.Header = strings.Repeat("x", maxName) })
	f(func(c *Config) { c.Header = "X Acme" }, "header")
	f(func(c *Config) { c.Header = "X-Größe" }, "header")
	f(func(c *Config) { c.Header = strings.Repeat("x", maxName+1) }, "header")
	f(func(c *Config) { c.Algorithm = "md5" }, "algorithm")
	f(func(c *Config) { c.Encoding = "base32" }, "encoding")
	f(func(c *Config) { c.Prefix = " sha256=" }, "prefix")
	f(func(c *Config) { c.Prefix = "sha256\t" }, "prefix")
	f(func(c *Config) { c.Prefix = "größe=" }, "prefix")
	f(func(c *Config) { c.Prefix = "\x7f" }, "prefix")
	f(func(c *Config) { c.Prefix = strings.Repeat("~", maxPrefix) })
	f(func(c *Config) { c.Prefix = strings.Repeat("x", maxPrefix+1) }, "prefix")

	f(func(c *Config) { c.SignedContent = "{timestamp}.{body}" })
	f(func(c *Config) { c.SignedContent = "v0:{timestamp:X-Ts}:{body}:{timestamp:X-Ts}" })
	f(func(c *Config) { c.SignedContent = "body" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{timestamp}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{body}{body}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{body}{url}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{timestamp{body}}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{body}{timestamp" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{timestamps}{body}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{timestamp:}{body}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{timestamp:X Ts}{body}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{timestamp}{timestamp:X-Ts}{body}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{body}" + strings.Repeat("x", maxTemplate-6) })
	f(func(c *Config) { c.SignedContent = "{body}" + strings.Repeat("x", maxTemplate-5) }, "signed_content")
	f(func(c *Config) { c.SignedContent, c.Prefix = "{timestamp}.{body}", "a,b=" }, "prefix")
	f(func(c *Config) { c.SignedContent, c.Prefix = "{timestamp}.{body}", "t=" }, "prefix")
	f(func(c *Config) { c.SignedContent, c.Prefix = "{timestamp:X-Ts}.{body}", "t=" })

	// Other schemes ignore the members of the configurable scheme.
	f(func(c *Config) { c.Type, c.Algorithm, c.Header, c.SignedContent = Stripe, "md5", "X Y", "x" })
}

func TestFaultsDoNotContainSecrets(t *testing.T) {
	c := Config{Type: StandardWebhooks, Secrets: []string{"whsec_hunter2\x00", strings.Repeat("hunter2", 100), "hunter2 "}}
	is.Lacks(t, c.Validate().Error(), "hunter2")
}

func TestChallenge(t *testing.T) {
	const hook = "https://relay.example.com/in/tok"
	f := func(method, query, body, want string) {
		t.Helper()
		got, ok := Challenge(Request{Method: method, URL: hook + query, Body: []byte(body)})
		if got != want || ok != (want != "") {
			t.Errorf("%s %s %s: got %q %v, want %q", method, query, body, got, ok, want)
		}
	}
	// The examples of the providers' documentation.
	f(http.MethodPost, "", `{"token":"Jhj5dZrVaK7ZwHHjRyZWjbDl",`+
		`"challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}`,
		"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P")
	f(http.MethodGet, "?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=meatyhamhock", "", "1158201444")
	f(http.MethodGet, "?challenge=xG6iDZ-dropbox_1", "", "xG6iDZ-dropbox_1")

	f(http.MethodGet, "?challenge=a%2Bb%3D", "", "a+b=")
	f(http.MethodGet, "?challenge=one&hub.challenge=two", "", "two")
	f(http.MethodGet, "?challenge=one&challenge=two", "", "one")
	f(http.MethodGet, "?challenge="+strings.Repeat("%41", maxChallenge), "", strings.Repeat("A", maxChallenge))

	f(http.MethodGet, "", "", "")
	f(http.MethodGet, "?challenge=", "", "")
	f(http.MethodGet, "?xchallenge=a&hub.challenges=b", "", "")
	f(http.MethodGet, "?challenge=%zz", "", "")
	f(http.MethodGet, "?hub.challenge=%zz&challenge=a", "", "a")
	f(http.MethodGet, "?challenge=a+b", "", "")
	f(http.MethodGet, "?challenge=a{b}", "", "")
	f(http.MethodGet, "?challenge=a[b]", "", "")
	f(http.MethodGet, "?challenge=%3Cscript%3E", "", "")
	f(http.MethodGet, "?challenge=a%0d%0ab", "", "")
	f(http.MethodGet, "?challenge="+strings.Repeat("a", maxChallenge+1), "", "")
	f(http.MethodGet, "?challenge="+strings.Repeat("%41", maxChallenge+1), "", "")
	f(http.MethodGet, "", `{"type":"url_verification","challenge":"a"}`, "")
	f(http.MethodHead, "?challenge=a", "", "")
	f(http.MethodPost, "?challenge=a", "", "")
	f(http.MethodPut, "", `{"type":"url_verification","challenge":"a"}`, "")
	f(http.MethodPost, "", `{"type":"event_callback","challenge":"a","x":"url_verification"}`, "")
	f(http.MethodPost, "", `{"type":"url_verification","challenge":"<b>"}`, "")
	f(http.MethodPost, "", `{"type":"url_verification","challenge":1}`, "")
	f(http.MethodPost, "", `{"type":"url_verification"}`, "")
	f(http.MethodPost, "", `url_verification`, "")
	f(http.MethodPost, "", `{"type":"url_verification","challenge":"a"`+strings.Repeat(" ", maxChallengeBody)+`}`, "")
}

// What a relay signs with an Ed25519 key, another relay verifies with the public key (v1a of Standard Webhooks), beside
// symmetric secrets. A public key makes no signature itself.
func TestPublicKeysOfStandardWebhooks(t *testing.T) {
	key, other, symmetric := sign.New(sign.Ed25519), sign.New(sign.Ed25519), sign.NewSecret()
	body, at := []byte(`{"type":"a"}`), time.Unix(1760000000, 0)
	signature := sign.Sign([]sign.Secret{key}, "msg_1", at, body)
	request := func(signature string) Request {
		return Request{Header: http.Header{"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {"1760000000"},
			"Webhook-Signature": {signature}}, Body: body, Now: at}
	}
	config := func(secrets ...string) Config {
		return Config{Type: StandardWebhooks, Secrets: secrets, Tolerance: DefaultTolerance}
	}
	c := config(*key.PublicText())
	is.OK(t, c.Validate(), "a public key")
	want(t, c, request(signature), "")
	want(t, config(*other.PublicText(), *key.PublicText()), request("v1,x "+signature), "")
	want(t, config(symmetric.Reveal(), *key.PublicText()),
		request(sign.Sign([]sign.Secret{symmetric}, "msg_1", at, body)), "")
	want(t, config(*other.PublicText()), request(signature), SignatureMismatch)
	want(t, config(symmetric.Reveal()), request(signature), SignatureMismatch)
	changed := request(signature)
	changed.Body = []byte(`{"type":"b"}`)
	want(t, c, changed, SignatureMismatch)
	public := []byte(key.PublicKey()) // as an HMAC key, which anyone could use
	forged := hmac.New(sha256.New, public)
	forged.Write([]byte("msg_1.1760000000." + string(body)))
	mac := base64.StdEncoding.EncodeToString(forged.Sum(nil))
	want(t, c, request("v1,"+mac), SignatureMismatch)
	is.Failed(t, Sign(c, request("")), "only the sender has the private key", "Sign")
	is.Equal(t, c.CanSign(), false, "can sign")
	is.Failed(t, config("whpk_AAAA").Validate(), "whpk_", "a short key")
	is.Failed(t, config("whsk_"+base64.StdEncoding.EncodeToString(make([]byte, 32))).Validate(), "whpk_", "a private key")
}

// HubSpot may decode some characters of the URL before it signs. Others stay.
func TestHubSpotDecodesTheURL(t *testing.T) {
	at := time.UnixMilli(1760000000000)
	f := func(signed, received string, reason Reason) {
		t.Helper()
		c := Config{Type: "hubspot", Secrets: []string{otherSecret}, Tolerance: DefaultTolerance}
		r := Request{Method: "POST", URL: "https://h/in/a?" + signed, Header: http.Header{}, Body: []byte("[]"), Now: at}
		must.Do(t, Sign(c, r))
		r.URL = "https://h/in/a?" + received
		want(t, c, r, reason)
	}
	const raw, decoded = "a=%3A%2F%3F%40%21%24%27%28%29%2A%2C%3B%26%20", "a=:/?@!$'()*,;%26%20"
	f(decoded, raw, "")
	f(raw, raw, "")
	f(raw, decoded, SignatureMismatch)
	f("a=:/?@!$'()*,;& ", raw, SignatureMismatch)
}
