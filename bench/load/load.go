// Package load posts marked events, as a process of its own: it reads a [Plan] from its standard input and
// writes a [Report] a line to its standard output, one each second and a last one. It ends when its
// input ends, done or not, so that what it cost can be read from the kernel before.
//
// At a rate it is an open loop: events are due at fixed times whatever the answers do, and latency counts
// from when an event was due, so a stall counts against every event that it held up. Without a rate each
// connection posts the next event when the last one was answered.
//
// It shares its cores with what is measured, so it does not use net/http: a request is made once for each
// connection, and an event costs the digits of its mark, one write and one read.
package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/bench/count"
)

// Plan is all that is posted, its streams at the same time.
type Plan struct {
	Streams []Stream `json:"streams"`
}

// Stream is one kind of post.
type Stream struct {
	Run    int    `json:"run"` // of the marks; each stream has its own
	URL    string `json:"url"` // http
	Method string `json:"method"`
	// Paths are those of the URL's host that requests go to in turn, all of one length; none = the URL's own.
	Paths  []string          `json:"paths,omitempty"`
	Header map[string]string `json:"header"`
	// Body may hold {{mark}} and {{n}}, as headers may: the event's mark, and its number alone, ten digits.
	Body   string        `json:"body"`
	Batch  int           `json:"batch"`  // bodies a request, a line each; 0 = one, without a line's end
	Conns  int           `json:"conns"`  // connections
	Rate   float64       `json:"rate"`   // events a second in an open loop; 0 = as fast as the connections can
	Events int64         `json:"events"` // stop after so many; 0 = count.MaxNumber
	For    time.Duration `json:"for"`    // stop after this time; 0 = after Events only
	Expect []int         `json:"expect"` // statuses that accept an event
}

