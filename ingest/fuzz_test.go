package ingest

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
)

// memoryLog is a Producer that keeps events in memory and acknowledges them immediately.
type memoryLog struct {
	mu     sync.Mutex // guards events
	events []*event.Event
}

func (l *memoryLog) Produce(_ string, _ int32, r *record, done func(*record, error)) {
	e, err := event.Decode(r)
	l.mu.Lock()
	l.events = append(l.events, e)
	l.mu.Unlock()
	done(r, err)
}

func (l *memoryLog) ProduceUnordered(topic string, partition int32, r *record, done func(*record, error)) {
	l.Produce(topic, partition, r, done)
}

// drain returns the events that were produced since the last call.
func (l *memoryLog) drain() []*event.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := l.events
	l.events = nil
	return events
}

// setProvider changes the endpoint's provider, with otherSecret as its secret.
func (w *world) setProvider(provider string) {
	w.change(func(ep *config.Endpoint) {
		ep.Provider, ep.Verification, ep.TypeSource = provider, nil, nil
		if s := verify.ByName(provider).TypeSource; s != "" {
			ep.TypeSource = &s
		}
		if provider != verify.Generic {
			ep.Verification = w.verification(provider, otherSecret)
		}
	})
}

// For any request there is no panic and no 5xx. The event is in the log, with the bytes of its body, exactly if the
// response has its id or rejects its signature within the storage limit.
func FuzzRequest(f *testing.F) {
	providers := verify.Providers()
	for _, text := range []string{
		request("POST", []string{"Content-Length: 2"}, "{}"),
		request("PUT", []string{"Transfer-Encoding: chunked", "X-GitHub-Event: ping", "X-Hub-Signature-256: sha256=00"},
			"2\r\n{}\r\n0\r\n\r\n"),
		request("POST", []string{"Content-Length: 5", "Stripe-Signature: t=1,v1=00,t=2"}, "hello"),
		request("POST", []string{"Content-Length: 135", "X-Slack-Signature: v0=", "X-Slack-Request-Timestamp: 9"}, handshake),
		request("PATCH", []string{"Content-Length: 9", "Content-Encoding: gzip", "X-Shopify-Hmac-Sha256: ="}, "short"),
		request("DELETE", []string{"Webhook-Id: a.1", "Webhook-Timestamp: 1", "Webhook-Signature: v1, v1,"}, ""),
		"GET /in/tok?hub.challenge=a&challenge=b HTTP/1.1\r\nHost: a\r\n\r\n",
		"HEAD http://x/in/tok HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /in/tok?bodySHA256=x HTTP/1.1\r\nHost: a\r\nX-Twilio-Signature: " +
			"AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\nContent-Length: 3\r\n\r\na=b",
	} {
		for i := range providers {
			f.Add(byte(i), []byte(text))
		}
	}
	log := &memoryLog{}
	w := newIngest(f, options{maxBody: 4 << 10}, log)
	handler := w.ingest.Handler()
	f.Fuzz(func(t *testing.T, provider byte, text []byte) {
		parse := func() *http.Request {
			r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
			if err != nil {
				t.Skip("net/http does not let this through to a handler")
			}
			return r
		}
		sent, err := io.ReadAll(parse().Body)
		r := parse()
		w.setProvider(providers[int(provider)%len(providers)])
		unstored := w.metric(w.ingest.metrics.unstored)
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		events := log.drain()
		switch {
		case rec.Code >= 500:
			t.Fatalf("%d\n%s", rec.Code, w.logs)
		case len(events) == 0:
			if rec.Header().Get("Relay-Event-Id") != "" || rec.Code == 401 && w.metric(w.ingest.metrics.unstored) == unstored {
				t.Fatalf("answered %d without an event", rec.Code)
			}
		case len(events) > 1 || err != nil || !bytes.Equal(events[0].Body, sent):
			t.Fatalf("stored %d events, body %q of %q, which ends with %v", len(events), events[0].Body, sent, err)
		case rec.Code != map[bool]int{true: 401, false: 200}[events[0].Verdict == event.VerdictRejected] ||
			rec.Header().Get("Relay-Event-Id") != events[0].ID.Text(id.Event):
			t.Fatalf("answered %d %v for %s", rec.Code, rec.Header(), events[0].ID)
		}
	})
}
