// Package sink is the destination of a benchmark, a separate process that answers webhooks and counts their marks. The
// path of a request selects the behaviour: /<destination>/<behaviour>, with the behaviours ok (200), hang (no answer),
// fail<percent> (500 at random) and slow<milliseconds>, or slow<milliseconds>after<requests> to answer the first
// requests at once. It shares the cores with the relay, so plain HTTP has its own server loop, at a third of the CPU
// time of net/http: it reads only the request line, Content-Length, Connection and the body. TLS, HTTP/2 and bodies of
// unknown length are served by net/http. It reads one [Query] per line from its standard input, answers each with a
// [Report] on its standard output, and ends when its input ends. Begin with Main and Sink.receive.
package sink

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bits-and-blooms/bitset"

	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/tools/bench/count"
)

// MaxDestinations is the number of destinations that are counted separately.
const MaxDestinations = 16

// Hello is the first line that a sink writes.
type Hello struct {
	URL string `json:"url"`
}

// Query asks for a report.
type Query struct {
	// Refused are the numbers, by run, of events whose post was not accepted. Those that arrived nevertheless are
	// counted separately, so that they do not hide the loss of others.
	Refused map[int][]int64 `json:"refused,omitempty"`
	// Durations requests the histograms too, which are expensive to encode.
	Durations bool `json:"durations,omitempty"`
}

// Report is what has arrived so far.
type Report struct {
	Tallies   []Tally `json:"tallies"`
	Unmarked  int64   `json:"unmarked"`  // requests without a mark
	Malformed int64   `json:"malformed"` // requests that are not HTTP, or of unknown length
}

// Tally counts what arrived of one run at one destination.
type Tally struct {
	Run         int             `json:"run"`
	Destination int             `json:"destination"`
	Requests    int64           `json:"requests"`
	Arrived     int64           `json:"arrived"`          // distinct numbers answered with 200
	Duplicates  int64           `json:"duplicates"`       // answered with 200 again
	Refused     int64           `json:"refused"`          // of Arrived: numbers in Query.Refused
	Last        time.Time       `json:"last,omitzero"`    // when the last new number arrived
	Latency     count.Durations `json:"latency,omitzero"` // from the due time to the arrival of a new number
	Retry       count.Durations `json:"retry,omitzero"`   // from an answer of 500 to the next request of its number
}

// tally is a Tally that is being counted. Its mutex guards all fields.
type tally struct {
	mu sync.Mutex
	Tally
	seen   bitset.BitSet       // numbers answered with 200
	failed map[int64]time.Time // numbers answered with 500 and not retried yet, with the time of the answer
}

// addRequest counts a request when it arrives.
func (t *tally) addRequest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Requests++
}

// record counts a marked request that arrived at the time came, and returns the status of its answer.
func (t *tally) record(mark count.Mark, came time.Time, fails bool) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, ok := t.failed[mark.Number]; ok {
		t.Retry.Add(came.Sub(at))
		delete(t.failed, mark.Number)
	}
	if fails {
		if t.failed == nil {
			t.failed = map[int64]time.Time{}
		}
		t.failed[mark.Number] = time.Now()
		return 500
	}
	if t.seen.Test(uint(mark.Number)) {
		t.Duplicates++
		return 200
	}
	t.seen.Set(uint(mark.Number))
	t.Arrived++
	t.Latency.Add(came.Sub(mark.Due))
	t.Last = came
	return 200
}

// snapshot returns the counts for a query.
func (t *tally) snapshot(q Query) Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.Tally
	for _, n := range q.Refused[out.Run] {
		if t.seen.Test(uint(n)) {
			out.Refused++
		}
	}
	if !q.Durations {
		out.Latency, out.Retry = count.Durations{}, count.Durations{}
		return out
	}
	out.Latency, out.Retry = out.Latency.Clone(), out.Retry.Clone()
	return out
}

// Sink counts what arrives. The zero value is ready.
type Sink struct {
	tallies             [count.MaxRuns][MaxDestinations]atomic.Pointer[tally]
	quickRequests       [MaxDestinations]atomic.Int64 // requests so far to behaviours with "after"
	unmarked, malformed atomic.Int64
}

