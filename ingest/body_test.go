package ingest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// slowClient is a client that sends slower than the connection allows: a pipe whose read deadline the server sets.
type slowClient struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (c *slowClient) SetReadDeadline(at time.Time) error { return c.conn.SetReadDeadline(at) }

// A body that arrives at the minimum rate may take any time. One that falls below the rate is cut off at that moment,
// not after a fixed time.
func TestMinimumBodyRate(t *testing.T) {
	confirm := producerFunc(func(_ string, _ int32, r *record, done func(*record, error)) { done(r, nil) })
	f := func(name string, status int, after time.Duration, first, each, total int) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newIngest(t, options{maxBody: maxBody}, confirm)
				server, client := net.Pipe()
				defer client.Close()
				var sending sync.WaitGroup
				sending.Go(func() {
					if _, err := client.Write(make([]byte, first)); err != nil {
						return
					}
					for sent := first; sent < total && each > 0; sent += each {
						time.Sleep(time.Second)
						if _, err := client.Write(make([]byte, min(each, total-sent))); err != nil {
							return
						}
					}
				})
				r := httptest.NewRequest("POST", PathPrefix+token, io.LimitReader(server, int64(total)))
				r.ContentLength = int64(total)
				answer := &slowClient{httptest.NewRecorder(), server}
				began := time.Now()
				w.ingest.Handler().ServeHTTP(answer, r)
				if took := time.Since(began); answer.Code != status || (took-after).Abs() > 100*time.Millisecond {
					t.Errorf("answered %d after %v, want %d after %v: %s", answer.Code, took, status, after, answer.Body)
				}
				if n := w.ingest.bodies.readingBytes.Load(); n != 0 || len(w.ingest.bodies.shares) != 0 {
					t.Errorf("%d bytes still count as being read, for %d", n, len(w.ingest.bodies.shares))
				}
				server.Close()
				sending.Wait()
			})
		})
	}
	const kb = 1 << 10
	f("at the rate for a minute", 200, 60*time.Second, 16*kb, 16*kb, 61*16*kb)
	f("half the rate", 408, 8500*time.Millisecond, 0, 7*kb, 1000*kb)
	f("nothing", 408, bodyGrace, 0, 0, 1000*kb)
	f("much and then nothing", 408, bodyGrace+20*time.Second, 320*kb, 0, 1000*kb)
	f("all but a byte", 408, bodyGrace+64*time.Second, maxBody-1, 0, maxBody)
}

// One endpoint and one client may each use an eighth of the memory for bodies. The shares are independent and are
// deleted with the last body.
func TestBodyMemoryShares(t *testing.T) {
	b := bodyReader{maxBytes: maxBody, budget: 8000}
	client := func(s string) netip.Addr { return netip.MustParseAddr(s) }
	var held []*trackedBody
	f := func(endpoint, from string, n int64, want error) {
		t.Helper()
		h := b.track(endpoint, client(from))
		held = append(held, h)
		is.ErrorIs(t, b.addBytes(h, n), want, "%d bytes for %s from %s", n, endpoint, from)
		if want != nil {
			b.release(h)
			held = held[:len(held)-1]
		}
	}
	f("a", "192.0.2.1", 600, nil)
	f("a", "192.0.2.2", 401, errReadShare)
	f("a", "192.0.2.2", 400, nil)
	f("a", "192.0.2.3", 1, errReadShare)
	f("b", "192.0.2.1", 401, errReadShare) // the client's share is used up
	f("b", "192.0.2.1", 400, nil)
	f("c", "2001:db8::1", 1000, nil)
	f("d", "2001:db8::2:1", 1, errReadShare) // the same /64
	f("d", "2001:db8:0:1::1", 1000, nil)
	for i := range 4 {
		f(fmt.Sprint("e", i), fmt.Sprintf("192.0.2.%d", 10+i), 1000, nil)
	}
	f("f", "192.0.2.20", 600, nil)
	f("g", "192.0.2.21", 1, errReadBudget)
	for _, h := range held {
		b.release(h)
	}
	if len(b.shares) != 0 || b.readingBytes.Load() != 0 {
		t.Errorf("%d shares and %d bytes are left", len(b.shares), b.readingBytes.Load())
	}
}

