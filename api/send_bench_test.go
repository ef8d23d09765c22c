package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/must"
)

// discardingAccepter accepts events and drops them.
type discardingAccepter struct{}

func (discardingAccepter) Accept(context.Context, *event.Event, *config.Endpoint) error { return nil }

func (discardingAccepter) AcceptAll(_ context.Context, es []*event.Event, _ *config.Endpoint) []error {
	return make([]error, len(es))
}

// BenchmarkSend1KB measures one send of 1 KB from the router to the answer, without net/http's server and without
// the log.
func BenchmarkSend1KB(b *testing.B) {
	benchmarkSend(b, "off")
}

// BenchmarkSend1KBValidated is the same with a schema of the type.
func BenchmarkSend1KBValidated(b *testing.B) { benchmarkSend(b, "reject") }

func benchmarkSend(b *testing.B, validate string) {
	c := newClient(b, func(_ *api.Config, d *api.Deps) { d.Accept = discardingAccepter{} })
	ep := c.endpoint(map[string]any{"validate": validate}).text("id")
	c.do("PUT", "/v1/event_types/order.paid", `{"schema":{"type":"object","required":["items"],"properties":{"items":{
		"type":"array","items":{"type":"object","required":["sku"],"properties":{"sku":{"type":"string"},
		"n":{"type":"integer"},"price":{"type":"number"}}}}}}}`).want(200)
	body := `{"type":"order.paid","data":{"items":[` +
		strings.TrimSuffix(strings.Repeat(`{"sku":"A-1009","n":2,"price":19.90},`, 26), ",") + `]}}`
	h := c.api.Handler()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r := must.Get(
			http.NewRequestWithContext(b.Context(), "POST", "/v1/endpoints/"+ep+"/events", strings.NewReader(body)))(b)
		r.Host, r.RemoteAddr = "relay.example.com", "192.0.2.1:1234"
		r.Header.Set("Authorization", "Bearer "+writeKey)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("User-Agent", "bench/1")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 202 {
			b.Fatal(w.Code, w.Body)
		}
	}
}
