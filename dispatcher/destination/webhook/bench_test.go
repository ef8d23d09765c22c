package webhook

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
)

// The headers of one attempt, including the signature, and their recorded form.
func BenchmarkHeaders(b *testing.B) {
	c := newTestClient(nil)
	work, target := benchWork(b), testTarget(b, "https://example.com/h", sign.NewSecret())
	b.ReportAllocs()
	for b.Loop() {
		h := destination.Header(work, destination.Stored(work), &target.Opened, c.userAgent, time.Now())
		if c.names.Recorded(h, target.Header) == "" {
			b.Fatal("no headers")
		}
	}
}

// Attempts with 1 KB bodies, one after the other, against a loopback server: signature, headers, request and answer,
// including the server's share.
func BenchmarkAttempt(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	c := testClient(b, loopback())
	work, target := benchWork(b), testTarget(b, srv.URL, sign.NewSecret())
	b.ReportAllocs()
	for b.Loop() {
		if attempt := c.send(b.Context(), work.Event.ID, target, work, destination.Stored(work)); attempt.Code != 200 {
			b.Fatal(attempt)
		}
	}
}

func benchWork(b *testing.B) *event.Work {
	return testWork(b, bytes.Repeat([]byte("x"), 1024),
		event.Field{Name: "Content-Type", Value: "application/json"}, event.Field{Name: "User-Agent", Value: "Provider/1.0"},
		event.Field{Name: "X-Request-Id", Value: "0123456789abcdef"}, event.Field{Name: "Accept", Value: "*/*"})
}
