package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/pull"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// streamServer is an API behind a real HTTP server, with access to the log that it follows.
type streamServer struct {
	*client
	url      string
	http     *http.Client
	producer *stream.Producer
	ids      *id.Generator
}

func newStreamServer(t *testing.T, setup ...func(*api.Config, *api.Deps)) *streamServer {
	t.Helper()
	s := &streamServer{client: newClient(t, setup...), ids: id.NewGenerator(nil)}
	srv := httptest.NewUnstartedServer(s.api.Handler())
	srv.EnableHTTP2 = true
	srv.StartTLS()
	s.url, s.http = srv.URL, srv.Client()
	var err error
	if s.producer, err = stream.NewProducer(topics, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.api.Drain()
		s.http.CloseIdleConnections()
		srv.Close()
		if err := s.producer.Flush(context.Background()); err != nil { // events that were read may not be acknowledged yet
			t.Error(err)
		}
		s.producer.Close()
	})
	return s
}

// put writes an event to the log and returns its id; alter may change it.
func (s *streamServer) put(ep *config.Endpoint, body []byte, alter ...func(*event.Event)) string {
	s.t.Helper()
	d := must.Get(s.ids.New(ep.Partition))(s.t)
	e := &event.Event{
		ID: d, Account: ep.Account, Endpoint: ep.ID, Source: event.SourceProvider, Verdict: event.VerdictVerified,
		Method: "POST",
		Header: []event.Field{{Name: "X-A", Value: "1"}, {Name: "X-A", Value: "2"}}, Body: body,
	}
	for _, f := range alter {
		f(e)
	}
	s.produce(e.Record(), e.ID.Partition())
	return d.Text(id.Event)
}

func (s *streamServer) produce(r *stream.Record, partition int32) {
	s.producer.Produce(stream.Events, partition, r, func(_ *stream.Record, err error) {
		is.OK(s.t, err)
	})
}

func (s *streamServer) flush() {
	s.t.Helper()
	must.Do(s.t, s.producer.Flush(s.t.Context()))
}

func (s *streamServer) createEndpoint(members map[string]any) *config.Endpoint {
	s.t.Helper()
	ep, presence := configuration.Endpoint(s.endpoint(members).text("id"))
	must.Equal(s.t, presence, entity.Present, "the endpoint is not there")
	return ep
}

// frame is one item of a stream.
type frame struct {
	id, kind string
	data     map[string]any
	comment  bool
}

// openStream is the client side of a stream.
type openStream struct {
	t      *testing.T
	lines  *bufio.Scanner
	resp   *http.Response
	cancel context.CancelFunc
	plain  bool // items are not compared with the document
}

// open opens a stream; headers are name-value pairs.
func (s *streamServer) open(endpoint, key string, headers ...string) *openStream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	r := must.Get(http.NewRequestWithContext(ctx, "GET", s.url+"/v1/endpoints/"+endpoint+"/stream", nil))(s.t)
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp := must.Get(s.http.Do(r))(s.t)
	w := &openStream{t: s.t.(*testing.T), resp: resp, cancel: cancel, lines: bufio.NewScanner(resp.Body)}
	w.lines.Buffer(nil, 4<<20)
	s.t.Cleanup(w.close)
	return w
}

func (w *openStream) close() {
	w.cancel()
	w.resp.Body.Close()
}

// next returns the next item or comment, an empty one when the stream has ended. It fails the test if the document
// does not describe the item, unless plain is set.
func (w *openStream) next() (f frame) {
	w.t.Helper()
	var text strings.Builder
	for w.lines.Scan() {
		text.WriteString(w.lines.Text() + "\n")
		name, value, _ := strings.Cut(w.lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			f.id = value
		case "event":
			f.kind = value
		case "data":
			must.Do(w.t, json.Unmarshal([]byte(value), &f.data), "%.200s", value)
		case "":
			if w.lines.Text() == "" {
				if !w.plain {
					w.described(text.String())
				}
				return f
			}
			f.comment = true
		}
	}
	return f
}

func (w *openStream) described(item string) {
	w.t.Helper()
	c := must.Get(loadContract())(w.t)
	is.OK(w.t, c.checkAnswer("GET", w.resp.Request.URL.Path, w.resp.StatusCode, w.resp.Header, []byte(item)),
		"the document and the stream differ")
}

func (w *openStream) ready() *openStream {
	w.t.Helper()
	if w.resp.StatusCode != 200 || w.resp.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("%s %v", w.resp.Status, w.resp.Header)
	}
	if f := w.next(); f.kind != "ready" || f.id == "" {
		w.t.Fatalf("begins with %+v", f)
	}
	return w
}

