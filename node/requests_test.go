package node

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

// fromListener makes each connection one of an address.
type fromListener struct {
	net.Listener
	from string
}

func (l *fromListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &peerConn{c, l.from}, nil
}

// statusOverHTTP2 returns the status of the answer to a GET; 0: the connection has ended.
func statusOverHTTP2(t *testing.T, client *http.Client, url string) int {
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	is.Equal(t, resp.ProtoMajor, 2, "HTTP/")
	return resp.StatusCode
}

// Requests on connections of HTTP/2 are bounded as connections are. One more of an address ends its connection, one
// more of all is refused. Each connection may have one.
func TestRequestsOnHTTP2AreBounded(t *testing.T) {
	for _, c := range []struct {
		from         string
		most, ofPeer int
		status       int // of one request more; 0: the connection ends
	}{
		{from: "192.0.2.1:1", most: 100, ofPeer: 3},
		{from: "127.0.0.1:1", most: 3, ofPeer: 1, status: http.StatusServiceUnavailable},
	} {
		arrived, release := make(chan struct{}, 100), make(chan struct{})
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}))
		limited := newLimitListener(&fromListener{srv.Listener, c.from}, c.most, nil)
		limited.ofPeer = c.ofPeer
		srv.Listener, srv.EnableHTTP2 = limited, true
		watchRequests(srv.Config)
		srv.StartTLS()
		defer srv.Close()
		first := srv.Client()
		second := &http.Client{Transport: first.Transport.(*http.Transport).Clone()} // with a connection of its own
		answers, others := make(chan int, 100), make(chan int, 100)
		ask := func(client *http.Client, answers chan<- int) { answers <- statusOverHTTP2(t, client, srv.URL) }
		wait := func(what string, of chan int, want int) {
			t.Helper()
			select {
			case got := <-of:
				is.Equal(t, got, want, "%s from %s: status", what, c.from)
			case <-time.After(time.Minute):
				t.Errorf("%s from %s: no answer", what, c.from)
			}
		}
		for range 3 {
			go ask(first, answers)
			<-arrived
		}
		go ask(second, others)
		select {
		case <-arrived:
		case status := <-others:
			t.Errorf("the first request of a connection from %s: status %d", c.from, status)
		}
		go ask(first, answers)
		wait("one more", answers, c.status)
		beside := http.StatusOK
		if c.status == 0 {
			beside = 0
		}
		close(release)
		for range 3 {
			wait("one beside it", answers, beside)
		}
		wait("one of another connection", others, http.StatusOK)
		go ask(first, answers)
		wait("after them", answers, http.StatusOK)
		// Handlers end after their clients have the answers, or the end of their connection.
		kit.WaitFor(t, "no request is counted", func() bool {
			limited.mu.Lock()
			defer limited.mu.Unlock()
			return limited.requests == 0 && len(limited.peerRequests) == 0
		})
	}
}

// A request that is refused before it reaches a handler has the headers of every answer.
func TestRefusedRequestHasAnID(t *testing.T) {
	answer := httptest.NewRecorder()
	refuseRequest(answer)
	h := answer.Header()
	if _, err := id.Parse("req_", h.Get("X-Request-Id")); answer.Code != http.StatusServiceUnavailable || err != nil ||
		h.Get("Retry-After") != "1" || h.Get("X-Content-Type-Options") == "" {
		t.Errorf("status %d, %v, %v", answer.Code, h, err)
	}
}
