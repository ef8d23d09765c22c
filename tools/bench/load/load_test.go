package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/tools/bench/count"
)

// received records the requests of a server.
type received struct {
	mu      sync.Mutex // guards the following
	numbers []int64
	bodies  []string
	heads   []http.Header
}

func (r *received) record(req *http.Request) (marks []count.Mark) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies, r.heads = append(r.bodies, string(body)), append(r.heads, req.Header)
	for line := range bytes.Lines(body) {
		if m, ok := count.Find(line); ok {
			marks = append(marks, m)
			r.numbers = append(r.numbers, m.Number)
		}
	}
	return marks
}

func (r *received) sorted() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.numbers))
}

// post runs one stream against a server and returns the last report.
func post(t *testing.T, handler http.HandlerFunc, s Stream) Tally {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	s.URL = server.URL + s.URL
	if s.Expect == nil {
		s.Expect = []int{202}
	}
	var out bytes.Buffer
	must.Do(t, Run(t.Context(), Plan{Streams: []Stream{s}}, &out))
	var r Report
	for in := json.NewDecoder(&out); !r.Done; {
		r = Report{}
		must.Do(t, in.Decode(&r))
	}
	return r.Streams[0]
}

func upTo(n int64) (out []int64) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func TestEachNumberIsPostedOnce(t *testing.T) {
	t.Parallel()
	var got received
	tally := post(t, func(w http.ResponseWriter, r *http.Request) { got.record(r); w.WriteHeader(202) },
		Stream{URL: "/a?b=c", Header: map[string]string{"X-N": "n{{n}}"}, Body: `{"m":"{{mark}}","n":"{{n}}"}`, Conns: 8,
			Events: 500})
	if !slices.Equal(got.sorted(), upTo(500)) || tally.Accepted != 500 || tally.Refused != 0 ||
		tally.Answers[202] != 500 ||
		tally.Latency.N() != 500 {
		t.Errorf("%d numbers, %+v", len(got.numbers), tally)
	}
	for i, body := range got.bodies {
		m, _ := count.Find([]byte(body))
		n := fmt.Sprintf("%010d", m.Number)
		if !strings.HasSuffix(body, `"n":"`+n+`"}`) || got.heads[i].Get("X-N") != "n"+n {
			t.Fatalf("%s, X-N %s", body, got.heads[i].Get("X-N"))
		}
	}
}

// {{text}} is another part of the text for each event, and all bodies have the same length.
func TestBodiesDiffer(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{0, 2} {
		var got received
		tally := post(t, func(w http.ResponseWriter, r *http.Request) { got.record(r); w.WriteHeader(202) },
			Stream{URL: "/", Body: `{"t":"{{text}}","m":"{{mark}}"}`, Text: "aaabbbcccd", TextSize: 3, Batch: batch, Conns: 1,
				Events: 4})
		var texts []string
		for _, body := range got.bodies {
			for line := range strings.Lines(body) {
				texts = append(texts, line[6:9])
			}
		}
		if want := []string{"aaa", "bbb", "ccc", "aaa"}; !slices.Equal(texts, want) || !slices.Equal(got.sorted(), upTo(4)) ||
			tally.Accepted != 4 {
			t.Errorf("in batches of %d the texts are %v, want %v; %+v", batch, texts, want, tally)
		}
	}
	for _, s := range []Stream{{Text: "abc", TextSize: 4}, {Text: "abc"},
		{Text: "abc", TextSize: 1, Body: "{{n}}{{text}}"}} {
		s.URL, s.Conns, s.Events, s.Expect = "http://127.0.0.1:1", 1, 1, []int{202}
		s.Body = cmp.Or(s.Body, "{{text}}") + "{{mark}}"
		if err := Run(t.Context(), Plan{Streams: []Stream{s}}, io.Discard); err == nil {
			t.Errorf("a text of %d bytes of %q in %q is posted", s.TextSize, s.Text, s.Body)
		}
	}
}