// want reads the next item, which must be the event with that id.
func (w *openStream) want(event string) frame {
	w.t.Helper()
	f := w.next()
	if f.kind != "event" || f.data["id"] != event || f.id == "" {
		w.t.Fatalf("got %.300v, want %s", f, event)
	}
	return f
}

func (w *openStream) end(reason string) {
	w.t.Helper()
	f := w.next()
	for f.kind == "event" {
		f = w.next()
	}
	if f.kind != "end" || f.data["reason"] != reason || f.id != "" {
		w.t.Fatalf("got %+v, want the end for %s", f, reason)
	}
	if rest := w.next(); rest.kind != "" || rest.comment {
		w.t.Errorf("after the end comes %+v", rest)
	}
}

func TestStreamSendsAcceptedEvents(t *testing.T) {
	s := newStreamServer(t)
	ep, other := s.createEndpoint(nil), s.createEndpoint(nil)
	s.put(ep, []byte("before"))
	s.flush()
	w := s.open(ep.ID, readKey, "Accept", "text/event-stream").ready()
	if h := w.resp.Header; h.Get("Cache-Control") != "no-store" || h.Get("X-Accel-Buffering") != "no" ||
		h.Get("X-Request-Id") == "" {
		t.Errorf("headers %v", h)
	}
	s.put(other, []byte("other"))
	first := s.put(ep, []byte{0, 255, 'x'}, func(e *event.Event) {
		e.Query, e.Type, e.Method = "q=1&r=%20", "a.b", "PUT"
		e.Header = append(e.Header, event.Field{Name: "X-High", Value: "Zo\xeb"})
	})
	s.put(ep, nil, func(e *event.Event) { e.Verdict, e.Reason = event.VerdictRejected, event.SignatureMissing })
	s.put(ep, nil, func(e *event.Event) { e.Reason, e.DuplicateOf = event.Duplicate, first })
	again := must.Get(s.ids.New(ep.Partition))(t)
	back := (&event.Event{ID: again, Account: ep.Account, Endpoint: ep.ID, Source: event.SourceAPI,
		Verdict: event.VerdictUnverified}).Record()
	back.Headers = append(back.Headers, stream.Header{Key: stream.HeaderOnlyGroup, Value: []byte("store")})
	s.produce(back, ep.Partition)
	observed := s.put(ep, nil, func(e *event.Event) {
		e.Verdict, e.Reason = event.VerdictObserved, event.SignatureMismatch
	})
	sent := s.put(ep, []byte(`{}`), func(e *event.Event) { e.Source = event.SourceAPI })
	test := s.put(ep, []byte(`{}`), func(e *event.Event) { e.Source = event.SourceTest })
	f := w.want(first)
	d, _ := id.Parse(id.Event, first)
	want := map[string]any{
		"id": first, "received_at": d.Time().Format("2006-01-02T15:04:05.000Z"), "type": "a.b", "method": "PUT",
		"path":           "/?q=1&r=%20",
		"headers":        []any{[]any{"X-A", "1"}, []any{"X-A", "2"}, []any{"X-High", "Zo\ufffd"}},
		"headers_base64": []any{nil, nil, "Wm/r"}, "body": "AP94", "size": 3.0, "truncated": false,
	}
	if fmt.Sprint(f.data) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", f.data, want)
	}
	f = w.want(observed)
	if _, ok := f.data["headers_base64"]; ok || f.data["type"] != nil || f.data["path"] != "/" || f.data["body"] != "" {
		t.Errorf("%v", f.data)
	}
	w.want(sent)
	w.want(test)
}

func TestStreamOfLargeBodies(t *testing.T) {
	s := newStreamServer(t)
	ep := s.createEndpoint(nil)
	w := s.open(ep.ID, readKey).ready()
	whole, cut := s.put(ep, bytes.Repeat([]byte("x"), 1<<20)), s.put(ep, bytes.Repeat([]byte("x"), 1<<20+1))
	if f := w.want(whole); f.data["truncated"] != false || len(f.data["body"].(string)) != (1<<20+2)/3*4 {
		t.Errorf("%.200v", f)
	}
	if f := w.want(cut); f.data["truncated"] != true || f.data["body"] != "" || f.data["size"] != float64(1<<20+1) {
		t.Errorf("%.200v", f)
	}
}

