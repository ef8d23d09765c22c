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

	"github.com/eventrelay/relay/bench/count"
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
}

// Report is what has arrived so far.
type Report struct {
	Tallies   []Tally `json:"tallies"`
	Unmarked  int64   `json:"unmarked"`  // requests without a mark
	Malformed int64   `json:"malformed"` // requests that are no HTTP, or of unknown length
}

// Tally is what arrived of one run at one destination.
type Tally struct {
	Run         int                `json:"run"`
	Destination int                `json:"destination"`
	Requests    int64              `json:"requests"`
	Arrived     int64              `json:"arrived"`    // different numbers answered with 200
	Duplicates  int64              `json:"duplicates"` // answered with 200 again
	Refused     int64              `json:"refused"`    // of Arrived: those that Query.Refused names
	Last        time.Time          `json:"last"`       // when the last new number arrived
	Latency     count.Distribution `json:"latency"`    // from due to the arrival of a new number
	Retry       count.Distribution `json:"retry"`      // from an answer of 500 to the next request of its number
}

// tally counts what a Tally tells.
type tally struct {
	requests, duplicates atomic.Int64
	last                 atomic.Int64 // unix nanoseconds
	seen                 count.Bitmap
	latency, retry       count.Histogram

	mu     sync.Mutex          // guards failed
	failed map[int64]time.Time // numbers that were answered with 500 and not asked for again; at most as many as wait
}

// again notes that a number has come, and whether it is to fail this time.
func (t *tally) again(n int64, now time.Time, fails bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, ok := t.failed[n]; ok {
		t.retry.Add(now.Sub(at))
		delete(t.failed, n)
	}
	if fails {
		if t.failed == nil {
			t.failed = map[int64]time.Time{}
		}
		t.failed[n] = time.Now()
	}
}

// Sink counts what arrives. The zero value is ready.
type Sink struct {
	tallies             [count.MaxRuns * MaxDestinations]atomic.Pointer[tally]
	quick               [MaxDestinations]atomic.Int64 // requests to behaviours with after
	unmarked, malformed atomic.Int64
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
	for i := range s.tallies {
		t := s.tallies[i].Load()
		if t == nil {
			continue
		}
		out := Tally{
			Run: i / MaxDestinations, Destination: i % MaxDestinations, Requests: t.requests.Load(), Arrived: t.seen.Count(),
			Duplicates: t.duplicates.Load(), Latency: t.latency.Read(), Retry: t.retry.Read(),
		}
		if at := t.last.Load(); at != 0 {
			out.Last = time.Unix(0, at)
		}
		for _, n := range q.Refused[out.Run] {
			if t.seen.Has(n) {
				out.Refused++
			}
		}
		r.Tallies = append(r.Tallies, out)
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
	now := time.Now()
	at := &s.tallies[mark.Run*MaxDestinations+b.destination]
	t := at.Load()
	if t == nil {
		at.CompareAndSwap(nil, new(tally))
		t = at.Load()
	}
	t.requests.Add(1)
	if b.hang {
		<-ctx.Done()
		return 503
	}
	if b.slow > 0 && (b.after == 0 || s.quick[b.destination].Add(1) > b.after) {
		timer := time.NewTimer(b.slow)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if b.fail > 0 {
		fails := rand.IntN(100) < b.fail
		t.again(mark.Number, now, fails)
		if fails {
			return 500
		}
	}
	if !t.seen.Set(mark.Number) {
		t.duplicates.Add(1)
		return 200
	}
	t.latency.Add(now.Sub(mark.Due))
	t.last.Store(now.UnixNano())
	return 200
}
