package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
)

// balancer sends requests to the nodes of a cluster in turn, as deploy/compose/haproxy.cfg does: not to nodes whose
// /readyz fails, and to another one only if no connection was made, so that nothing is sent twice. If no node is ready
// it tries all. It is the transport of a client and records each request.
type balancer struct {
	via  *http.Transport
	stop chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	backs   []*backend
	turn    int
	samples []sample
}

// backend is a node behind a balancer.
type backend struct {
	host    string // with the port
	failed  int    // checks in a row
	removed bool   // by the operator: it gets no new requests
	open    int    // requests without an answer
}

func (b *backend) up() bool { return b.failed < checksToFail && !b.removed }

// sample is one request of a client: when it began, how long it took, and its status; 0 = no answer.
type sample struct {
	at     time.Time
	took   time.Duration
	status int
	fault  string
}

// message matches what an error of the relay says.
var message = regexp.MustCompile(`"message": ?"[^"]*"`)

const (
	checkEvery   = time.Second
	checksToFail = 2
)

// newBalancer starts a balancer in front of nodes; via connects to them. It ends with the test.
func newBalancer(t *testing.T, via *http.Transport, nodes ...*process) *balancer {
	t.Helper()
	b := &balancer{via: via, stop: make(chan struct{})}
	for _, n := range nodes {
		b.backs = append(b.backs, &backend{host: strings.TrimPrefix(n.url, "http://")})
	}
	for _, n := range b.backs {
		b.wg.Go(func() { b.watch(n) })
	}
	t.Cleanup(func() {
		close(b.stop)
		b.wg.Wait()
		via.CloseIdleConnections()
	})
	return b
}

// watch checks a node until the balancer ends.
func (b *balancer) watch(n *backend) {
	cl := http.Client{Transport: b.via, Timeout: 5 * time.Second}
	for {
		select {
		case <-b.stop:
			return
		case <-time.After(checkEvery):
		}
		resp, err := cl.Get("http://" + n.host + "/readyz")
		if err == nil {
			resp.Body.Close()
		}
		b.mu.Lock()
		if err == nil && resp.StatusCode == http.StatusOK {
			n.failed = 0
		} else {
			n.failed++
		}
		b.mu.Unlock()
	}
}

// choose returns the next node that is up and not among tried; if there is none, one that is only not removed; nil if
// all were tried.
func (b *balancer) choose(tried []*backend) *backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	for _, usable := range []func(*backend) bool{(*backend).up, func(n *backend) bool { return !n.removed }} {
		for i := range b.backs {
			if n := b.backs[(b.turn+i)%len(b.backs)]; usable(n) && !slices.Contains(tried, n) {
				n.open++
				return n
			}
		}
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := b.send(r)
	s := sample{at: began, took: time.Since(began)}
	if err != nil {
		s.fault = err.Error()
	} else {
		s.status = resp.StatusCode
	}
	if s.status/100 == 5 {
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		s.fault = strings.Join(strings.Fields(message.FindString(string(body))), " ")
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.samples = append(b.samples, s)
	return resp, err
}

func (b *balancer) send(r *http.Request) (*http.Response, error) {
	var tried []*backend
	fault := errors.New("no node takes requests")
	for {
		n := b.choose(tried)
		if n == nil {
			return nil, fault
		}
		tried = append(tried, n)
		again := r.Clone(r.Context())
		again.URL = &url.URL{Scheme: "http", Host: n.host, Path: r.URL.Path, RawQuery: r.URL.RawQuery}
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		again.Body = body
		resp, err := b.via.RoundTrip(again)
		b.mu.Lock()
		n.open--
		b.mu.Unlock()
		var dial *net.OpError
		if err == nil || !errors.As(err, &dial) || dial.Op != "dial" {
			return resp, err
		}
		fault = err
	}
}

// remove sends a node no new requests and waits until it has answered those that it got.
func (b *balancer) remove(t *testing.T, i int) {
	t.Helper()
	b.set(i, true)
	eventually(t, time.Minute, func() string {
		b.mu.Lock()
		defer b.mu.Unlock()
		if n := b.backs[i].open; n > 0 {
			return fmt.Sprintf("%d requests to %s have no answer", n, b.backs[i].host)
		}
		return ""
	})
}

// set removes a node, or puts it back.
func (b *balancer) set(i int, removed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backs[i].removed = removed
}

// between returns the requests that began in a span of time.
func (b *balancer) between(from, to time.Time) (found []sample) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.samples {
		if !s.at.Before(from) && s.at.Before(to) {
			found = append(found, s)
		}
	}
	return found
}

// A balancer sends a request to another node only if the first did not accept the connection.
func TestBalancerSendsNothingTwice(t *testing.T) {
	got := make(chan string, 10)
	serve := func(name string, answer func(http.ResponseWriter)) *process {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got <- name + " " + string(body)
			answer(w)
		}))
		t.Cleanup(s.Close)
		return &process{client: client{url: s.URL}}
	}
	works := serve("works", func(http.ResponseWriter) {})
	breaks := serve("breaks", func(http.ResponseWriter) { panic(http.ErrAbortHandler) })
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	away := &process{client: client{url: closed.URL}}
	post := func(nodes ...*process) (status int) {
		resp, err := (&http.Client{Transport: newBalancer(t, &http.Transport{}, nodes...)}).Post(
			"http://relay/in/x", "application/json", strings.NewReader("event"))
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	f := func(want int, requests []string, nodes ...*process) {
		t.Helper()
		if status := post(nodes...); status != want || len(got) != len(requests) {
			t.Fatalf("status %d, %d requests; want %d, %v", status, len(got), want, requests)
		}
		for _, r := range requests {
			is.Equal(t, <-got, r, "request")
		}
	}
	f(http.StatusOK, []string{"works event"}, works, away) // the second is the first in turn
	f(0, []string{"breaks event"}, works, breaks)
	f(0, nil, away, away)
}
