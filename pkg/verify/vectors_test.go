package verify

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	stripewebhook "github.com/stripe/stripe-go/v82/webhook"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

const vendors, providers = "testdata/vendors", "testdata/providers"

// vector is a request that a provider's own library signed.
type vector struct {
	Name, Type, Secret, Method, URL, Body string
	Headers                               map[string]string
	// Source is the library and its version that accepts the vector, or the page of the provider that has the example.
	Source, Certificate string
}

func (v vector) config() Config {
	return Config{Type: v.Type, Secrets: []string{v.Secret}, Tolerance: DefaultTolerance}
}

func (v vector) request(now time.Time) Request {
	h := http.Header{}
	for name, value := range v.Headers {
		h.Set(name, value)
	}
	r := Request{Method: v.Method, URL: v.URL, Header: h, Body: []byte(v.Body), Now: now}
	if block, _ := pem.Decode([]byte(v.Certificate)); block != nil {
		if r.Certificate, _ = x509.ParseCertificate(block.Bytes); r.Certificate != nil {
			// The libraries do not look at it, and the vectors are older than their certificates.
			r.Certificate.NotBefore, r.Certificate.NotAfter = time.Time{}, now.AddDate(1000, 0, 0)
		}
	}
	return r
}

// signatureHeaders are the headers that contain a signature or are signed. A change of any byte in them must be
// rejected.
var signatureHeaders = func() map[string][]string {
	all := map[string][]string{}
	for _, s := range schemes {
		if s.Name == HMAC || !s.Signs() {
			continue
		}
		l := s.layout
		for _, place := range append([]string{l.header, l.idHeader, l.content.header}, l.required...) {
			if place != "" && place != l.certificate && !strings.HasPrefix(place, bodyPlace) {
				all[s.Name] = append(all[s.Name], place)
			}
		}
		if l.idHeader != "" {
			all[s.Name] = append(all[s.Name], "Svix-Id", "Svix-Timestamp", "Svix-Signature")
		}
	}
	return all
}()

// coversBody reports whether a signature covers the body: not a token, and not a signature of some fields.
func coversBody(scheme string) bool {
	l := ByName(scheme).layout
	return (l.form.isMAC() || l.form.check != nil) && (!l.content.noBody || slices.Contains(l.content.fields, "{crc32}"))
}

// isTimed reports whether a scheme checks the age.
func isTimed(scheme string) bool {
	l := ByName(scheme).layout
	return l.content.placeholder != "" && !l.ageless
}

// vectors returns all vectors: those of the npm and PyPI libraries are read from files, those of the Go modules are
// created here.
func vectors(t testing.TB) (all []vector, now time.Time) {
	t.Helper()
	for _, name := range []string{vendors + "/vectors.json", vendors + "/python.json", providers + "/vectors.json"} {
		text := must.Get(os.ReadFile(name))(t)
		var file struct {
			Now     int64
			Vectors []vector
		}
		must.Do(t, json.Unmarshal(text, &file))
		now = time.Unix(file.Now, 0)
		all = append(all, file.Vectors...)
	}
	return append(all, goVectors(t, now)...), now
}

// goVectors signs with the Go modules of Stripe and Standard Webhooks.
func goVectors(t testing.TB, now time.Time) []vector {
	t.Helper()
	const hook = "https://relay.example.com/in/tok"
	bodies := [][2]string{{"json", `{"id":"evt_1","object":"event"}`}, {"empty", ""}, {"bytes", "\x00\xff\xfe{\r\n"}}
	var out []vector
	for _, pair := range bodies {
		name, body := pair[0], pair[1]
		signed := stripewebhook.GenerateTestSignedPayload(&stripewebhook.UnsignedPayload{
			Payload: []byte(body), Secret: "whsec_test_secret", Timestamp: now,
		})
		out = append(out, vector{
			Name: "stripe/" + name, Type: Stripe, Secret: "whsec_test_secret", Method: http.MethodPost, URL: hook, Body: body,
			Headers: map[string]string{"Stripe-Signature": signed.Header},
		})
		const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		wh := must.Get(standardwebhooks.NewWebhook(secret))(t)
		signature := must.Get(wh.Sign("msg_1", now, []byte(body)))(t)
		out = append(out, vector{
			Name: "standard_webhooks/go-" + name, Type: StandardWebhooks, Secret: secret, Method: http.MethodPost, URL: hook,
			Body: body,
			Headers: map[string]string{
				"webhook-id": "msg_1", "webhook-timestamp": itoa(now.Unix()), "webhook-signature": signature},
		})
	}
	return out
}

