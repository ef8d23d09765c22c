package conformance

import (
	"encoding/base64"
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

// Sink is an HTTPS server for the destinations of all cases. Each Receiver has its own path.
type Sink struct {
	server        *httptest.Server
	receiverCount atomic.Int64

	mu        sync.Mutex // guards receivers
	receivers map[string]*Receiver
}

// NewSink starts a Sink and stops it when the test ends. Its certificate is that of net/http/httptest.
func NewSink(t *testing.T) *Sink {
	s := &Sink{receivers: map[string]*Receiver{}}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	return s
}

// Delivery is one request to a Receiver.
type Delivery struct {
	Method string
	Header http.Header
	Body   []byte
	At     time.Time
}

// Receiver is one destination and the requests it has received.
type Receiver struct {
	URL    string
	answer func(n int) (status int)

	mu  sync.Mutex // guards got
	got []Delivery
}

// receiver creates a destination. answer returns the status for the n-th request, from 1; nil answers all with 200.
func (c *C) receiver(answer func(n int) (status int)) *Receiver {
	path := fmt.Sprintf("/%d", c.Sink.receiverCount.Add(1))
	r := &Receiver{URL: c.Sink.server.URL + path, answer: answer}
	c.Sink.mu.Lock()
	defer c.Sink.mu.Unlock()
	c.Sink.receivers[path] = r
	return r
}

// alwaysStatus answers every request with the status.
func alwaysStatus(status int) func(int) int { return func(int) int { return status } }

// failFirst answers the first n requests with 500, later ones with 200.
func failFirst(n int) func(int) int {
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

// deliveries returns the requests so far, oldest first.
func (r *Receiver) deliveries() []Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Delivery(nil), r.got...)
}

// wait waits until at least n requests have arrived and returns them.
func (r *Receiver) wait(c *C, n int) (got []Delivery) {
	c.Helper()
	c.eventually(waitLimit, func() string {
		if got = r.deliveries(); len(got) < n {
			return fmt.Sprintf("%d requests arrived at %s, want %d", len(got), r.URL, n)
		}
		return ""
	})
	return got
}

// headerBytes returns the value of a header of an event if it is not UTF-8, else "".
func headerBytes(e object, name string) string {
	list, _ := e["headers_raw"].([]any)
	for i, line := range list {
		if strings.EqualFold(text(line, 0), name) {
			value, _ := base64.StdEncoding.DecodeString(text(e, "headers_base64", i))
			return string(value)
		}
	}
	return ""
}

// headerValues returns the values of a header in a raw list [[name, value], …].
func headerValues(raw any, name string) (values []string) {
	list, _ := raw.([]any)
	for _, line := range list {
		if strings.EqualFold(text(line, 0), name) {
			values = append(values, text(line, 1))
		}
	}
	return values
}
