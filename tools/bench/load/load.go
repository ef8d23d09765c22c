// Package load is the load generator of the benchmark, a separate process that posts marked events. It reads a [Plan]
// from its standard input and writes a [Report] per line to its standard output, one each second and a last one. It
// ends when its input ends, finished or not, so that its CPU time can be read from the kernel before. With a rate it is
// an open loop: events are due at fixed times however slow the answers are, and latency counts from the due time, so a
// stall counts for every event that it delays. Without a rate it is a closed loop: each connection posts its next event
// after the last answer. It shares the cores with the relay, so it does not use net/http: a request is built once per
// connection, and an event costs the digits of its mark, one write and one read. Begin with Run, then pace.go.
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

	"github.com/eventrelay/relay/tools/bench/count"
)

// Plan is what to post. Its streams run at the same time.
type Plan struct {
	Streams []Stream `json:"streams"`
}

// Stream is a sequence of posts of one kind.
type Stream struct {
	Run    int    `json:"run"` // of the marks; each stream has its own
	URL    string `json:"url"` // http or https
	Method string `json:"method"`
	// Paths are the paths on the URL's host that get requests in turn, all of the same length; empty = the URL's path.
	Paths  []string          `json:"paths,omitempty"`
	Header map[string]string `json:"header"`
	// Body must contain {{mark}}, the event's mark. Body and headers may contain {{n}}, its number in ten digits.
	Body string `json:"body"`
	// {{text}} in Body is TextSize bytes of Text, for each event the ones after those of the event before it, so that
	// bodies differ; at most once.
	Text     string        `json:"text,omitempty"`
	TextSize int           `json:"text_size,omitempty"`
	Batch    int           `json:"batch"`  // events per request, one per line; 0 = one, without a newline
	Conns    int           `json:"conns"`  // connections
	Fresh    bool          `json:"fresh"`  // each request has a connection of its own
	CA       string        `json:"ca"`     // root certificate of https in PEM; empty = the system's
	Rate     float64       `json:"rate"`   // events per second in an open loop; 0 = closed loop
	Events   int64         `json:"events"` // stop after so many; 0 = count.MaxNumber
	For      time.Duration `json:"for"`    // stop after this time; 0 = after Events only
	Expect   []int         `json:"expect"` // statuses that accept an event
}

// Validate returns all faults of a plan at once.
func (p Plan) Validate() error {
	var errs []error
	if len(p.Streams) == 0 {
		errs = append(errs, errors.New("streams: the list is empty"))
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
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		errs = append(errs, fmt.Errorf("url: %q is not an http:// or https:// URL", s.URL))
	}
	bound := func(name string, n, least, most int64) {
		if n < least || n > most {
			errs = append(errs, fmt.Errorf("%s: %d is out of range, use %d to %d", name, n, least, most))
		}
	}
	bound("run", int64(s.Run), 0, count.MaxRuns-1)
	bound("conns", int64(s.Conns), 1, 4096)
	bound("batch", int64(s.Batch), 0, 10_000)
	bound("events", s.Events, 0, count.MaxNumber)
	if s.TextSize < 0 || s.TextSize > len(s.Text) {
		errs = append(errs, fmt.Errorf("text_size: %d is out of range, use 0 to the length of text", s.TextSize))
	}
	if s.Rate < 0 || s.Rate > 1e6 {
		errs = append(errs, fmt.Errorf("rate: %v is out of range, use 0 to 1000000", s.Rate))
	}
	if s.Events == 0 && s.For <= 0 {
		errs = append(errs, errors.New("events, for: one of them must say when to stop"))
	}
	if len(s.Paths) > maxPaths {
		errs = append(errs, fmt.Errorf("paths: %d are more than the maximum %d", len(s.Paths), maxPaths))
	}
	for _, p := range s.Paths {
		if !strings.HasPrefix(p, "/") || len(p) != len(s.Paths[0]) || strings.ContainsAny(p, " {}\r\n") {
			errs = append(errs, fmt.Errorf("paths: %q is not a path, or not as long as the first one", p))
		}
	}
	if len(s.Expect) == 0 {
		errs = append(errs, errors.New("expect: no status accepts an event"))
	}
	return errors.Join(errs...)
}

// Report has the results so far.
type Report struct {
	Streams []Tally `json:"streams"`
	Done    bool    `json:"done"`
}

// Tally has the results of one stream.
type Tally struct {
	Run      int   `json:"run"`
	Accepted int64 `json:"accepted"` // events
	Refused  int64 `json:"refused"`  // events, including those of posts without an answer
	// Answers counts requests by status; 0 stands for none.
	Answers map[int]int64 `json:"answers"`
	// NoAnswer is the error of the first request without an answer.
	NoAnswer string `json:"no_answer,omitempty"`
	// RefusedNumbers are the numbers of the first maxRefused refused events. Some of them may have been stored.
	RefusedNumbers []int64 `json:"refused_numbers,omitempty"`
	// Late is how many events of an open loop were posted more than 10 ms after they were due, because a connection or
	// CPU was missing. Their latency still counts from the due time.
	Late    int64           `json:"late"`
	Began   time.Time       `json:"began"`
	Ended   time.Time       `json:"ended"`   // last answer
	Latency count.Durations `json:"latency"` // of accepted requests, from the due time to the answer
}

// maxPaths bounds the paths of a stream.
const maxPaths = 10_000

// maxRefused bounds the refused numbers that are kept of a stream.
const maxRefused = 100_000

// lateAfter is the delay after which a post counts as late.
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
	wg.Go(func() { // when the input ends, the starter has ended or has read the CPU time
		defer cancel()
		_, _ = io.Copy(io.Discard, io.MultiReader(in.Buffered(), stdin))
	})
	return Run(ctx, p, stdout)
}

// Run posts a plan and writes reports. It returns when the plan is done or ctx ends.
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

// stream is a running Stream.
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
			return nil, fmt.Errorf("expect: %d is not an HTTP status", status)
		}
		out.expected[status] = true
	}
	var err error
	out.request, err = newTemplate(s)
	return out, err
}

// report returns the tally so far. RefusedNumbers are in the last one only.
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

// recordAnswer counts the answer to a request that carried n events from number first on. a.failed has the positions of
// events that were refused although the request was accepted.
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