func TestVendorSignaturesAreAccepted(t *testing.T) {
	all, now := vectors(t)
	seen := map[string]int{}
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			c, r := v.config(), v.request(now)
			must.Do(t, c.Validate())
			want(t, c, r, "")
			c.Secrets = []string{otherSecret, v.Secret}
			want(t, c, r, "")
			c.Secrets = []string{otherSecret}
			want(t, c, r, SignatureMismatch)
		})
		seen[v.Type]++
	}
	for _, scheme := range Types() {
		if scheme != HMAC && seen[scheme] == 0 { // no provider's library signs HMAC
			t.Errorf("%s has no vector", scheme)
		}
	}
}

// Every scheme of the list has a sample.
func TestEverySchemeIsComplete(t *testing.T) {
	if len(Providers()) != len(schemes) || len(Types()) != len(schemes)-1 || slices.Contains(Types(), Generic) {
		t.Errorf("providers %q, types %q", Providers(), Types())
	}
	for _, name := range Providers() {
		s := ByName(name)
		if s.Name != name || s.Sample.Body == "" {
			t.Errorf("%s: named %s, sample %q", name, s.Name, s.Sample.Body)
		}
	}
}

// otherSecret is well formed for every scheme.
const otherSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"

func TestVendorSignaturesAge(t *testing.T) {
	all, now := vectors(t)
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			c, r := v.config(), v.request(now)
			late := map[bool]Reason{true: TimestampOutsideTolerance}[isTimed(v.Type)]
			for offset, reason := range map[time.Duration]Reason{
				c.Tolerance: "", -c.Tolerance: "", c.Tolerance + time.Second: late, -c.Tolerance - time.Second: late,
				1e6 * time.Hour: late,
			} {
				r.Now = now.Add(offset)
				want(t, c, r, reason)
				is.Equal(t, CheckIgnoringAge(c, r), "", "ignoring age, %v", offset)
			}
			c.Secrets = []string{otherSecret}
			want(t, c, r, SignatureMismatch) // forged and too old: the reason is the signature
		})
	}
}

// Each bit of the body and of the signature headers is flipped in turn; every change is rejected.
func TestVendorSignaturesCoverEveryByte(t *testing.T) {
	all, now := vectors(t)
	for _, v := range all {
		if strings.HasSuffix(v.Name, "-rotating") || !coversBody(v.Type) {
			continue // one valid signature is enough, so the others may change
		}
		t.Run(v.Name, func(t *testing.T) {
			c := v.config()
			for i := range v.Body {
				for bit := range 8 {
					r := v.request(now)
					r.Body[i] ^= 1 << bit
					if CheckIgnoringAge(c, r) == "" && !sameForm(v, r.Body) {
						t.Fatalf("body changed to %q", r.Body)
					}
				}
			}
			for _, name := range signatureHeaders[v.Type] {
				value := v.request(now).Header.Get(name)
				for i := range value {
					for bit := range 8 {
						r := v.request(now)
						changed := []byte(value)
						changed[i] ^= 1 << bit
						r.Header.Set(name, string(changed))
						if CheckIgnoringAge(c, r) == "" {
							t.Fatalf("%s changed to %q", name, changed)
						}
					}
				}
			}
			for _, body := range []string{v.Body + "x", v.Body + "\x00", "x" + v.Body} {
				r := v.request(now)
				r.Body = []byte(body)
				if CheckIgnoringAge(c, r) == "" {
					t.Fatalf("body changed to %q", body)
				}
			}
		})
	}
}

