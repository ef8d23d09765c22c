package ingest

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/test/must"
)

// discard is a response writer that discards the response.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header               { return d.header }
func (d *discard) Write(b []byte) (int, error)       { return len(b), nil }
func (d *discard) WriteString(s string) (int, error) { return len(s), nil }
func (d *discard) WriteHeader(int)                   {}
func (d *discard) SetReadDeadline(time.Time) error   { return nil }
func (d *discard) SetWriteDeadline(time.Time) error  { return nil }

// BenchmarkHandler measures one event from the parsed request to the response, without a network and with a log that
// acknowledges immediately.
func BenchmarkHandler(b *testing.B) {
	body := []byte(`{"id":"evt_1","type":"charge.succeeded","data":"` + string(bytes.Repeat([]byte("x"), 1000)) + `"}`)
	confirm := producerFunc(func(_ string, _ int32, r *record, done func(*record, error)) { done(r, nil) })
	run := func(name string, alter func(w *world, ep *config.Endpoint)) {
		b.Run(name, func(b *testing.B) {
			w := newIngest(b, options{maxBody: maxBody, endpoint: alter}, confirm)
			handler := w.ingest.Handler()
			reader := bytes.NewReader(body)
			r := must.Get(http.NewRequest("POST", baseURL+PathPrefix+token, io.NopCloser(reader)))(b)
			r.ContentLength, r.RequestURI, r.RemoteAddr = int64(len(body)), PathPrefix+token, "203.0.113.7:4711"
			for name, value := range map[string]string{
				"Content-Type": "application/json", "Content-Length": "1055", "User-Agent": "Hookshot/1.0", "Accept": "*/*",
				"Accept-Encoding":   "gzip",
				"X-Github-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958", "X-Github-Event": "push",
				"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
			} {
				r.Header.Set(name, value)
			}
			answer := &discard{}
			b.ReportAllocs()
			for b.Loop() {
				reader.Reset(body)
				answer.header = make(http.Header, 8)
				handler.ServeHTTP(answer, r)
			}
		})
	}
	run("plain", func(*world, *config.Endpoint) {})
	run("type", func(_ *world, ep *config.Endpoint) {
		s := verify.ByName("stripe").TypeSource
		ep.TypeSource = &s
	})
	run("signed", func(w *world, ep *config.Endpoint) {
		ep.Verification = w.verification("github", "It's a Secret to Everybody")
		ep.Verification.Mode = "observe"
	})
}
