package store_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/store"
)

// fault is what goes wrong with one statement.
type fault int

const (
	sound   fault = iota
	refused       // ClickHouse says that it has no room; it has not looked at the statement
	cut           // the connection ends before the statement arrives
	torn          // it ends when half of the statement has arrived
	lost          // the statement is carried out, and its answer is lost
	half          // it is carried out, and the connection ends in the middle of the answer
	stuck         // it is carried out, and the answer never comes: until the client goes, or free is called
)

func (f fault) String() string {
	return [...]string{"sound", "refused", "cut", "torn", "lost", "half", "stuck"}[f]
}

// gate stands between the store and ClickHouse, and knows one statement from another.
type gate struct {
	testing.TB
	url    string // of the bench's database
	engine string
	client *http.Client
	freed  chan struct{}
	caught chan struct{} // 1: a statement is stuck
	free   func()        // lets every statement that is stuck go on
	// timed, when set before the first statement, hears how long each has taken.
	timed func(r *http.Request, statement string, took time.Duration)

	mu    sync.Mutex                            // guards what follows
	rule  func(nth int, statement string) fault // nil = all are sound
	code  int                                   // what a refusal says
	count int                                   // statements since the rule was set
	hits  int                                   // of them those that a fault befell
}

func newGate(b *bench) *gate {
	g := &gate{TB: b, engine: engines.clickhouse, client: &http.Client{Transport: &http.Transport{}}, freed: make(chan struct{}), caught: make(chan struct{}, 1), code: 243}
	g.free = sync.OnceFunc(func() { close(g.freed) })
	server := httptest.NewServer(g)
	g.url = strings.Replace(b.url, engines.clickhouse, server.Listener.Addr().String(), 1)
	b.Cleanup(g.client.CloseIdleConnections)
	b.Cleanup(server.Close)
	b.Cleanup(g.free)
	return g
}

// set gives statements, counted from 0 on, the faults that a rule tells, and returns how many the last rule has seen and
// how many of them it has spoilt.
func (g *gate) set(rule func(nth int, statement string) fault) (count, hits int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count, hits = g.count, g.hits
	g.rule, g.count, g.hits = rule, 0, 0
	return count, hits
}

func (g *gate) judge(statement string) (f fault, code int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rule != nil {
		f = g.rule(g.count, statement)
	}
	g.count++
	if f != sound {
		g.hits++
	}
	return f, g.code
}

// ServeHTTP carries one statement to ClickHouse and its answer back, or not.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	statement := r.URL.Query().Get("query") // of an insert; the rows are in the body
	if statement == "" {
		statement = string(body)
	}
	f, code := g.judge(statement)
	switch f {
	case refused:
		w.Header().Set("X-ClickHouse-Exception-Code", fmt.Sprint(code))
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "Code: %d. DB::Exception: no room (FOR_THE_TEST)\n", code)
		return
	case cut:
		panic(http.ErrAbortHandler)
	}
	var sent io.Reader = bytes.NewReader(body)
	if f == torn {
		sent = io.MultiReader(bytes.NewReader(body[:len(body)/2]), tornReader{})
	}
	forward, err := http.NewRequestWithContext(g.Context(), r.Method, "http://"+g.engine+r.URL.RequestURI(), sent)
	if err != nil {
		g.Error(err)
		return
	}
	forward.Header, forward.ContentLength = r.Header.Clone(), int64(len(body))
	began := time.Now()
	answer, err := g.client.Do(forward)
	if f == torn {
		if err == nil {
			answer.Body.Close()
		}
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the test ends
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if g.timed != nil {
		g.timed(r, statement, time.Since(began))
	}
	if err != nil || f == lost {
		panic(http.ErrAbortHandler)
	}
	if f == stuck {
		select {
		case g.caught <- struct{}{}:
		default:
		}
		select {
		case <-r.Context().Done():
		case <-g.freed:
		}
	}
	for name, values := range answer.Header {
		if name != "Content-Length" || f != half {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(answer.StatusCode)
	if f == half {
		_, _ = w.Write(text[:len(text)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(text)
}

// tornReader fails, which ends the connection.
type tornReader struct{}

func (tornReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// through is a writer's configuration behind the gate.
func (g *gate) through(cfg store.WriterConfig) store.WriterConfig {
	cfg.URL = g.url
	return cfg
}
