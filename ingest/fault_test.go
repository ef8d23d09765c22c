package ingest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func (w *world) wantBusy(a answer) {
	w.tb.Helper()
	w.want(a, 503)
	if a.Header.Get("Retry-After") != "1" || !strings.Contains(a.body, `"type":"unavailable"`) ||
		a.Header.Get("Relay-Event-Id") != "" {
		w.tb.Errorf("%v %s", a.Header, a.body)
	}
}

// If the log rejects records, the response is 503, for accepted and for rejected requests.
func TestLogRefuses(t *testing.T) {
	w := newWorld(t, options{endpoint: func(w *world, ep *config.Endpoint) {
		ep.Verification = w.verification("github", "secret")
	}})
	for _, fault := range []*kerr.Error{
		kerr.TopicAuthorizationFailed, kerr.MessageTooLarge, kerr.InvalidRecord, kerr.PolicyViolation} {
		h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: fault, Count: -1})
		w.wantBusy(w.post("refused"))
		w.change(func(ep *config.Endpoint) { ep.Verification.Mode = "observe" })
		w.wantBusy(w.post("refused"))
		h.Remove()
		w.want(w.post("taken"), 200)
		w.change(func(ep *config.Endpoint) { ep.Verification.Mode = "enforce" })
	}
	// An error that the producer retries only delays the response.
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.KafkaStorageError, Count: 3})
	w.want(w.post("taken"), 401)
	for _, e := range w.stored() {
		is.Equal(t, string(e.Body), "taken", "stored %q", e.Body)
	}
	is.Equal(t, len(w.stored()), 5, "events are stored")
	is.Equal(t, w.metric(w.ingest.metrics.refused.WithLabelValues("unknown")), 8, "refusals are counted")
}

// After the clock has stepped back by more than id.MaxAhead no ids are created: their time would be wrong.
func TestClockSteppedBack(t *testing.T) {
	var offset atomic.Int64
	w := newWorld(t, options{idClock: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }})
	w.want(w.post("x"), 200)
	offset.Store(-int64(20 * time.Second))
	w.want(w.post("x"), 200)
	offset.Store(-int64(time.Minute))
	w.wantBusy(w.post("x"))
	offset.Store(0)
	w.want(w.post("x"), 200)
	is.Equal(t, len(w.stored()), 3, "events are stored")
	is.Equal(t, w.metric(w.ingest.metrics.refused.WithLabelValues("clock")), 1, "refusals are counted")
}

// While CheckCapacity returns an error, because a consumer group is about to lose unread records, no event is accepted.
func TestNoCapacityRefusesEvents(t *testing.T) {
	w := newWorld(t, options{})
	w.capacityErr = fmt.Errorf("group store is behind: %w", stream.ErrBufferFull)
	w.wantBusy(w.post("x"))
	w.capacityErr = nil
	w.want(w.post("x"), 200)
	is.Equal(t, len(w.stored()), 1, "events are stored")
}

// If the clock differs from the broker's by more than 30 s, in either direction, no event is accepted: its id would
// contain a wrong time.
func TestClockFarFromTheBrokers(t *testing.T) {
	w := newWorld(t, options{})
	for _, skew := range []time.Duration{31 * time.Second, -31 * time.Second} {
		w.skew.Store(int64(skew))
		w.wantBusy(w.post("x"))
	}
	w.skew.Store(int64(-29 * time.Second))
	w.want(w.post("x"), 200)
	is.Equal(t, len(w.stored()), 1, "events are stored")
}

// bubble runs f on fake time. The Kafka cluster is on an in-memory network and requests go directly to the handler. The
// endpoint tok is on partition 0, bad on partition 1.
func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen)))(t)
		defer cluster.Close()
		sc := stream.Config{Brokers: cluster.ListenAddrs(), DialFunc: network.DialContext, Prefix: "t."}
		must.Get(stream.Migrate(t.Context(), sc, 2, 1))(t)
		producer := must.Get(stream.NewProducer(sc, "test"))(t)
		defer producer.Close()
		reader := must.Get(stream.NewReader(sc, "test"))(t)
		defer reader.Close()
		w := newIngest(t, options{maxBody: maxBody}, producer)
		w.cluster, w.reader, w.log = cluster, reader, producer
		bad := *w.endpoints[token]
		bad.ID, bad.Partition = "ep_2", 1
		w.endpoints["bad"] = &bad
		f(t, w)
	})
}

