package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/is"
)

// signedBy returns the headers of a delivery that is signed by schemes.
func signedBy(t *testing.T, work *event.Work, secrets []sign.Secret, schemes ...kinds.SigningScheme) http.Header {
	t.Helper()
	to := testTarget(t, "https://a.example/hook?q=1", secrets...)
	to.URL, to.Schemes = to.urlText, completed(t, schemes)
	return headerOf(t, work, to)
}

// completed returns valid schemes with their defaults.
func completed(t *testing.T, schemes []kinds.SigningScheme) []kinds.SigningScheme {
	t.Helper()
	if len(schemes) == 0 {
		return nil
	}
	s := kinds.Settings{Signing: &kinds.Signing{Schemes: schemes}}
	s.Trim()
	is.OK(t, s.Validate(kinds.Checks{Opened: true}), "schemes")
	return s.Signing.Schemes
}

func hexMAC(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// Without schemes, and with the default one, a delivery has the headers that it always had.
func TestDefaultSignature(t *testing.T) {
	secret := sign.NewSecret()
	work := testWork(t, []byte("x"))
	want := []string{"Relay-Attempt", "Relay-Delivery-Id", "Relay-Destination-Id", "Relay-Endpoint-Id", "Relay-Hops",
		"Relay-Path", "Relay-Trigger", "Relay-Verification", "Relay-Webhook-Id", "Relay-Webhook-Signature",
		"Relay-Webhook-Timestamp", "User-Agent", "Webhook-Id", "Webhook-Signature", "Webhook-Timestamp"}
	for _, schemes := range [][]kinds.SigningScheme{nil, {{Type: kinds.StandardWebhooks}}} {
		h := signedBy(t, work, []sign.Secret{secret}, schemes...)
		is.List(t, slices.Sorted(maps.Keys(h)), want, "headers")
		is.Equal(t, h.Get("Relay-Webhook-Signature"), h.Get("Webhook-Signature"), "signature")
	}
}

// During a rotation a scheme carries the signatures of both secrets where its value has parts, and otherwise that of
// the newest. A secret of its own signs alone.
func TestSchemesDuringARotation(t *testing.T) {
	next, old := sign.NewSecret(), sign.NewSecret()
	work := testWork(t, []byte("body"))
	scheme := func(header, value, secret string) kinds.SigningScheme {
		return kinds.SigningScheme{Type: kinds.Template, Header: header, Value: value, Secret: seal.Secret(secret),
			SignedContent: "{timestamp}.{id}.{url}.{body}"}
	}
	h := signedBy(t, work, []sign.Secret{next, old}, scheme("X-Parts", "t={timestamp},v1={signature},i={id}", ""),
		scheme("X-One", "sha256={signature}", ""), scheme("X-List", "v0={signatures}", ""))
	at, name := h.Get("Webhook-Timestamp"), work.Event.ID.Text(id.Event)
	signed := at + "." + name + ".https://a.example/hook?q=1.body"
	a, b := hexMAC(next.Reveal(), signed), hexMAC(old.Reveal(), signed)
	is.Equal(t, h.Get("X-Parts"), "t="+at+",v1="+a+",v1="+b+",i="+name, "value in parts")
	is.Equal(t, h.Get("X-One"), "sha256="+a, "value without parts")
	is.Equal(t, h.Get("X-List"), "v0="+a+","+b, "list of signatures")
	if h["Webhook-Signature"] != nil || h["Relay-Webhook-Signature"] != nil || h.Get("Relay-Webhook-Id") != name {
		t.Errorf("templates alone: %v", h)
	}
	h = signedBy(t, work, []sign.Secret{next, old}, scheme("X-Parts", "t={timestamp},v1={signature}", "own"),
		kinds.SigningScheme{Type: kinds.Svix})
	is.Equal(t, h.Get("X-Parts"), "t="+at+",v1="+hexMAC("own", signed), "secret of the scheme")
	is.Equal(t, strings.Count(h.Get("Svix-Signature"), "v1,"), 2, "signatures of Svix")
	is.Equal(t, h.Get("Svix-Signature"), h.Get("Webhook-Signature"), "signature beside that of Svix")
}

// A signature over the URL is over that of the request, with the path that an operation has added.
func TestSignedURLHasThePathOfTheRequest(t *testing.T) {
	to := testTarget(t, "https://a.example/hook/?q=1", sign.NewSecret())
	to.URL, to.Schemes = to.urlText, completed(t, []kinds.SigningScheme{{Type: kinds.Template, Header: "X-Sig",
		SignedContent: "{url} {body}", Secret: "own"}})
	work := testWork(t, []byte("x"))
	content := destination.Content{Body: work.Event.Body, Path: "/a%2Fb"}
	h := destination.Header(work, content, &to.Opened, "test", time.Now())
	is.Equal(t, h.Get("X-Sig"), hexMAC("own", "https://a.example/hook/a%2Fb?q=1 x"), "signature")
}

// A private key is no key of an HMAC: nothing is signed with an empty or a wrong one.
func TestPrivateKeySignsNoTemplate(t *testing.T) {
	h := signedBy(t, testWork(t, nil), []sign.Secret{sign.New(sign.Ed25519)},
		kinds.SigningScheme{Type: kinds.Template, Header: "X-Sig"})
	if h["X-Sig"] != nil {
		t.Errorf("%v", h)
	}
}

// A sender cannot set the header of a scheme, in no spelling that a receiver may read as it.
func TestReceivedHeadersOfSchemes(t *testing.T) {
	forged := []event.Field{{Name: "X-Sig", Value: "forged"}, {Name: "X_sig", Value: "forged"},
		{Name: "Svix_id", Value: "forged"}, {Name: "Svix-Signature", Value: "forged"}, {Name: "Svix-Extra", Value: "forged"}}
	secrets := []sign.Secret{sign.NewSecret()}
	h := signedBy(t, testWork(t, []byte("x"), forged...), secrets, kinds.SigningScheme{Type: kinds.Template,
		Header: "X-Sig"}, kinds.SigningScheme{Type: kinds.Svix})
	for name, values := range h {
		if slices.Contains(values, "forged") {
			t.Errorf("%s: %v", name, values)
		}
	}
	h = signedBy(t, testWork(t, []byte("x"), forged...), secrets)
	is.Equal(t, h.Get("Svix-Signature"), "forged", "header of no scheme")
}

// A batch is signed by the same schemes, over the array.
func TestBatchesAreSignedBySchemes(t *testing.T) {
	var got http.Header
	var body []byte
	settings := kinds.HTTPBatch{Events: 1, Seconds: 1, Bytes: 1 << 20}
	attempt := send(t, recorder(&got, &body), testWork(t, []byte(`{"a":1}`)), func(to *target) {
		to.Schemes = []kinds.SigningScheme{{Type: kinds.Template, Header: "X-Sig", Algorithm: "sha256",
			SignedContent: "{body}", Value: "{signature}", Secret: "own"}}
		to.batches, to.maxBatch = newBatches(time.Now, &settings, time.Minute), settings.Bytes
	})
	is.Equal(t, got.Get("X-Sig"), hexMAC("own", string(body)), "signature of %s %s", body, attempt.ErrorMessage)
	if got["Webhook-Signature"] != nil || got.Get("Webhook-Id") == "" {
		t.Errorf("%v", got)
	}
}

// recorder is a receiver that keeps what it gets.
func recorder(header *http.Header, body *[]byte) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		*header = r.Header
		*body, _ = io.ReadAll(r.Body)
	}
}