// A client that disconnects at random and resumes from its last id gets each event once, in order.
func TestStreamResumesWhereTheClientWas(t *testing.T) {
	const events = 2_000
	s := newStreamServer(t)
	ep, noise := s.createEndpoint(nil), s.createEndpoint(nil)
	w := s.open(ep.ID, readKey).ready()
	ids := make([]string, events)
	var putting sync.WaitGroup
	putting.Go(func() {
		for i := range ids {
			ids[i] = s.put(ep, fmt.Appendf(nil, "%d", i))
			if i%3 == 0 {
				s.put(noise, []byte("noise"))
			}
			if i%100 == 0 {
				s.flush()
			}
		}
	})
	var got []string
	last, leave, left, random := "", 0, 0, kit.Rand(t)
	for len(got) < events {
		if leave == 0 {
			if leave = 1 + random.IntN(140); last != "" {
				w.close()
				w = s.open(ep.ID, readKey, "Last-Event-ID", last).ready()
				left++
			}
		}
		f := w.next()
		switch {
		case f.kind == "event":
			got, last = append(got, f.data["id"].(string)), f.id
			leave--
		case !f.comment:
			t.Fatalf("after %d events: %+v", len(got), f)
		}
	}
	putting.Wait()
	must.List(t, got, ids, "%d events, not those that were put, in their order", len(got))
	if s.put(ep, nil); w.next().kind != "event" {
		t.Error("the stream has ended")
	}
	t.Logf("left %d times", left)
}

func TestStreamRefuses(t *testing.T) {
	s := newStreamServer(t)
	ep, other := s.createEndpoint(nil), s.createEndpoint(nil)
	target := "/v1/endpoints/" + ep.ID + "/stream"
	for _, accept := range []string{"application/json", "text/html, image/*", "text/event-stream;q=0", "text/plain"} {
		s.do("GET", target, nil, "Accept", accept).wantError(400, "invalid_request", "accept")
	}
	foreign := s.open(other.ID, readKey).ready()
	s.put(other, nil)
	cursor := foreign.next().id
	for _, last := range []string{"x", "evt_0", cursor, cursor + "A", strings.Repeat("A", 3000)} {
		s.do("GET", target, nil, "Last-Event-ID", last).wantError(400, "invalid_request", "Last-Event-ID")
	}
	s.do("GET", "/v1/endpoints/ep_nope/stream", nil, "Accept", "application/json").wantError(404, "not_found", "")
	s.as("").do("GET", target, nil).wantError(401, "authentication_required", "")
	if a := s.do("POST", target, nil).wantError(404, "not_found", ""); a.Header.Get("Allow") != "GET" {
		t.Errorf("Allow %q", a.Header.Get("Allow"))
	}
	s.do("HEAD", target, nil).want(200)
	for _, accept := range []string{"*/*", "text/*;q=0.5, application/json", "application/json, text/event-stream", ""} {
		s.open(ep.ID, readKey, "Accept", accept, "Last-Event-ID", "").ready().close()
	}
}

func TestFiveStreamsOfAKey(t *testing.T) {
	s := newStreamServer(t)
	ep := s.createEndpoint(nil)
	var open []*openStream
	for range 5 {
		open = append(open, s.open(ep.ID, readKey).ready())
	}
	sixth := s.as(readKey).do("GET", "/v1/endpoints/"+ep.ID+"/stream", nil).wantError(429, "rate_limited", "")
	if sixth.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	s.open(ep.ID, writeKey).ready()
	is.Equal(t, watched.Tails(), 1, "six streams have … tails")
	open[2].close()
	kit.WaitFor(t, "the place of a stream that was closed is given to another", func() bool {
		w := s.open(ep.ID, readKey)
		if w.resp.StatusCode != 200 { // the server has not noticed it yet
			w.close()
			return false
		}
		w.ready()
		return true
	})
}

func TestStreamEnds(t *testing.T) {
	s := newStreamServer(t)
	ep := s.createEndpoint(nil)
	text, key, err := configuration.CreateKey(t.Context(), config.NewKey{Name: "watcher", Scope: config.Read})
	must.Do(t, err)
	var expires *openStream
	for life := time.Second; ; life *= 2 { // a slow machine may open it too late
		brief, _, err := configuration.CreateKey(t.Context(), config.NewKey{
			Name: "brief", Scope: config.Read, ExpiresAt: time.Now().Add(life)})
		must.Do(t, err)
		if expires = s.open(ep.ID, brief); expires.resp.StatusCode != http.StatusUnauthorized {
			break
		}
	}
	expires.ready()
	revoked, stays := s.open(ep.ID, text).ready(), s.open(ep.ID, readKey).ready()
	must.Do(t, configuration.RevokeKey(t.Context(), key.ID))
	hidden := s.put(ep, []byte("after the revocation")) // it must not be sent
	if f := revoked.next(); f.kind != "end" || f.data["reason"] != "key_revoked" {
		t.Errorf("got %+v", f)
	}
	stays.want(hidden)
	expires.end("key_revoked")
	must.Do(t, configuration.DeleteEndpoint(t.Context(), ep.ID, 0))
	stays.end("endpoint_deleted")
	w := s.open(s.createEndpoint(nil).ID, readKey).ready()
	s.api.Drain()
	w.end("shutdown")
}

