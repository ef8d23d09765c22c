package conformance

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Sink is an HTTPS server for the destinations of all cases; each case has paths of its own on it.
type Sink struct {
	server *httptest.Server
	count  atomic.Int64

	mu        sync.Mutex // guards receivers
	receivers map[string]*Receiver
}

// NewSink starts one. Its certificate is the one of net/http/httptest.
func NewSink(t *testing.T) *Sink {
	s := &Sink{receivers: map[string]*Receiver{}}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	return s
}

// Delivery is one request that a receiver got.
type Delivery struct {
	Method string
	Header http.Header
	Body   []byte
	At     time.Time
}

// Receiver is one destination.
type Receiver struct {
	URL    string
	answer func(n int) (status int)

	mu  sync.Mutex // guards got
	got []Delivery
}

// receiver makes a destination that answers its n-th request, from 1, with a status; nil = always 200.
func (c *C) receiver(answer func(n int) (status int)) *Receiver {
	path := fmt.Sprintf("/%d", c.Sink.count.Add(1))
	r := &Receiver{URL: c.Sink.server.URL + path, answer: answer}
	c.Sink.mu.Lock()
	defer c.Sink.mu.Unlock()
	c.Sink.receivers[path] = r
	return r
}

// always answers every request alike.
func always(status int) func(int) int { return func(int) int { return status } }

// failing answers the first n requests with 500.
func failing(n int) func(int) int {
	return func(i int) int {
		if i <= n {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}
}

func (s *Sink) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	to := s.receivers[r.URL.Path]
	s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if to == nil || err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	to.mu.Lock()
	to.got = append(to.got, Delivery{r.Method, r.Header.Clone(), body, time.Now()})
	n := len(to.got)
	to.mu.Unlock()
	status := http.StatusOK
	if to.answer != nil {
		status = to.answer(n)
	}
	w.WriteHeader(status)
}

// deliveries are the requests so far.
func (r *Receiver) deliveries() []Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Delivery(nil), r.got...)
}

// wait returns the requests once there are n.
func (r *Receiver) wait(c *C, n int) (got []Delivery) {
	c.Helper()
	c.eventually(patience, func() string {
		if got = r.deliveries(); len(got) < n {
			return fmt.Sprintf("%d requests arrived at %s, want %d", len(got), r.URL, n)
		}
		return ""
	})
	return got
}

// lines are the values of a header of a raw list [[name, value], …].
func lines(raw any, name string) (values []string) {
	list, _ := raw.([]any)
	for _, line := range list {
		if strings.EqualFold(text(line, 0), name) {
			values = append(values, text(line, 1))
		}
	}
	return values
}
