package storetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/store/write"
)

// Fault is what goes wrong with one statement.
type Fault int

// What may go wrong.
const (
	NoFault Fault = iota
	Refused       // ClickHouse says that it has no room; it has not looked at the statement
	Cut           // the connection ends before the statement arrives
	Torn          // it ends when half of the statement has arrived
	Lost          // the statement is carried out, and its answer is lost
	Half          // it is carried out, and the connection ends in the middle of the answer
	Stuck         // it is carried out, and the answer never comes: until the client goes, or free is called
)

func (f Fault) String() string {
	return [...]string{"sound", "refused", "cut", "torn", "lost", "half", "stuck"}[f]
}

// Gate stands between the store and ClickHouse, and knows one statement from another.
type FaultProxy struct {
	testing.TB
	URL            string // of the bench's database
	engine         string
	client         *http.Client
	released       chan struct{}
	StuckStatement chan struct{} // 1: a statement is stuck
	releaseStuck   func()        // lets every statement that is stuck go on
	// Timed, when set before the first statement, hears how long each has taken.
	OnStatement func(r *http.Request, statement string, took time.Duration)

	mu          sync.Mutex                            // guards what follows
	rule        func(nth int, statement string) Fault // nil = all are sound
	RefusalCode int                                   // what a refusal says
	count       int                                   // statements since the rule was set
	hits        int                                   // of them those that a fault befell
}

// NewFaultProxy is a gate before the database of a bench.
func NewFaultProxy(b *Bench) *FaultProxy {
	g := &FaultProxy{TB: b, engine: Engines.ClickHouse, client: &http.Client{Transport: &http.Transport{}},
		released: make(chan struct{}), StuckStatement: make(chan struct{}, 1), RefusalCode: 243}
	g.releaseStuck = sync.OnceFunc(func() { close(g.released) })
	server := httptest.NewServer(g)
	g.URL = strings.Replace(b.URL, Engines.ClickHouse, server.Listener.Addr().String(), 1)
	b.Cleanup(g.client.CloseIdleConnections)
	b.Cleanup(server.Close)
	b.Cleanup(g.releaseStuck)
	return g
}

// Set gives statements, counted from 0 on, the faults that a rule tells, and returns how many the last rule has seen
// and how many of them it has spoilt.
func (g *FaultProxy) SetRule(rule func(nth int, statement string) Fault) (count, hits int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count, hits = g.count, g.hits
	g.rule, g.count, g.hits = rule, 0, 0
	return count, hits
}

func (g *FaultProxy) applyRule(statement string) (f Fault, code int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rule != nil {
		f = g.rule(g.count, statement)
	}
	g.count++
	if f != NoFault {
		g.hits++
	}
	return f, g.RefusalCode
}

// hold keeps an answer until the client goes, or everything that is stuck goes on.
func (g *FaultProxy) hold(ctx context.Context) {
	select {
	case g.StuckStatement <- struct{}{}:
	default:
	}
	select {
	case <-ctx.Done():
	case <-g.released:
	}
}

// ServeHTTP carries one statement to ClickHouse and its answer back, or not.
func (g *FaultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	statement := r.URL.Query().Get("query") // of an insert; the rows are in the body
	if statement == "" {
		statement = string(body)
	}
	f, code := g.applyRule(statement)
	switch f {
	case Refused:
		w.Header().Set("X-ClickHouse-Exception-Code", fmt.Sprint(code))
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "Code: %d. DB::Exception: no room (FOR_THE_TEST)\n", code)
		return
	case Cut:
		panic(http.ErrAbortHandler)
	}
	var sent io.Reader = bytes.NewReader(body)
	if f == Torn {
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
	if f == Torn {
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
	if g.OnStatement != nil {
		g.OnStatement(r, statement, time.Since(began))
	}
	if err != nil || f == Lost {
		panic(http.ErrAbortHandler)
	}
	if f == Stuck {
		g.hold(r.Context())
	}
	for name, values := range answer.Header {
		if name != "Content-Length" || f != Half {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(answer.StatusCode)
	if f == Half {
		_, _ = w.Write(text[:len(text)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(text)
}

// tornReader fails, which ends the connection.
type tornReader struct{}

func (tornReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Through is a writer's configuration behind the gate.
func (g *FaultProxy) WriterConfig(cfg write.WriterConfig) write.WriterConfig {
	cfg.URL = g.URL
	return cfg
}

// Inserts counts those into a table from now on.
func (g *FaultProxy) CountInserts(table string) (count func() int) {
	var mu sync.Mutex // guards n
	n := 0
	g.SetRule(func(_ int, statement string) Fault {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(statement, "INSERT INTO "+table+" ") {
			n++
		}
		return NoFault
	})
	return func() int { mu.Lock(); defer mu.Unlock(); return n }
}