// serve passes a request to the handler and returns the response and its duration.
func (w *world) serve(token, body string) (answer, time.Duration) {
	w.tb.Helper()
	started := time.Now()
	rec := httptest.NewRecorder()
	w.ingest.Handler().ServeHTTP(rec, httptest.NewRequest("POST", PathPrefix+token, strings.NewReader(body)))
	return answer{rec.Result(), rec.Body.String()}, time.Since(started)
}

// waiting returns the number of events that wait for the partition.
func (w *world) waiting(partition int) int {
	c := &w.ingest.acceptor.breakers[partition]
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// The log stops answering and recovers: the first event waits for acceptTimeout, later ones are answered 503
// immediately, and the circuit breaker closes by itself. Every event that was answered 2xx is in the log.
func TestLogHangs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		confirmed := map[string]bool{}
		post := func(body string) (answer, time.Duration) {
			a, took := w.serve(token, body)
			if a.StatusCode == 200 {
				confirmed[a.Header.Get("Relay-Event-Id")] = true
			}
			return a, took
		}
		if a, _ := post("before"); a.StatusCode != 200 {
			t.Fatal(a.body)
		}
		h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: -1})
		a, took := post("first")
		w.wantBusy(a)
		if took != acceptTimeout || !strings.Contains(a.body, "may not have been stored") {
			t.Errorf("the first was answered after %v: %s", took, a.body)
		}
		for range 1000 {
			a, took := post("refused at once")
			w.wantBusy(a)
			must.Equal(t, took, 0, "a later one was answered after")
		}
		is.Equal(t, w.metric(w.ingest.metrics.stalled), 1, "partitions are counted as stalled")
		h.Remove()
		time.Sleep(5 * time.Second) // the producer retries the first one
		a, took = post("after")
		if a.StatusCode != 200 || took > time.Second {
			t.Errorf("after the log is back: %d in %v", a.StatusCode, took)
		}
		is.Equal(t, w.metric(w.ingest.metrics.stalled), 0, "partitions are counted as stalled")
		stored := map[string]bool{}
		for _, e := range w.stored() {
			stored[e.ID.Text(id.Event)] = true
			if b := string(e.Body); b == "refused at once" {
				t.Errorf("%q is stored", b)
			}
		}
		for evt := range confirmed {
			if !stored[evt] {
				t.Errorf("%s was confirmed and is not in the log", evt)
			}
		}
		is.Equal(t, len(confirmed), 2, "were confirmed")
	})
}

// A partition without a leader affects only its own endpoints, however many requests they receive.
func TestStalledPartitionDoesNotDelayOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.serve(token, "x")
		h := w.cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: "t.events", Partitions: []int32{1}, Err: kerr.NotLeaderForPartition,
			Count: -1})
		var callers sync.WaitGroup
		var busy atomic.Int64
		for range maxWaiting + 2000 {
			callers.Go(func() {
				if a, _ := w.serve("bad", "x"); a.StatusCode == 503 {
					busy.Add(1)
				}
			})
		}
		synctest.Wait()
		is.Equal(t, w.waiting(1), maxWaiting, "events wait for the bad partition")
		for range 20 {
			if a, took := w.serve(token, "x"); a.StatusCode != 200 || took > time.Second {
				t.Fatalf("the good partition: %d in %v", a.StatusCode, took)
			}
			time.Sleep(500 * time.Millisecond)
		}
		callers.Wait()
		if busy.Load() != maxWaiting+2000 {
			t.Errorf("%d of %d were answered 503", busy.Load(), maxWaiting+2000)
		}
		h.Remove()
		time.Sleep(5 * time.Second)
		if a, _ := w.serve("bad", "x"); a.StatusCode != 200 {
			t.Errorf("the bad partition after it is back: %d %s", a.StatusCode, a.body)
		}
	})
}