func TestRefusedEventsOfABatchAreCounted(t *testing.T) {
	t.Parallel()
	var got received
	tally := post(t, func(w http.ResponseWriter, r *http.Request) {
		marks := got.record(r)
		var data []string
		for i, m := range marks {
			if m.Number == 13 {
				data = append(data, fmt.Sprintf(`{"index":%d,"error":{"type":"internal"}}`, i))
			} else {
				data = append(data, fmt.Sprintf(`{"index":%d,"id":"evt_%s"}`, i, strings.Repeat("x", 2000)))
			}
		}
		w.WriteHeader(202)
		for _, part := range strings.SplitAfter(`{"data":[`+strings.Join(data, ",")+`]}`, ",") {
			fmt.Fprint(w, part) // longer than net/http's buffer, so it is sent in chunks
			_ = http.NewResponseController(w).Flush()
		}
	}, Stream{URL: "/", Body: "{{mark}}", Batch: 10, Conns: 2, Events: 25})
	if !slices.Equal(got.sorted(), upTo(25)) || tally.Accepted != 24 || !slices.Equal(tally.RefusedNumbers, []int64{13}) {
		t.Errorf("%v, %+v", got.sorted(), tally)
	}
}

// Requests go to the paths in turn, each number once, in batches too.
func TestPathsTakeTurns(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{0, 5} {
		var got received
		var mu sync.Mutex
		byPath := map[string][]int64{}
		tally := post(t, func(w http.ResponseWriter, r *http.Request) {
			marks := got.record(r)
			mu.Lock()
			for _, m := range marks {
				byPath[r.URL.Path] = append(byPath[r.URL.Path], m.Number/int64(max(batch, 1))%3)
			}
			mu.Unlock()
			w.WriteHeader(202)
		}, Stream{URL: "/a", Paths: []string{"/a", "/b", "/c"}, Body: `{{mark}}`, Batch: batch, Conns: 4, Events: 60})
		if !slices.Equal(got.sorted(), upTo(60)) || tally.Accepted != 60 {
			t.Errorf("%v, %+v", got.sorted(), tally)
		}
		for i, path := range []string{"/a", "/b", "/c"} {
			if of := byPath[path]; len(of) != 20 || slices.Min(of) != int64(i) || slices.Max(of) != int64(i) {
				t.Errorf("%s got %v", path, of)
			}
		}
	}
}

// In an open loop, latency counts from the due time: a server that stalls once delays many events.
func TestOpenLoopCountsFromWhenDue(t *testing.T) {
	t.Parallel()
	var first atomic.Bool
	var due [100]time.Time // the sink measures from the due time too
	tally := post(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if m, ok := count.Find(body); ok && m.Number < 100 {
			due[m.Number] = m.Due
		}
		if first.CompareAndSwap(false, true) {
			time.Sleep(500 * time.Millisecond)
		}
		w.WriteHeader(202)
	}, Stream{URL: "/", Body: "{{mark}}", Conns: 1, Rate: 100, Events: 100}) // not for a second: the machine may be busy
	if tally.Accepted != 100 {
		t.Errorf("%d of 100 events", tally.Accepted)
	}
	for i := range due {
		if after := due[i].Sub(due[0]); (after - time.Duration(i)*10*time.Millisecond).Abs() > time.Millisecond {
			t.Fatalf("event %d was due %v after the first", i, after)
		}
	}
	if slow := tally.Latency.Quantile(0.75); slow < 200*time.Millisecond || tally.Late < 40 {
		t.Errorf("a stall of 0.5 s: third quartile %v, %d late", slow, tally.Late)
	}
}

func TestRefusalsAndBrokenConnections(t *testing.T) {
	t.Parallel()
	tally := post(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch m, _ := count.Find(body); m.Number % 4 {
		case 1:
			w.WriteHeader(503)
		case 2:
			panic(http.ErrAbortHandler)
		case 3:
			w.Header().Set("Connection", "close")
			w.WriteHeader(202)
		default:
			w.WriteHeader(202)
		}
	}, Stream{URL: "/", Body: "{{mark}}", Conns: 1, Events: 8})
	if tally.Accepted != 4 || tally.Refused != 4 || !slices.Equal(tally.RefusedNumbers, []int64{1, 2, 5, 6}) ||
		tally.Answers[0] != 2 || tally.NoAnswer != "EOF" || tally.Answers[503] != 2 {
		t.Errorf("%+v", tally)
	}
}

