package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// tally is a destination for heavy traffic: of each numbered event it keeps when it came, how often, and
// what it was answered. Over plain HTTP, so that the processor is left to the relay; its relay needs
// RELAY_EGRESS_ALLOW_HTTP.
type tally struct {
	*httptest.Server
	// answer may wait; it gets the request's arrival.
	answer func(hit) (status int)

	mu   sync.Mutex // guards hits
	hits map[int64][]hit
}

// hit is one request for a numbered event.
type hit struct {
	number  int64
	path    string
	from    string    // address of the node that sent it
	posted  time.Time // when its client sent it to the relay
	at      time.Time
	attempt int // relay-attempt
	before  int // requests for the event that arrived earlier
	status  int // of the answer; 0 until it is given
}

const allowHTTP = "RELAY_EGRESS_ALLOW_HTTP=true"

func newTally(t *testing.T, answer func(hit) int) *tally {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newTallyOn(t, listener, answer)
}

func newTallyOn(t *testing.T, listener net.Listener, answer func(hit) int) *tally {
	t.Helper()
	s := &tally{answer: answer, hits: map[int64][]hit{}}
	s.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(s.serve)}}
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// numbered is the body of event n; pad bytes make it longer.
func numbered(n int64, pad int) []byte {
	return fmt.Appendf(nil, `{"n":%d,"at":%d,"pad":%q}`, n, time.Now().UnixNano(), strings.Repeat("x", pad))
}

// readNumbered is the inverse of numbered.
func readNumbered(body []byte) (n int64, at time.Time, ok bool) {
	var ns int64
	_, err := fmt.Sscanf(string(body), `{"n":%d,"at":%d,`, &n, &ns)
	return n, time.Unix(0, ns), err == nil
}

func (s *tally) serve(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(r.Body)
	n, posted, ok := readNumbered(body)
	if err != nil || !ok {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	attempt, _ := strconv.Atoi(r.Header.Get("Relay-Attempt"))
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	h := hit{number: n, path: r.URL.Path, from: from, posted: posted, at: at, attempt: attempt}
	s.mu.Lock()
	i := len(s.hits[n])
	h.before = i
	s.hits[n] = append(s.hits[n], h)
	s.mu.Unlock()
	status := http.StatusOK
	if s.answer != nil {
		status = s.answer(h)
	}
	s.mu.Lock()
	s.hits[n][i].status = status
	s.mu.Unlock()
	w.WriteHeader(status)
}

// each calls f for every event that came, with its requests in order.
func (s *tally) each(f func(n int64, hits []hit)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, hits := range s.hits {
		f(n, hits)
	}
}

// missing counts what was accepted and never answered 2xx.
func (s *tally) missing(accepted map[int64]bool) int {
	taken := 0
	s.each(func(n int64, hits []hit) {
		for _, h := range hits {
			if accepted[n] && h.status == http.StatusOK {
				taken++
				return
			}
		}
	})
	return len(accepted) - taken
}

// duplicates counts what was delivered again after it was taken, and tells of those that no outage explains:
// an attempt is made again after an outage if it was not committed before it. One that failed may go on twice
// from then on.
func (s *tally) duplicates(outages []outage) (all int, unexplained []string) {
	outages = joined(outages)
	s.each(func(n int64, hits []hit) {
		taken := 0
		for _, h := range hits {
			if h.status == http.StatusOK {
				taken++
			}
		}
		all += max(taken-1, 0)
		if taken > 1 && taken > 1+repeated(hits, outages) {
			unexplained = append(unexplained, fmt.Sprintf("event %d: %s", n, history(hits)))
		}
	})
	return all, unexplained
}

// repeated counts the attempts that were made again because of an outage, and those that were made because the answer
// to the one before was not heard.
func repeated(hits []hit, outages []outage) (n int) {
	for i, h := range hits {
		if slices.ContainsFunc(hits[:i], func(before hit) bool {
			return slices.ContainsFunc(outages, func(o outage) bool {
				return before.attempt == h.attempt && o.explains(h.posted, before.at, h.at) ||
					before.attempt+1 == h.attempt && o.muffles(before.at)
			})
		}) {
			n++
		}
	}
	return n
}

// history is every request for an event, in order.
func history(hits []hit) string {
	var text strings.Builder
	for _, h := range hits {
		fmt.Fprintf(&text, "%s attempt %d answered %d; ", h.at.Format("15:04:05.000"), h.attempt, h.status)
	}
	return text.String()
}

// explains reports whether an attempt for an event, first made and taken then, may be made again because of the
// outage. The offset is committed every second while there is a log to commit to and a group to do it for, which
// takes its members some seconds after the outage. What was taken before it is covered by a commit by then. What
// waited through it, parked or for a retry, may be there twice: the outage may fall between the record that continues
// work and the commit of what it continues, and copies are delivered whenever their time comes. What was posted
// after it is delivered once.
func (o outage) explains(posted, first, again time.Time) bool {
	return again.After(o.from) && first.After(o.from.Add(-uncommitted)) && posted.Before(o.to.Add(rejoined))
}

// muffles reports whether the answer to a request that arrived then may not have been heard.
func (o outage) muffles(at time.Time) bool {
	return o.cut && at.After(o.from.Add(-unheard)) && at.Before(o.to)
}

// unheard is how long before the cut of a link a request may have arrived whose answer was held up by it: a busy
// destination takes a moment.
const unheard = 500 * time.Millisecond

const uncommitted, rejoined = 3 * time.Second, 5 * time.Second

// joined makes one outage of those that follow each other without a commit in between for sure.
func joined(outages []outage) []outage {
	slices.SortFunc(outages, func(a, b outage) int { return a.from.Compare(b.from) })
	var all []outage
	for _, o := range outages {
		if n := len(all); n > 0 && o.from.Before(all[n-1].to.Add(rejoined)) {
			if all[n-1].to.Before(o.to) {
				all[n-1].to = o.to
			}
			all[n-1].cut = all[n-1].cut || o.cut
			continue
		}
		all = append(all, o)
	}
	return all
}

// faultSeed is the seed of a test of chance: RELAY_SEED, or a new one. It is printed, so that a failure can
// be repeated.
func faultSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("RELAY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("RELAY_SEED: %v", err)
		}
	}
	t.Logf("RELAY_SEED=%d", seed)
	return seed
}