func TestPartitionBreaker(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	enter := func(c *partitionBreaker, after time.Duration, size int, want error, opens bool) {
		t.Helper()
		if opened, err := c.admit(size, at(after)); !errors.Is(err, want) || opened != opens {
			t.Fatalf("after %v: %v, opened %t; want %v, %t", after, err, opened, want, opens)
		}
	}
	var c partitionBreaker
	enter(&c, 0, 1, nil, false)
	enter(&c, stallAfter, 1, nil, false)
	enter(&c, stallAfter+1, 1, errPartitionStalled, true)
	enter(&c, stallAfter+2, 1, errPartitionStalled, false)
	if c.complete(1, false, at(time.Minute)) {
		t.Fatal("a rejected event closed the breaker")
	}
	enter(&c, time.Minute, 1, errPartitionStalled, false) // the other event is still the probe
	c.complete(1, false, at(time.Minute))
	enter(&c, time.Hour, 1, nil, false) // no event waits: this is a new probe
	enter(&c, time.Hour, 1, errPartitionStalled, false)
	if !c.complete(1, true, at(time.Hour)) || c.waiting != 0 || c.bytes != 0 {
		t.Fatalf("a success left %+v", &c)
	}
	enter(&c, time.Hour, 1, nil, false)
	enter(&c, time.Hour, 1, nil, false)

	// A slow log that still answers does not count as stalled.
	c = partitionBreaker{}
	enter(&c, 0, 1, nil, false)
	for i := range 100 {
		after := time.Duration(i) * stallAfter * 9 / 10
		enter(&c, after, 1, nil, false)
		c.complete(1, true, at(after))
	}

	// Limits in number and in bytes.
	c = partitionBreaker{}
	for range maxWaiting {
		enter(&c, 0, 1, nil, false)
	}
	enter(&c, 0, 1, errPartitionFull, false)
	c = partitionBreaker{}
	enter(&c, 0, maxWaitingBytes-10, nil, false)
	enter(&c, 0, 11, errPartitionFull, false)
	enter(&c, 0, 10, nil, false)
	if !errors.Is(errPartitionFull, stream.ErrBufferFull) || !errors.Is(errPartitionStalled, stream.ErrBufferFull) {
		t.Error("the errors do not wrap stream.ErrBufferFull: the API could not tell that nothing was stored")
	}
}

// The API uses the Acceptor for sent events, which have an id already, and depends on its errors.
func TestAcceptOfSentEvents(t *testing.T) {
	w := newWorld(t, options{})
	ep := w.EndpointByToken(token)
	given := must.Get(id.NewGenerator(nil).New(ep.Partition))(t)
	e := &event.Event{ID: given, Source: event.SourceAPI, Verdict: event.VerdictUnverified, Method: http.MethodPost,
		Body: []byte("{}")}
	must.Do(t, w.ingest.Acceptor().Accept(t.Context(), e, ep))
	if got := w.only(); got.ID != given || got.Account != "acc_1" || got.Endpoint != "ep_1" ||
		got.Source != event.SourceAPI {
		t.Errorf("%+v", got)
	}
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord})
	if err := w.ingest.Acceptor().Accept(t.Context(), &event.Event{}, ep); !errors.Is(err, ErrOutcomeUnknown) ||
		errors.Is(err, stream.ErrBufferFull) {
		t.Errorf("a refusal is %v", err)
	}
	ended := errors.New("the caller gave up")
	h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: -1})
	defer h.Remove()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	if err := w.ingest.Acceptor().Accept(ctx, &event.Event{}, ep); !errors.Is(err, ErrOutcomeUnknown) ||
		!errors.Is(err, ended) {
		t.Errorf("a caller that gave up gets %v", err)
	}
}

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
