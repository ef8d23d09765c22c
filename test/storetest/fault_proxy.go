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

// Fault is what a FaultProxy does to one statement.
type Fault int

// Faults, from the least to the most that ClickHouse has seen of the statement.
const (
	NoFault Fault = iota
	Refused       // the proxy answers with FaultProxy.RefusalCode; ClickHouse never sees the statement
	Cut           // the connection is closed before the statement is sent on
	Torn          // the connection is closed when half of the statement has been sent on
	Lost          // the statement runs, its answer is lost
	Half          // the statement runs, and the connection is closed in the middle of the answer
	Stuck         // the statement runs, and the answer is withheld until the client disconnects or ReleaseStuck is called
)

func (f Fault) String() string {
	return [...]string{"sound", "refused", "cut", "torn", "lost", "half", "stuck"}[f]
}

// FaultProxy is an HTTP proxy between the store and ClickHouse that makes chosen statements fail.
type FaultProxy struct {
	testing.TB
	URL            string // of the bench's database
	engine         string
	client         *http.Client
	released       chan struct{}
	StuckStatement chan struct{} // capacity 1: a statement is stuck
	ReleaseStuck   func()        // sends the answers of all stuck statements
	// OnStatement, if set before the first statement, is called with the duration of each statement.
	OnStatement func(r *http.Request, statement string, took time.Duration)

	mu          sync.Mutex                            // guards the fields below
	rule        func(nth int, statement string) Fault // nil: no faults
	RefusalCode int                                   // error code of Refused
	count       int                                   // statements since the rule was set
	hits        int                                   // statements with a fault since the rule was set
}

// NewFaultProxy starts a proxy before the database of a bench, without faults.
func NewFaultProxy(b *Bench) *FaultProxy {
	g := &FaultProxy{TB: b, engine: Engines.ClickHouse, client: &http.Client{Transport: &http.Transport{}},
		released: make(chan struct{}), StuckStatement: make(chan struct{}, 1), RefusalCode: 243}
	b.spoil()
	g.ReleaseStuck = sync.OnceFunc(func() { close(g.released) })
	server := httptest.NewServer(g)
	g.URL = strings.Replace(b.URL, Engines.ClickHouse, server.Listener.Addr().String(), 1)
	b.Cleanup(g.client.CloseIdleConnections)
	b.Cleanup(server.Close)
	b.Cleanup(g.ReleaseStuck)
	return g
}

// SetRule makes rule choose the fault of each following statement, numbered from 0. It returns how many statements
// there were under the previous rule and how many of them had a fault.
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

// hold withholds an answer until the client disconnects or all stuck statements are released.
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

// ServeHTTP forwards one statement to ClickHouse and its answer back, with the fault that the rule chooses.
func (g *FaultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	statement := r.URL.Query().Get("query") // an insert has its statement here and its rows in the body
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
		panic(http.ErrAbortHandler) // the test is ending
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

// WriterConfig returns cfg with the URL of the proxy.
func (g *FaultProxy) WriterConfig(cfg write.WriterConfig) write.WriterConfig {
	cfg.URL = g.URL
	return cfg
}

// CountInserts counts the inserts into a table from now on. It replaces the rule.
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
