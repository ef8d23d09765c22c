// Package sink is the destination of a benchmark, a process of its own: it answers webhooks and counts
// their marks. What it does with one is said by the path it is sent to: /<destination>/<behaviour>, with
// the behaviours ok (200), hang (no answer), fail<percent> (500 by chance) and slow<milliseconds>, or
// slow<milliseconds>after<requests> for one that answers the first requests at once.
//
// It shares its cores with what is measured, so plain HTTP is served by a loop of its own, at a third of
// net/http's price: it reads a request's line, its Content-Length and its body, and nothing else. TLS,
// HTTP/2 and bodies of unknown length are served by net/http.
//
// It is asked over its standard input, a [Query] a line, and answers a [Report] a line; it ends with its input.
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

	"github.com/eventrelay/relay/bench/count"
	"github.com/eventrelay/relay/pkg/wait"
)

// MaxDestinations bounds the destinations that are counted apart.
const MaxDestinations = 16

// Hello is the first line that a sink writes.
type Hello struct {
	URL string `json:"url"`
}

// Query asks for a report.
type Query struct {
	// Refused are numbers of a run whose post was not accepted: they are told apart where they arrived all
	// the same, for what arrived of them makes up for no loss.
	Refused map[int][]int64 `json:"refused,omitempty"`
	// Durations asks for those too, which are dear to write.
	Durations bool `json:"durations,omitempty"`
}

// Report is what has arrived so far.
type Report struct {
	Tallies   []Tally `json:"tallies"`
	Unmarked  int64   `json:"unmarked"`  // requests without a mark
	Malformed int64   `json:"malformed"` // requests that are no HTTP, or of unknown length
}

// Tally is what arrived of one run at one destination.
type Tally struct {
	Run         int             `json:"run"`
	Destination int             `json:"destination"`
	Requests    int64           `json:"requests"`
	Arrived     int64           `json:"arrived"`          // different numbers answered with 200
	Duplicates  int64           `json:"duplicates"`       // answered with 200 again
	Refused     int64           `json:"refused"`          // of Arrived: those that Query.Refused names
	Last        time.Time       `json:"last,omitzero"`    // when the last new number arrived
	Latency     count.Durations `json:"latency,omitzero"` // from due to the arrival of a new number
	Retry       count.Durations `json:"retry,omitzero"`   // from an answer of 500 to the next request of its number
}

// tally is a Tally at work. Its mutex guards all of it.
type tally struct {
	mu sync.Mutex
	Tally
	seen   bitset.BitSet       // numbers answered with 200: a bit each up to the highest
	failed map[int64]time.Time // numbers that were answered with 500 and not asked for again; at most as many as wait
}

// requested counts a request before anything is done with it.
func (t *tally) requested() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Requests++
}

// answer counts a request with a mark that came at a time and returns the status to answer it with.
func (t *tally) answer(mark count.Mark, came time.Time, fails bool) int {
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

// read returns what was counted.
func (t *tally) read(q Query) Tally {
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
	quick               [MaxDestinations]atomic.Int64 // requests to behaviours with after
	unmarked, malformed atomic.Int64
}

// tally is where a run's arrivals at a destination are counted.
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
	library := flags.Bool("net-http", false, "serve with net/http, which takes bodies of unknown length")
	ca := flags.String("tls", "", "serve HTTPS with a certificate made now; its PEM is written to this file")
	http2 := flags.Bool("http2", false, "with --tls: offer HTTP/2 too")
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
		if l, err = secure(l, *ca, *http2); err != nil {
			return err
		}
		serve = s.serveLibrary
	case *library:
		serve = s.serveLibrary
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
	return s.answer(stdin, out)
}

// answer answers queries until the input ends.
func (s *Sink) answer(stdin io.Reader, out *json.Encoder) error {
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
				r.Tallies = append(r.Tallies, t.read(q))
			}
		}
	}
	return r
}

// behaviour is what a path asks for.
type behaviour struct {
	destination int
	hang        bool
	fail        int // percent
	slow        time.Duration
	after       int64 // requests that are not slow
}

// parsePath reads /<destination>/<behaviour>; what it does not know is destination 0, answered at once.
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

// receive counts a body and returns the status to answer with; it waits as the path asks, until ctx ends.
func (s *Sink) receive(ctx context.Context, b behaviour, body []byte) int {
	mark, ok := count.Find(body)
	if !ok {
		s.unmarked.Add(1)
		return 200
	}
	came, t := time.Now(), s.tally(mark.Run, b.destination)
	t.requested()
	if b.hang {
		<-ctx.Done()
		return 503
	}
	if b.slow > 0 && (b.after == 0 || s.quick[b.destination].Add(1) > b.after) {
		_ = wait.For(ctx, b.slow) // a client that left is answered too
	}
	return t.answer(mark, came, b.fail > 0 && rand.IntN(100) < b.fail)
}