// A client that stalls in the middle of many bodies uses up only the share of that endpoint and of its own address.
// Other endpoints still accept events.
func TestStalledBodiesHoldOneShare(t *testing.T) {
	w := newWorld(t, options{})
	w.ingest.bodies.budget = 1 << 20
	other := *w.EndpointByToken(token)
	other.ID = "ep_other"
	w.mu.Lock()
	w.endpoints["other"] = &other
	w.mu.Unlock()
	dialFrom := func(address string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		conn := must.Get(d.Dial("tcp", strings.TrimPrefix(w.url, "http://")))(t)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	const part = 50 << 10
	post := func(conn net.Conn, token string, length, send int) *http.Response {
		t.Helper()
		head := "POST %s%s HTTP/1.1\r\nHost: relay.example.com\r\nContent-Length: %d\r\n\r\n"
		fmt.Fprintf(conn, head, PathPrefix, token, length)
		must.Get(conn.Write(make([]byte, send)))(t)
		if send < length && length == maxBody {
			return nil
		}
		res := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
		res.Body.Close()
		return res
	}
	stalled := []net.Conn{dialFrom("127.0.0.1"), dialFrom("127.0.0.1")}
	for _, conn := range stalled {
		post(conn, token, maxBody, part)
	}
	eventually(t, "both are being read", func() bool { return w.ingest.bodies.readingBytes.Load() == 2*part })
	for _, c := range []struct {
		from, token string
		status      int
	}{
		{"127.0.0.2", token, 503},   // the endpoint's share
		{"127.0.0.1", "other", 503}, // the address's
		{"127.0.0.2", "other", 200},
	} {
		res := post(dialFrom(c.from), c.token, part, part)
		if res.StatusCode != c.status || c.status == 503 && res.Header.Get("Retry-After") != "1" {
			t.Errorf("from %s to %s: %s %v, want %d", c.from, c.token, res.Status, res.Header, c.status)
		}
	}
	w.want(w.do("POST", "", bytes.NewReader(make([]byte, 2<<10))), 200) // small bodies need no share
	is.Equal(t, w.metric(w.ingest.metrics.refused.WithLabelValues("body_memory_share")), 2, "refusals are counted")
	for _, conn := range stalled {
		conn.Close()
	}
	eventually(t, "the share is free", func() bool { return w.ingest.bodies.readingBytes.Load() == 0 })
	if res := post(dialFrom("127.0.0.1"), token, part, part); res.StatusCode != 200 {
		t.Errorf("afterwards: %s", res.Status)
	}
}

// AcceptAll returns the errors in the order of the events, in whatever order the log answers.
func TestAcceptAll(t *testing.T) {
	broken := errors.New("broken")
	n := 0
	w := newWorld(t, options{produce: func(next Producer) Producer {
		return producerFunc(func(topic string, p int32, r *record, done func(*record, error)) {
			switch n++; n % 3 {
			case 0:
				done(r, stream.ErrBufferFull)
			case 1:
				next.Produce(topic, p, r, done)
			default:
				done(r, broken)
			}
		})
	}})
	events := make([]*event.Event, 999)
	for i := range events {
		events[i] = &event.Event{Source: event.SourceAPI, Verdict: event.VerdictUnverified, Body: fmt.Appendf(nil, "%d", i)}
	}
	errs := w.ingest.Acceptor().AcceptAll(t.Context(), events, w.endpoints[token])
	var want []string
	for i, err := range errs {
		full, unknown := errors.Is(err, stream.ErrBufferFull), errors.Is(err, ErrOutcomeUnknown)
		switch i % 3 {
		case 0:
			want = append(want, string(events[i].Body))
			must.Do(t, err, "event %d", i)
		case 1:
			if full || !unknown || !errors.Is(err, broken) {
				t.Fatalf("event %d: %v", i, err)
			}
		default:
			if !full || unknown {
				t.Fatalf("event %d: %v", i, err)
			}
		}
	}
	stored := w.stored()
	must.Equal(t, len(stored), len(want), "events are stored")
	for i, e := range stored {
		must.Equal(t, string(e.Body), want[i], "event %d of the log is %s", i, e.Body)
	}
	is.Equal(t, w.metric(w.ingest.metrics.refused.WithLabelValues("unknown")), 333, "unknown outcomes are counted")
}

// countingProducer counts calls of Produce and of ProduceUnordered.
type countingProducer struct {
	Producer
	ordered, unordered int
}

func (w *countingProducer) Produce(topic string, p int32, r *record, done func(*record, error)) {
	w.ordered++
	w.Producer.Produce(topic, p, r, done)
}

func (w *countingProducer) ProduceUnordered(topic string, p int32, r *record, done func(*record, error)) {
	w.unordered++
	w.Producer.ProduceUnordered(topic, p, r, done)
}

// Events of one batch are produced in order; a single event is produced unordered.
func TestOnlyBatchesAreProducedInOrder(t *testing.T) {
	counting := &countingProducer{}
	w := newWorld(t, options{produce: func(next Producer) Producer {
		counting.Producer = next
		return counting
	}})
	some := func(n int) (events []*event.Event) {
		for range n {
			events = append(events, &event.Event{Source: event.SourceAPI, Verdict: event.VerdictUnverified, Body: []byte("{}")})
		}
		return events
	}
	acceptor := w.ingest.Acceptor()
	if err := acceptor.Accept(t.Context(), some(1)[0], w.endpoints[token]); err != nil || counting.unordered != 1 ||
		counting.ordered != 0 {
		t.Errorf("a single event: %v, %d in order, %d without", err, counting.ordered, counting.unordered)
	}
	acceptor.AcceptAll(t.Context(), some(3), w.endpoints[token])
	if counting.unordered != 1 || counting.ordered != 3 {
		t.Errorf("a batch of three: %d in order, %d without", counting.ordered, counting.unordered-1)
	}
}