// sameForm reports whether a Twilio form decodes to the same parameters. Twilio signs the decoded parameters, so `%2b`
// and `%2B` are equal.
func sameForm(v vector, body []byte) bool {
	if v.Type != Twilio || strings.Contains(v.URL, "bodySHA256") {
		return false
	}
	return formText(v.Body) == formText(string(body))
}

// formText returns the parameters as net/url decodes them, sorted and without duplicates.
func formText(body string) string {
	values, err := url.ParseQuery(body)
	if err != nil {
		return "broken: " + body
	}
	for name, list := range values {
		set := url.Values{}
		for _, value := range list {
			set.Set(value, "")
		}
		values[name] = []string{set.Encode()}
	}
	return values.Encode()
}

// The providers' libraries create the vectors again; the result equals the committed files.
func TestVectorsMatchProviderLibraries(t *testing.T) {
	t.Run("node", func(t *testing.T) {
		if _, err := os.Stat(filepath.Join(vendors, "node_modules")); err != nil {
			kit.SkipMissing(t, "the providers' Node libraries are not installed; run test/vendors.sh")
		}
		regenerate(t, vendors, "vectors.json", "node", "generate.mjs")
	})
	t.Run("providers", func(t *testing.T) {
		if _, err := os.Stat(filepath.Join(providers, "node_modules")); err != nil {
			kit.SkipMissing(t, "the providers' Node libraries are not installed; run test/vendors.sh")
		}
		regenerate(t, providers, "vectors.json", "node", "generate.mjs")
	})
	t.Run("go", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), "go", "run", ".")
		cmd.Dir = filepath.Join(providers, "go")
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off")
		if out, err := cmd.CombinedOutput(); strings.Contains(string(out), "GOPROXY=off") {
			kit.SkipMissing(t, "the providers' Go modules are not downloaded; run test/vendors.sh")
		} else if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("python", func(t *testing.T) {
		if _, err := os.Stat(filepath.Join(vendors, "python", "twilio")); err != nil {
			kit.SkipMissing(t, "the providers' Python libraries are not installed; run test/vendors.sh")
		}
		regenerate(t, vendors, "python.json", "python3", "generate.py")
	})
}

func regenerate(t *testing.T, dir, file, program, script string) {
	t.Helper()
	want := must.Get(os.ReadFile(filepath.Join(dir, file)))(t)
	cmd := exec.CommandContext(t.Context(), program, script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONPATH=python", "PYTHONDONTWRITEBYTECODE=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	got, err := cmd.Output()
	must.Do(t, err, "%s %s: %s", program, script, &stderr)
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what %s prints", file, script)
	}
}

// A body in which two readers could find different values at a path has no fields.
func TestBodyFields(t *testing.T) {
	f := func(body string, want map[string]string) {
		t.Helper()
		got := bodyFields([]byte(body), []string{"a.b", "list.0.c"})
		if !maps.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%.100s: %q, want %q", body, got, want)
		}
	}
	f(`{}`, map[string]string{})
	f(`{"a":{"b":"x","other":[1,[2]]},"list":[{"c":12.50}],"d":{"d":1,"d":2}}`,
		map[string]string{"a.b": "x", "list.0.c": "12.50"})
	f(`{"a":{"b":true},"list":[]}`, map[string]string{"a.b": "true"})
	f(`{"a":{"b":null},"list":"text"}`, map[string]string{"list": "text"})
	f(` {"a":{"b":"1"}} `, map[string]string{"a.b": "1"})
	for _, body := range []string{
		``, `[`, `{"a":`, `{"a":{"b":"x"}} {}`, "\ufeff{}", `{"a":{"b":"x","b":"y"}}`, `{"a":{"b":"x"},"a":{}}`,
		`{"a":{"b":"x","B":"y"}}`, `{"A":{"b":"x"}}`, `{"list":[{"c":1},{"c":2}]}`, `{"list":[{"c":1,"\u0063":2}]}`,
		`{"a":{"b":01}}`,
		`{"a":"` + strings.Repeat("x", maxFieldBody) + `"}`, strings.Repeat("[", 1<<20),
	} {
		f(body, nil)
	}
}