// lastNumber is of the event that was posted last; no two loads share a number.
var lastNumber atomic.Int64

// load posts numbered events at a rate, on a schedule that a slow answer does not move.
type load struct {
	urls     []string
	pad      int
	client   *http.Client
	turn     atomic.Int64
	stop     chan struct{}
	wg       sync.WaitGroup
	mu       sync.Mutex // guards accepted and statuses
	accepted map[int64]bool
	statuses map[int]int // 0 = no answer
}

// startLoad posts rate events a second to the URLs in turn. Up to 256 posts wait for their answers at once;
// beyond that the schedule slips.
func startLoad(t *testing.T, rate int, pad int, urls ...string) *load {
	t.Helper()
	return startLoadVia(&http.Transport{MaxIdleConnsPerHost: posters}, rate, pad, urls...)
}

// posters bounds how many posts of a load wait for their answers at once.
const posters = 256

// startLoadVia is startLoad from a place where the transport connects from.
func startLoadVia(via *http.Transport, rate int, pad int, urls ...string) *load {
	l := &load{
		urls: urls, pad: pad, stop: make(chan struct{}), accepted: map[int64]bool{}, statuses: map[int]int{},
		client: &http.Client{Timeout: 15 * time.Second, Transport: via},
	}
	due := make(chan struct{}, posters)
	l.wg.Go(func() {
		defer close(due)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		began, sent := time.Now(), 0
		for {
			select {
			case <-l.stop:
				return
			case <-tick.C:
			}
			for want := int(time.Since(began).Seconds() * float64(rate)); sent < want; sent++ {
				select {
				case due <- struct{}{}:
				case <-l.stop:
					return
				}
			}
		}
	})
	for range posters {
		l.wg.Go(func() {
			for range due {
				l.post()
			}
		})
	}
	return l
}

func (l *load) post() {
	n, status := lastNumber.Add(1), 0
	if resp, err := l.client.Post(
		l.urls[l.turn.Add(1)%int64(len(l.urls))], "application/json", bytes.NewReader(numbered(n, l.pad))); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		status = resp.StatusCode
	} else {
		time.Sleep(20 * time.Millisecond) // nobody is listening at the moment
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.statuses[status]++
	if status/100 == 2 {
		l.accepted[n] = true
	}
}

// count is how many were answered 2xx.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
}

// finish stops posting and returns what was answered 2xx.
func (l *load) finish() map[int64]bool {
	close(l.stop)
	l.wg.Wait()
	l.client.CloseIdleConnections()
	return l.accepted
}
