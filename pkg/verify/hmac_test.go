package verify

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// RFC 4231 and RFC 2202, test case 2, with the key "Jefe" and the data below.
func TestHMACKnownAnswers(t *testing.T) {
	f := func(algorithm, mac string) {
		t.Helper()
		raw := must.Get(hex.DecodeString(mac))(t)
		for encoding, text := range map[string]string{"hex": mac, "base64": base64.StdEncoding.EncodeToString(raw)} {
			c := Config{Type: HMAC, Secrets: []string{"Jefe"}, Tolerance: DefaultTolerance, Algorithm: algorithm,
				Encoding: encoding}
			must.Do(t, c.Validate())
			r := Request{Body: []byte("what do ya want for nothing?"), Header: http.Header{"X-Signature": {text}}}
			want(t, c, r, "")
			r.Body[0] ^= 1
			want(t, c, r, SignatureMismatch)
		}
	}
	f("sha1", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79")
	f("sha256", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
	f(
		"sha512",
		"164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"+
			"9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737")
}

// The signature formats of real providers, each written as a configuration.
func TestHMACTemplates(t *testing.T) {
	const body, key = `{"a":1}`, "secret"
	now := time.Unix(1760000000, 250e6)
	f := func(c Config, signed string, headers ...string) {
		t.Helper()
		c.Type, c.Secrets, c.Tolerance = HMAC, []string{key}, DefaultTolerance
		is.OK(t, c.Validate(), c.SignedContent)
		r := Request{Body: []byte(body), Header: http.Header{}, Now: now}
		for i := 0; i < len(headers); i += 2 {
			value := headers[i+1]
			if i == 0 {
				value += hexMAC(key, signed)
			}
			r.Header.Add(headers[i], value)
		}
		want(t, c, r, "")
		stale := r
		stale.Now = now.Add(c.Tolerance + time.Second)
		stamped := strings.Contains(c.SignedContent, "{timestamp")
		want(t, c, stale, map[bool]Reason{true: TimestampOutsideTolerance}[stamped])
		forged := stale
		forged.Body = []byte("{}")
		want(t, c, forged, SignatureMismatch)
	}
	f(Config{}, body, "X-Signature", "")
	f(Config{Header: "x-acme-hmac", Prefix: "sha256="}, body, "X-Acme-Hmac", "sha256=")
	f(Config{SignedContent: "<{body}>"}, "<"+body+">", "X-Signature", "")
	f(Config{SignedContent: "{timestamp}.{body}", Prefix: "v1="}, "1760000000."+body, "X-Signature", "t=1760000000,v1=")
	f(Config{SignedContent: "{timestamp}.{body}", Prefix: "v1="}, "1760000000."+body, "X-Signature",
		"t=1760000000, v0=00, v1=")
	f(Config{SignedContent: "{timestamp}:{body}", Prefix: "h1="}, "1760000000:"+body, "X-Signature", "ts=1760000000;h1=")
	f(Config{SignedContent: "{timestamp}.{body}"}, "1760000000."+body, "X-Signature", "t=1760000000 ")
	f(Config{SignedContent: "v0:{timestamp:X-Ts}:{body}", Prefix: "v0="}, "v0:1760000000:"+body, "X-Signature", "v0=",
		"X-Ts", "1760000000")
	f(Config{SignedContent: "{body}.{timestamp:x-ts}"}, body+".1760000000000", "X-Signature", "", "X-Ts", "1760000000000")
	f(Config{SignedContent: "{timestamp:X-Ts}{body}"}, "2025-10-09T08:53:20Z"+body, "X-Signature", "", "X-Ts",
		"2025-10-09T08:53:20Z")
	f(Config{SignedContent: "{timestamp:X-Ts}{body}{timestamp:X-Ts}"}, "1760000000"+body+"1760000000", "X-Signature", "",
		"X-Ts", "1760000000")
}

func TestHMACFaults(t *testing.T) {
	mac := hexMAC("secret", "1760000000.x")
	f := func(reason Reason, content, signature string, more ...string) {
		t.Helper()
		c := Config{Type: HMAC, Secrets: []string{"secret"}, Tolerance: DefaultTolerance, SignedContent: content,
			Prefix: "v1="}
		h := http.Header{"X-Signature": {signature}}
		if len(more) > 0 {
			h["X-Ts"] = more
		}
		want(t, c, Request{Body: []byte("x"), Header: h, Now: time.Unix(1760000000, 0)}, reason)
	}
	f("", "{timestamp}.{body}", "t=1760000000,v1="+mac)
	f(SignatureMissing, "{timestamp}.{body}", "")
	f(SignatureMalformed, "{timestamp}.{body}", "v1="+mac)
	f(SignatureMalformed, "{timestamp}.{body}", "t=1760000000")
	f(SignatureMalformed, "{timestamp}.{body}", "t=1760000000,t=1,v1="+mac)
	f(SignatureMalformed, "{timestamp}.{body}", "t=1760000000,ts=1760000000,v1="+mac)
	f(SignatureMalformed, "{timestamp}.{body}", "t=yesterday,v1="+mac)
	f("", "{timestamp:X-Ts}.{body}", "v1="+mac, "1760000000")
	f(SignatureMissing, "{timestamp:X-Ts}.{body}", "v1="+mac)
	f(SignatureMalformed, "{timestamp:X-Ts}.{body}", "v1="+mac, "1760000000", "1760000000")
	f(SignatureMalformed, "{timestamp:X-Ts}.{body}", "v1="+mac, "0001-01-01T00:00:00Z")
	f(SignatureMalformed, "{timestamp:X-Ts}.{body}", "v1="+mac, "+176000000000")
	f(SignatureMalformed, "{timestamp:X-Ts}.{body}", mac, "1760000000")
	f(SignatureMismatch, "{timestamp:X-Ts}.{body}", "v1="+mac, "1760000001")
}

// Three digits that are moved from the body to an adjacent timestamp would turn seconds into milliseconds: of the same
// time if they follow the timestamp, of a later time if they precede it.
func TestHMACTimestampBesideTheBody(t *testing.T) {
	f := func(content, stamp, body string, now int64, reason Reason) {
		t.Helper()
		c := Config{Type: HMAC, Secrets: []string{"secret"}, Tolerance: DefaultTolerance, SignedContent: content}
		text := strings.NewReplacer("{timestamp:X-Ts}", stamp, "{body}", body).Replace(content)
		h := http.Header{"X-Signature": {hexMAC("secret", text)}, "X-Ts": {stamp}}
		want(t, c, Request{Body: []byte(body), Header: h, Now: time.Unix(now, 0)}, reason)
	}
	f("{timestamp:X-Ts}{body}", "1760000000", "123 items", 1760000000, "")
	f("{timestamp:X-Ts}{body}", "1760000000123", " items", 1760000000, SignatureMalformed)
	f("{timestamp:X-Ts}{body}", "176000000012", "3 items", 1760000000, TimestampOutsideTolerance)
	f("{timestamp:X-Ts}{body}", "176000000", "0123 items", 1760000000, TimestampOutsideTolerance)
	f("{body}{timestamp:X-Ts}", "1760000000", "items 176", 1760000000, "")
	f("{body}{timestamp:X-Ts}", "1761760000000", "items ", 1761760000, SignatureMalformed)
}

// Sign names what is wrong with a configuration that was not validated.
func TestHMACSignNamesTheFault(t *testing.T) {
	for want, c := range map[string]Config{
		`unknown algorithm "md5" or encoding "hex"`:       {Algorithm: "md5"},
		`unknown algorithm "sha256" or encoding "binary"`: {Encoding: "binary"},
		"signed_content has an open {timestamp without }": {SignedContent: "{body}{timestamp"},
	} {
		c.Type, c.Secrets, want = HMAC, []string{"secret"}, "sign: invalid hmac configuration: "+want
		if err := Sign(c, Request{Header: http.Header{}}); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
}