func TestStreamKeepsAlive(t *testing.T) {
	s := newStreamServer(t, func(cfg *api.Config, _ *api.Deps) { cfg.KeepAlive = time.Millisecond })
	ep := s.createEndpoint(nil)
	w := s.open(ep.ID, readKey).ready()
	if f := w.next(); !f.comment || f.kind != "" {
		t.Errorf("after a silence comes %+v", f)
	}
	put := s.put(ep, nil)
	f := w.next()
	for f.comment {
		f = w.next()
	}
	if f.data["id"] != put {
		t.Errorf("%+v", f)
	}
}

func TestStreamFollowsAMovedEndpoint(t *testing.T) {
	s := newStreamServer(t)
	ep := s.createEndpoint(nil)
	w := s.open(ep.ID, readKey).ready()
	first := s.put(ep, nil)
	last := w.want(first).id
	moved := must.Get(configuration.MoveEndpoint(t.Context(), ep.ID, (ep.Partition+1)%4, time.Now().Add(time.Minute)))(t)
	var ids []string
	for range 3 {
		ids = append(ids, s.put(moved, nil))
	}
	late := s.put(ep, nil) // from a node that had not applied the move yet
	s.flush()
	for _, w := range []*openStream{w, s.open(ep.ID, readKey, "Last-Event-ID", last).ready()} {
		var got []string
		for range 4 {
			got = append(got, w.next().data["id"].(string))
		}
		if got = slices.DeleteFunc(got, func(id string) bool { return id == late }); !slices.Equal(got, ids) {
			t.Errorf("got %v and the late one, want %v", got, ids)
		}
	}
}

// A client that reads nothing for a while, over HTTP/1.1, uses little memory of this node and misses nothing.
func TestStreamOfASlowClient(t *testing.T) {
	s := newStreamServer(t)
	ep := s.createEndpoint(nil)
	transport := s.http.Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2, transport.TLSClientConfig.NextProtos = false, nil
	slow := *s
	slow.http = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	w, quick := slow.open(ep.ID, readKey).ready(), s.open(ep.ID, readKey).ready()
	if w.resp.ProtoMajor != 1 || quick.resp.ProtoMajor != 2 {
		t.Fatalf("HTTP/%d and HTTP/%d", w.resp.ProtoMajor, quick.resp.ProtoMajor)
	}
	w.plain, quick.plain = true, true // a client that reads nothing for 30 s is cut off, and the comparison takes long
	body := bytes.Repeat([]byte("x"), 16<<10)
	ids := make([]string, 2000) // more than connection buffers and the queue hold
	for i := range ids {
		ids[i] = s.put(ep, body)
	}
	s.flush()
	for _, id := range ids {
		quick.want(id)
	}
	if held := watched.QueuedBytes(); held > 20<<20 {
		t.Errorf("%d bytes wait for a client that reads nothing", held)
	}
	for _, id := range ids {
		w.want(id)
	}
}

// fakePulls answers pulls, and remembers what it was asked.
type fakePulls struct {
	asked  pull.Request
	events []pull.Event
	states []pull.State
	err    error
}

func (f *fakePulls) Pull(_ context.Context, _ []int32, r pull.Request) ([]pull.Event, error) {
	f.asked = r
	return f.events, f.err
}

func (f *fakePulls) Acknowledge(_ context.Context, r pull.Request) ([]pull.State, error) {
	f.asked = r
	return f.states, f.err
}

func (f *fakePulls) Consumers(context.Context, []int32, string) ([]pull.Consumer, error) {
	return []pull.Consumer{{Name: "w", LastPull: time.Unix(1, 0), Pulling: true, Leases: 3}}, f.err
}