// Over TLS a request may pay for a handshake of its own; the server's certificate is verified.
func TestFreshConnectionsOverTLS(t *testing.T) {
	t.Parallel()
	var dialled atomic.Int64
	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			dialled.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	trusted := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	f := func(fresh bool, ca string, connections, accepted int64) {
		t.Helper()
		dialled.Store(0)
		s := must.Get(newStream(Stream{URL: server.URL, Body: markPlaceholder, Conns: 1, Events: 5, Expect: []int{202},
			Fresh: fresh, CA: ca}))(t)
		s.run(t.Context())
		if got := s.report(true); got.Accepted != accepted || dialled.Load() != connections {
			t.Errorf("accepted %d over %d connections: %s", got.Accepted, dialled.Load(), got.NoAnswer)
		}
	}
	f(false, trusted, 1, 5)
	f(true, trusted, 5, 5)
	f(false, "", 5, 0)
}

// A server closes idle connections, perhaps while a post is on its way, so old ones are not reused.
func TestOldConnectionIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	var dialled atomic.Int64
	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			dialled.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	s := must.Get(newStream(Stream{URL: server.URL, Body: markPlaceholder, Expect: []int{202}}))(t)
	c := s.connection()
	defer c.close()
	for i, want := range []int64{1, 1, 2} {
		if i == 2 {
			c.deadline = c.deadline.Add(-maxConnAge)
		}
		c.post(t.Context(), int64(i), 1, time.Now())
		if n := dialled.Load(); n != want {
			t.Errorf("after post %d there were %d connections, want %d", i+1, n, want)
		}
	}
	if got := s.report(true); got.Accepted != 3 {
		t.Errorf("accepted %d of 3: %v %s", got.Accepted, got.Answers, got.NoAnswer)
	}
}

func TestAnswersMustBeHTTP(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SSH-2.0-x\r\n\r\n":                                               "not HTTP/1",
		"HTTP/1.1 abc\r\n\r\n":                                            "no status",
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n":                    "content length",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n": "chunk",
	} {
		if _, err := parseResponse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	whole := "HTTP/1.1 204 No Content\r\ntransfer-encoding: Chunked\r\nConnection: Close\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n"
	for i := range whole {
		if r, err := parseResponse([]byte(whole[:i])); err != nil || r.size != 0 {
			t.Fatalf("%q: %+v %v", whole[:i], r, err)
		}
	}
	if r, err := parseResponse([]byte(whole + "HTTP")); err != nil || r.size != len(whole) || string(r.body) != "abc" ||
		r.status != 204 || !r.closes {
		t.Errorf("%+v %v", r, err)
	}
}

func TestPlanFaultsAreNamed(t *testing.T) {
	t.Parallel()
	ok := Stream{URL: "http://h/", Body: "{{mark}}", Conns: 1, Events: 1, Expect: []int{200}}
	for want, change := range map[string]func(*Stream){
		"url":    func(s *Stream) { s.URL = "ftp://h/" },
		"run":    func(s *Stream) { s.Run = count.MaxRuns },
		"conns":  func(s *Stream) { s.Conns = 0 },
		"batch":  func(s *Stream) { s.Batch = -1 },
		"rate":   func(s *Stream) { s.Rate = -1 },
		"for":    func(s *Stream) { s.Events = 0 },
		"expect": func(s *Stream) { s.Expect = nil },
		"body":   func(s *Stream) { s.Body = "nothing" },
		"header": func(s *Stream) { s.Header = map[string]string{"a": "b\r\nc: d"} },
		"status": func(s *Stream) { s.Expect = []int{5} },
		"paths":  func(s *Stream) { s.Paths = []string{"/a", "/ab"} },
		"path":   func(s *Stream) { s.Paths = []string{"/a b"} },
		"more":   func(s *Stream) { s.Paths = make([]string, maxPaths+1) },
	} {
		s := ok
		change(&s)
		if err := Run(t.Context(), Plan{Streams: []Stream{s}}, io.Discard); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := Run(t.Context(), Plan{}, io.Discard); err == nil {
		t.Error("an empty plan was run")
	}
}

// A load ends when its input ends, so that it does not outlive the process that started it.
func TestLoadEndsWithItsInput(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }))
	defer server.Close()
	in, hold := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Main(context.Background(), in, io.Discard) }()
	endless := Stream{URL: server.URL, Body: "{{mark}}", Conns: 2, For: time.Hour, Expect: []int{202}}
	must.Do(t, json.NewEncoder(hold).Encode(Plan{Streams: []Stream{endless}}))
	hold.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the load still runs after its input has ended")
	}
}
