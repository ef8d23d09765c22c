package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// delivery is a request as the library of a receiver gets it, and what that must make of it.
type delivery struct {
	Library string            `json:"library"`
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	want    string
}

const receivers = "testdata/receivers"

// received makes an attempt and returns the request that arrives.
func received(t *testing.T, work *event.Work, change func(*target)) delivery {
	t.Helper()
	var header http.Header
	var body []byte
	attempt := send(t, recorder(&header, &body), work, change)
	must.Equal(t, attempt.ErrorMessage, "", "attempt")
	d := delivery{Headers: map[string]string{}, Body: string(body)}
	for name, values := range header {
		d.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return d
}

// signedDeliveries are deliveries with the schemes of other services, during a rotation of the destination's secret:
// a receiver with either secret accepts them where the scheme has both signatures, and refuses another body.
func signedDeliveries(t *testing.T) (all []delivery) {
	next, old := sign.NewSecret(), sign.NewSecret()
	for _, x := range []struct {
		library string
		both    bool // signatures
		scheme  kinds.SigningScheme
	}{
		{"stripe", true, kinds.SigningScheme{Header: "Stripe-Signature", SignedContent: "{timestamp}.{body}",
			Value: "t={timestamp},v1={signature}"}},
		{"github", false, kinds.SigningScheme{Header: "X-Hub-Signature-256", Value: "sha256={signature}"}},
		{"convoy", false, kinds.SigningScheme{Header: "X-Convoy-Signature"}},
		{"convoy", true, kinds.SigningScheme{Header: "X-Convoy-Signature", SignedContent: "{timestamp},{body}",
			Value: "t={timestamp},v1={signature}"}},
		{"outpost", true, kinds.SigningScheme{Header: "X-Outpost-Signature", Value: "v0={signatures}"}},
		{"hookdeck", false, kinds.SigningScheme{Header: "X-Hookdeck-Signature", Encoding: "base64"}},
		{"svix", true, kinds.SigningScheme{Type: kinds.Svix}},
	} {
		if x.scheme.Type == "" {
			x.scheme.Type = kinds.Template
		}
		d := received(t, testWork(t, []byte(`{"type":"order.paid","note":"é ✓"}`)), func(to *target) {
			to.Secrets = []destination.LiveSecret{{Secret: next}, {Secret: old}}
			to.Schemes = completed(t, []kinds.SigningScheme{x.scheme})
		})
		d.Library, d.Secret, d.want = x.library, next.Reveal(), "ok"
		older, tampered := d, d
		older.Secret, older.want = old.Reveal(), map[bool]string{true: "ok", false: "refused"}[x.both]
		tampered.Body, tampered.want = d.Body+" ", "refused"
		all = append(all, d, older, tampered)
	}
	return all
}

// cloudEvents are deliveries in both modes, of JSON and of other bodies, and a batch.
func cloudEvents(t *testing.T) (all []delivery) {
	for _, x := range []struct{ format, mediaType, kind, body, data string }{
		{config.FormatCloudEvents, "application/json", "order.paid", `{"a":"é","n":1.5}`, `{"a":"é","n":1.5}`},
		{config.FormatCloudEvents, "application/x-www-form-urlencoded", "order.paid", "a=1&b=\xff", "YT0xJmI9/w=="},
		{config.FormatCloudEvents, "application/json", "", `"text"`, `"text"`},
		{config.FormatCloudEventsBinary, "application/json", "order.paid", `{"a":"é","n":1.5}`, `{"a":"é","n":1.5}`},
		{config.FormatCloudEventsBinary, "application/json", `é"%/🙂`, `[1,2]`, `[1,2]`},
	} {
		work := testWork(t, []byte(x.body), event.Field{Name: "Content-Type", Value: x.mediaType})
		work.Event.Type = x.kind
		for _, batch := range []bool{false, true} {
			if batch && x.format != config.FormatCloudEvents {
				continue
			}
			d := received(t, work, func(to *target) {
				to.Format = x.format
				if settings := (kinds.HTTPBatch{Events: 1, Seconds: 1, Bytes: 1 << 20}); batch {
					to.batches, to.maxBatch = newBatches(time.Now, &settings, time.Minute), settings.Bytes
				}
			})
			ev := work.Event
			kind := x.kind
			if kind == "" {
				kind = "event"
			}
			d.Library, d.want = "cloudevents", strings.Join([]string{ev.ID.Text(id.Event), "/v1/endpoints/ep_test", kind,
				fmt.Sprint(ev.ReceivedAt().UnixMilli()), x.mediaType, x.data}, "|")
			all = append(all, d)
		}
	}
	return all
}

// ask runs a program with deliveries and compares its answers.
func ask(t *testing.T, deliveries []delivery, dir, program string, arguments ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, arguments...)
	cmd.Dir, cmd.Stdin = filepath.Join(receivers, dir), bytes.NewReader(must.Get(json.Marshal(deliveries))(t))
	cmd.Env = append(os.Environ(), "PYTHONPATH=python", "PYTHONDONTWRITEBYTECODE=1", "GOFLAGS=-mod=mod", "GOPROXY=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if strings.Contains(stderr.String(), "GOPROXY=off") {
		kit.SkipMissing(t, "the CloudEvents SDK for Go is not downloaded; run test/vendors.sh")
	}
	must.Do(t, err, "%s: %s", program, &stderr)
	var answers []string
	must.Do(t, json.Unmarshal(out, &answers))
	must.Equal(t, len(answers), len(deliveries), "answers")
	for i, d := range deliveries {
		is.Equal(t, answers[i], d.want, "%s %v %s", d.Library, d.Headers, d.Body)
	}
}

