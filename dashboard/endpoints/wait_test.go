package endpoints

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// curlArguments runs a command in a shell, with SECRET set, in which curl prints its arguments, one a line.
func curlArguments(t *testing.T, command, secret string) []string {
	t.Helper()
	sh := exec.CommandContext(t.Context(), "sh", "-c", `curl() { printf '%s\n' "$@"; }`+"\n"+command)
	sh.Env = append(sh.Environ(), "SECRET="+secret)
	out, err := sh.CombinedOutput()
	must.Do(t, err, "%s: %s", command, out)
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// The example of a request on the page of the set-up is accepted by its endpoint, and is missing where a shell cannot
// sign as the provider does.
func TestExampleOfARequestIsAccepted(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		kit.SkipMissing(t, "openssl is not installed")
	}
	const secret = `it's "a" $secret`
	for name, v := range map[string]*wire.Verification{
		"nothing verified": nil,
		"GitHub":           {Type: verify.GitHub, Mode: "enforce"},
		"Shopify":          {Type: verify.Shopify, Mode: "enforce"},
		"HMAC":             {Type: verify.HMAC, Mode: "enforce"},
		"HMAC with settings": {Type: verify.HMAC, Mode: "observe", Header: "X-Mine", Prefix: "v1=", Algorithm: "sha512",
			Encoding: "base64", SignedContent: "{body}"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &waitPage{endpointPage: newEndpointPage(&model.Endpoint{Endpoint: wire.Endpoint{
				IngestURL: "http://localhost/in/x", Verification: v}})}
			a := curlArguments(t, p.Curl(), secret)
			header := http.Header{}
			for i := range a[:len(a)-1] {
				if name, value, _ := strings.Cut(a[i+1], ": "); a[i] == "-H" {
					header.Set(name, value)
				}
			}
			if a[0] != "http://localhost/in/x" || header.Get("Content-Type") == "" || a[len(a)-1] != exampleBody {
				t.Fatalf("curl gets %q", a)
			}
			is.Equal(t, p.CurlNeedsSecret(), v != nil, "the page is wrong about the secret")
			if v == nil {
				return
			}
			reason := verify.Check(verify.Config{Type: v.Type, Secrets: []string{secret}, Header: v.Header, Prefix: v.Prefix,
				Algorithm: v.Algorithm, Encoding: v.Encoding, SignedContent: v.SignedContent},
				verify.Request{Method: "POST", Header: header, Body: []byte(exampleBody), Now: time.Now()})
			if reason != "" {
				t.Errorf("it is rejected (%s): %s", reason, p.Curl())
			}
		})
	}
	for _, v := range []wire.Verification{
		{Type: verify.Stripe}, {Type: verify.HMAC, SignedContent: "{timestamp}.{body}"}, {Type: verify.HMAC, Prefix: "$(id)"},
		{Type: verify.HMAC, Header: `X"`},
	} {
		p := &waitPage{endpointPage: newEndpointPage(&model.Endpoint{Endpoint: wire.Endpoint{Verification: &v}})}
		if v.Mode = "enforce"; p.Curl() != "" {
			t.Errorf("%+v: %s", v, p.Curl())
		}
		if v.Mode = "observe"; p.CurlNeedsSecret() || strings.Contains(p.Curl(), "openssl") || p.Curl() == "" {
			t.Errorf("%+v: %s", v, p.Curl())
		}
	}
}