// tally returns the tally of a run at a destination.
func (s *Sink) tally(run, destination int) *tally {
	at := &s.tallies[run][destination]
	if at.Load() == nil {
		at.CompareAndSwap(nil, &tally{Tally: Tally{Run: run, Destination: destination}})
	}
	return at.Load()
}

// Main is the command `relay-bench sink`.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("relay-bench sink", flag.ContinueOnError)
	flags.SetOutput(stderr)
	listen := flags.String("listen", "127.0.0.1:0", "address to serve on")
	library := flags.Bool("net-http", false, "serve with net/http, which accepts bodies of unknown length")
	ca := flags.String("tls", "", "serve HTTPS with a new certificate, which is written to this file as PEM")
	http2 := flags.Bool("http2", false, "with --tls: also offer HTTP/2")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var conf net.ListenConfig
	l, err := conf.Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	s, scheme := new(Sink), "http"
	serve := s.serve
	switch {
	case *ca != "":
		scheme = "https"
		if l, err = listenTLS(l, *ca, *http2); err != nil {
			return err
		}
		serve = s.serveNetHTTP
	case *library:
		serve = s.serveNetHTTP
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { serve(ctx, l) })
	defer wg.Wait()
	defer cancel()
	out := json.NewEncoder(stdout)
	if err := out.Encode(Hello{URL: scheme + "://" + l.Addr().String()}); err != nil {
		return err
	}
	return s.answerQueries(stdin, out)
}

// answerQueries answers queries until the input ends.
func (s *Sink) answerQueries(stdin io.Reader, out *json.Encoder) error {
	for in := json.NewDecoder(bufio.NewReader(stdin)); ; {
		var q Query
		switch err := in.Decode(&q); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read query: %w", err)
		}
		if err := out.Encode(s.Report(q)); err != nil {
			return err
		}
	}
}

// Report returns what has arrived so far.
func (s *Sink) Report(q Query) Report {
	r := Report{Unmarked: s.unmarked.Load(), Malformed: s.malformed.Load()}
	for run := range s.tallies {
		for destination := range s.tallies[run] {
			if t := s.tallies[run][destination].Load(); t != nil {
				r.Tallies = append(r.Tallies, t.snapshot(q))
			}
		}
	}
	return r
}

// behaviour is how to answer the requests of a path.
type behaviour struct {
	destination int
	hang        bool
	fail        int // percent
	slow        time.Duration
	after       int64 // requests that are not slow
}

// parsePath parses /<destination>/<behaviour>. An unknown path is destination 0 with the behaviour ok.
func parsePath(path string) (b behaviour) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if n, err := strconv.Atoi(first); err == nil && n >= 0 && n < MaxDestinations {
		b.destination = n
	}
	what, _, _ := strings.Cut(rest, "?")
	if what == "hang" {
		b.hang = true
	}
	if p, ok := strings.CutPrefix(what, "fail"); ok {
		b.fail, _ = strconv.Atoi(p)
	}
	if ms, ok := strings.CutPrefix(what, "slow"); ok {
		ms, after, _ := strings.Cut(ms, "after")
		b.after, _ = strconv.ParseInt(after, 10, 64)
		n, _ := strconv.Atoi(ms)
		b.slow = time.Duration(n) * time.Millisecond
	}
	return b
}

// receive counts a body and returns the status of the answer. It waits as the behaviour says, at most until ctx ends.
func (s *Sink) receive(ctx context.Context, b behaviour, body []byte) int {
	mark, ok := count.Find(body)
	if !ok {
		s.unmarked.Add(1)
		return 200
	}
	came, t := time.Now(), s.tally(mark.Run, b.destination)
	t.addRequest()
	if b.hang {
		<-ctx.Done()
		return 503
	}
	if b.slow > 0 && (b.after == 0 || s.quickRequests[b.destination].Add(1) > b.after) {
		_ = wait.For(ctx, b.slow) // counted even if the client has disconnected
	}
	return t.record(mark, came, b.fail > 0 && rand.IntN(100) < b.fail)
}