// A consumer gets the bytes of a body, and each attempt that it acknowledges its own answer. A key that may only read
// pulls nothing.
func TestPullAndAcknowledge(t *testing.T) {
	pulls := &fakePulls{}
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Pulls = pulls })
	ep := c.do("POST", "/v1/endpoints", `{"destinations":[{"pull":{}},{"url":"https://a.example/h"}]}`).want(201)
	if ep.get("destinations.0.pull.lease_seconds") != 60.0 || ep.text("destinations.0.url") != "pull://consumers" {
		t.Errorf("created %s", ep.raw)
	}
	path := "/v1/endpoints/" + ep.text("id") + "/destinations/" + ep.text("destinations.0.id")
	stored, _ := configuration.Endpoint(ep.text("id"))
	now := must.Get(id.NewGenerator(nil).New(stored.Partition))(t)
	pulls.events = []pull.Event{{ID: now, Attempt: now, Number: 2, Type: "a", Endpoint: ep.text("id"),
		Header: map[string]string{"webhook-id": "x"}, LeasedUntil: time.Now(), Body: []byte("{\"a\": 1 }\n")},
		{ID: now, Attempt: now, Number: 1,
			Endpoint: ep.text("id"), Header: map[string]string{}, LeasedUntil: time.Now(), Body: []byte{0xff}}}
	got := c.do("GET", path+"/pull?consumer=w-1&max=1000&wait=30", nil).want(200)
	if got.text("data.0.body") != "{\"a\": 1 }\n" || got.text("data.1.body") != "/w==" ||
		got.text("data.1.body_encoding") != "base64" || got.text("data.0.attempt_id") != now.Text(id.Attempt) {
		t.Errorf("pulled %s", got.raw)
	}
	if pulls.asked.Consumer != "w-1" || pulls.asked.Max != 1000 || pulls.asked.Wait != 30*time.Second {
		t.Errorf("asked %+v", pulls.asked)
	}
	for query, param := range map[string]string{"": "consumer", "consumer=a%2Fb": "consumer", "consumer=w&max=0": "max",
		"consumer=w&max=1001": "max", "consumer=w&wait=31": "wait", "consumer=w&wait=x": "wait",
		"consumer=w&limit=1": "limit"} {
		c.do("GET", path+"/pull?"+query, nil).wantError(400, "invalid_request", param)
	}
	c.as(readKey).do("GET", path+"/pull?consumer=w", nil).wantError(403, "insufficient_scope", "")
	c.as(readKey).do("POST", path+"/ack", nil).wantError(403, "insufficient_scope", "")
	c.as(readKey).do("GET", path+"/consumers", nil).want(200)
	webhook := "/v1/endpoints/" + ep.text("id") + "/destinations/" + ep.text("destinations.1.id")
	c.do("GET", webhook+"/pull?consumer=w", nil).wantError(400, "invalid_state", "")
	if got := c.do("GET", path+"/consumers", nil).want(200); got.get("data.0.leases") != 3.0 {
		t.Errorf("consumers %s", got.raw)
	}

	old := must.Get(id.NewGenerator(func() time.Time { return time.Now().Add(-2 * time.Minute) }).New(stored.Partition))(t)
	pulls.states = []pull.State{pull.Acknowledged, pull.Unknown, pull.Unknown}
	got = c.do("POST", path+"/ack", fmt.Sprintf(`{"attempt_ids":[%q,"att_x",%q,%q]}`, now.Text(id.Attempt),
		now.Text(id.Attempt), old.Text(id.Attempt))).want(200)
	if !slices.Equal(pulls.asked.Attempts, []id.ID{now, now, old}) || got.text("data.0.status") != "acknowledged" ||
		got.text("data.1.status") != "unknown" || got.text("data.2.status") != "unknown" ||
		got.text("data.3.status") != "expired" {
		t.Errorf("acknowledged %s", got.raw)
	}
	for _, body := range []string{`{}`, `{"attempt_ids":[]}`, `{"attempt_ids":"x"}`} {
		c.do("POST", path+"/ack", body).wantError(400, "invalid_request", "attempt_ids")
	}
	c.do("POST", path+"/ack", `{"attempt_ids":[1]}`).wantError(400, "invalid_request", "attempt_ids[0]")
	pulls.states = nil
	elsewhere := must.Get(id.NewGenerator(nil).New(4095))(t) // an invented id: nobody has this partition
	got = c.do("POST", path+"/ack", fmt.Sprintf(`{"attempt_ids":[%q]}`, elsewhere.Text(id.Attempt))).want(200)
	if len(pulls.asked.Attempts) > 0 || got.text("data.0.status") != "unknown" {
		t.Errorf("another partition: asked %v, answered %s", pulls.asked.Attempts, got.raw)
	}
	pulls.err = pull.ErrBusy
	c.do("GET", path+"/pull?consumer=w", nil).wantError(400, "conflict", "consumer")
	pulls.err = pull.ErrTooMany
	c.do("GET", path+"/pull?consumer=w", nil).wantError(429, "rate_limited", "")
	pulls.err = errors.Join(pull.ErrUnavailable)
	c.do("POST", path+"/ack", `{"attempt_ids":["att_x"]}`).wantError(503, "unavailable", "")
}