func only(all []delivery, keep func(delivery) bool) (some []delivery) {
	for _, d := range all {
		if keep(d) {
			some = append(some, d)
		}
	}
	return some
}

// The libraries of Stripe, GitHub, Svix and Convoy accept the deliveries of their schemes, and the CloudEvents SDKs for
// JavaScript, Python and Go read those in their format.
func TestReceiversLibraries(t *testing.T) {
	installed := func(t *testing.T, dir string) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(receivers, dir)); err != nil {
			kit.SkipMissing(t, "the libraries of receivers are not installed; run test/vendors.sh")
		}
	}
	signed, events := signedDeliveries(t), cloudEvents(t)
	// The SDKs for JavaScript and Go leave the percent-encoding of attributes in headers as it is.
	unescaped := only(events, func(d delivery) bool { return !strings.Contains(d.Headers["ce-type"], "%") })
	t.Run("node", func(t *testing.T) {
		installed(t, "node_modules")
		all := append(only(signed, func(d delivery) bool { return d.Library != "convoy" }), unescaped...)
		ask(t, all, ".", "node", "receive.mjs")
	})
	t.Run("python", func(t *testing.T) { // its SDK reads no batches
		installed(t, "python")
		all := only(append(signed, events...), func(d delivery) bool {
			return d.Library == "convoy" || d.Library == "cloudevents" && !strings.Contains(d.Headers["content-type"], "batch")
		})
		ask(t, all, ".", "python3", "receive.py")
	})
	t.Run("go", func(t *testing.T) { ask(t, unescaped, "go", "go", "run", ".") })
}

// Known answers: GitHub's documentation ("Validating webhook deliveries") and the tests of Outpost (hookdeck/outpost,
// destwebhook, TestHmacAlgorithms).
func TestKnownSignatures(t *testing.T) {
	f := func(scheme kinds.SigningScheme, at int64, body, want string) {
		t.Helper()
		scheme.Type, scheme.Header = kinds.Template, "X-Sig"
		to := testTarget(t, "https://a.example/", sign.NewSecret())
		to.Schemes = completed(t, []kinds.SigningScheme{scheme})
		work := testWork(t, []byte(body))
		h := destination.Header(work, destination.Stored(work), &to.Opened, "", time.Unix(at, 0))
		is.Equal(t, h.Get("X-Sig"), want, "signature")
	}
	f(kinds.SigningScheme{Secret: "It's a Secret to Everybody", Value: "sha256={signature}"}, 1, "Hello, World!",
		"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	stamped := kinds.SigningScheme{Secret: "test-secret", SignedContent: "{timestamp}.{body}"}
	f(stamped, 1234567890, `{"hello":"world"}`, "7054f74dae9f73e82b56ca73e8f81450097c698eeda0b00bb8728e89796baf2d")
	stamped.Algorithm = "sha1"
	f(stamped, 1234567890, `{"hello":"world"}`, "e2f4423c54f5385099d8e3fbb01237d415ee8fdf")
}