// Validate names every fault of a plan.
func (p Plan) Validate() error {
	var errs []error
	if len(p.Streams) == 0 {
		errs = append(errs, errors.New("streams: there is none"))
	}
	for i, s := range p.Streams {
		if err := s.validate(); err != nil {
			errs = append(errs, fmt.Errorf("streams[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

func (s Stream) validate() error {
	var errs []error
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" || u.Host == "" {
		errs = append(errs, fmt.Errorf("url: %q is no http:// URL", s.URL))
	}
	bound := func(name string, n, least, most int64) {
		if n < least || n > most {
			errs = append(errs, fmt.Errorf("%s: %d is not from %d to %d", name, n, least, most))
		}
	}
	bound("run", int64(s.Run), 0, count.MaxRuns-1)
	bound("conns", int64(s.Conns), 1, 4096)
	bound("batch", int64(s.Batch), 0, 10_000)
	bound("events", s.Events, 0, count.MaxNumber)
	if s.Rate < 0 || s.Rate > 1e6 {
		errs = append(errs, fmt.Errorf("rate: %v is not from 0 to 1000000", s.Rate))
	}
	if s.Events == 0 && s.For <= 0 {
		errs = append(errs, errors.New("events, for: one of them must say when to stop"))
	}
	if len(s.Paths) > maxPaths {
		errs = append(errs, fmt.Errorf("paths: %d are more than %d", len(s.Paths), maxPaths))
	}
	for _, p := range s.Paths {
		if !strings.HasPrefix(p, "/") || len(p) != len(s.Paths[0]) || strings.ContainsAny(p, " {}\r\n") {
			errs = append(errs, fmt.Errorf("paths: %q is no path, or not as long as the first", p))
		}
	}
	if len(s.Expect) == 0 {
		errs = append(errs, errors.New("expect: no status accepts an event"))
	}
	return errors.Join(errs...)
}

// Report is what was done so far.
type Report struct {
	Streams []Tally `json:"streams"`
	Done    bool    `json:"done"`
}

// Tally is what was done of one stream.
type Tally struct {
	Run      int   `json:"run"`
	Accepted int64 `json:"accepted"` // events
	Refused  int64 `json:"refused"`  // events; a post whose answer never came counts here
	// Answers counts requests by status; 0 stands for none.
	Answers map[int]int64 `json:"answers"`
	// NoAnswer says why the first of those without one has none.
	NoAnswer string `json:"no_answer,omitempty"`
	// RefusedNumbers are the refused events, the first maxRefused of them: some may have been stored.
	RefusedNumbers []int64 `json:"refused_numbers,omitempty"`
	// Late is how many events of an open loop were posted more than 10 ms after they were due, for want of
	// a free connection or of CPU. Their latency counts from when they were due all the same.
	Late    int64           `json:"late"`
	Began   time.Time       `json:"began"`
	Ended   time.Time       `json:"ended"`   // last answer
	Latency count.Durations `json:"latency"` // of accepted requests, from due to answered
}

// maxPaths bounds the paths of a stream.
const maxPaths = 10_000

// maxRefused bounds the refused numbers that are remembered of a stream.
const maxRefused = 100_000

// lateAfter is when a post is late.
const lateAfter = 10 * time.Millisecond

// Main is the command `relay-bench load`.
func Main(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	in := json.NewDecoder(stdin)
	var p Plan
	if err := in.Decode(&p); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { // whoever wanted the load is gone, or knows what it cost, when the input ends
		defer cancel()
		_, _ = io.Copy(io.Discard, io.MultiReader(in.Buffered(), stdin))
	})
	return Run(ctx, p, stdout)
}

// Run posts all of a plan and writes reports; it returns when the plan is done or ctx ends.
func Run(ctx context.Context, p Plan, stdout io.Writer) error {
	if err := p.Validate(); err != nil {
		return err
	}
	streams := make([]*stream, len(p.Streams))
	for i, s := range p.Streams {
		var err error
		if streams[i], err = newStream(s); err != nil {
			return fmt.Errorf("streams[%d]: %w", i, err)
		}
	}
	out := json.NewEncoder(stdout)
	report := func(done bool) error {
		r := Report{Done: done}
		for _, s := range streams {
			r.Streams = append(r.Streams, s.report(done))
		}
		return out.Encode(r)
	}
	var wg sync.WaitGroup
	for _, s := range streams {
		wg.Go(func() { s.run(ctx) })
	}
	done := make(chan struct{})
	var waiter sync.WaitGroup
	waiter.Go(func() { wg.Wait(); close(done) })
	defer waiter.Wait()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := report(false); err != nil {
				return err
			}
		case <-done:
			return report(true)
		}
	}
}

// stream is a Stream at work.
type stream struct {
	Stream
	request  template
	expected [1000]bool

	next  atomic.Int64 // number of the next event
	late  atomic.Int64
	began time.Time

	mu    sync.Mutex // guards what follows
	tally Tally
}

func newStream(s Stream) (*stream, error) {
	out := &stream{Stream: s, began: time.Now(), tally: Tally{Run: s.Run, Answers: map[int]int64{}}}
	if out.Events == 0 {
		out.Events = count.MaxNumber
	}
	for _, status := range s.Expect {
		if status < 100 || status > 999 {
			return nil, fmt.Errorf("expect: %d is no status", status)
		}
		out.expected[status] = true
	}
	var err error
	out.request, err = newTemplate(s)
	return out, err
}

// report is the tally so far; what was refused is in the last one only.
func (s *stream) report(done bool) Tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tally
	t.Late, t.Began, t.Answers, t.Latency = s.late.Load(), s.began, maps.Clone(t.Answers), t.Latency.Clone()
	if !done {
		t.RefusedNumbers = nil
	}
	return t
}

// recordAnswer counts the answer to a request that carried n events from number first on. failed are the positions
// of those that were refused though the request was not.
func (s *stream) recordAnswer(first, n int64, due time.Time, a answer) {
	now, refused := time.Now(), a.failed
	if !s.expected[a.status] {
		refused = make([]int64, n)
		for i := range refused {
			refused[i] = int64(i)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.tally
	t.Answers[a.status]++
	if s.expected[a.status] {
		t.Latency.Add(now.Sub(due))
	}
	t.Accepted += n - int64(len(refused))
	t.Refused += int64(len(refused))
	if now.After(t.Ended) {
		t.Ended = now
	}
	if a.err != nil && t.NoAnswer == "" {
		t.NoAnswer = a.err.Error()
	}
	for _, i := range refused {
		if len(t.RefusedNumbers) < maxRefused {
			t.RefusedNumbers = append(t.RefusedNumbers, first+i)
		}
	}
}
