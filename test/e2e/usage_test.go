package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/must"
)

// usageCounts sends events of every kind and compares the usage of their endpoints before and after. Other tests send
// at the same time, so of the account's totals it only checks that they add up.
func usageCounts(t *testing.T, write, read client) {
	dest := newSink(t, onceUnavailable)
	ep, in, _ := write.endpoint(map[string]any{
		"provider": "github", "verification": map[string]any{"type": "github", "secret": githubSecret},
		"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "schedule", "schedule_seconds": []any{1}, "max_attempts": 3, "jitter": 0},
	})
	body := []byte(`{"n":1}`)
	for i, header := range []map[string]string{githubHeader(body), {"X-Hub-Signature-256": "sha256=00"}} {
		if status := write.post(in, header, body).StatusCode; (status == http.StatusOK) != (i == 0) {
			t.Fatalf("request %d was answered %d", i, status)
		}
	}
	for i := range 40 { // more than any other endpoint of these tests, so that usage names this endpoint
		write.send(ep, i)
	}
	first := dest.wait(t, 1, arrival)[0].event()
	read.awaitStatus(first, "delivered", arrival) // by the second attempt
	write.must(http.StatusOK, "POST", "/v1/events/"+first+"/replay", nil)

	for _, c := range []client{write, read} {
		asked := time.Now().Truncate(time.Millisecond)
		var u map[string]any
		eventually(t, arrival, func() string { // retried while the store is behind
			u = c.must(http.StatusOK, "GET", "/v1/usage", nil)
			if asOf, err := time.Parse(time.RFC3339, u["as_of"].(string)); err != nil || asOf.Before(asked) {
				return fmt.Sprintf("usage is as of %v, asked at %v, %v", u["as_of"], asked, err)
			}
			return ""
		})
		var mine map[string]any
		for _, row := range u["by_endpoint"].([]any) {
			if row := row.(map[string]any); row["endpoint_id"] == ep {
				mine = row
			}
		}
		if mine == nil || mine["received"] != 1.0 || mine["sent"] != 40.0 || mine["total"] != 41.0 {
			t.Errorf("the usage of the endpoint is %v", mine)
		}
		days := 0.0
		for _, day := range u["daily"].([]any) {
			days += day.(map[string]any)["total"].(float64)
		}
		total := u["events"].(map[string]any)["total"].(float64)
		if days != total || total < 41 || u["attempts"].(float64) <= u["deliveries"].(float64) ||
			u["deliveries"].(float64) < 1 {
			t.Errorf("the days add up to %v: %v", days, u)
		}
	}
}

// allowanceIsUsedUp checks the usage beyond an allowance of 5 after the tests of the main path, which accepted all
// events.
func allowanceIsUsedUp(t *testing.T, c client) {
	u := c.must(http.StatusOK, "GET", "/v1/usage", nil)
	total := u["events"].(map[string]any)["total"].(float64)
	over, projection := u["overage"].(map[string]any), u["projection"].(map[string]any)
	if u["allowance"] != 5.0 || u["remaining"] != 0.0 || total <= 5 || over["events"] != total-5 {
		t.Errorf("wrong usage with an allowance of 5: %v", u)
	}
	if projection["confidence"] != "low" || projection["events"].(float64) < total ||
		projection["overage_events"] != projection["events"].(float64)-5 {
		t.Errorf("the projection of an account that is minutes old is %v", projection)
	}
}

// tally is a destination for heavy traffic. It records when and how often each numbered event arrived, and its answers.
// It uses plain HTTP to leave the CPU to the relay, which needs RELAY_EGRESS_ALLOW_HTTP.
type tally struct {
	*httptest.Server
	// answer returns the status of a request's answer, and may delay it.
	answer func(hit) (status int)

	mu   sync.Mutex // guards hits
	hits map[int64][]hit
}

// hit is one request for a numbered event.
type hit struct {
	number  int64
	path    string
	from    string    // address of the node that sent it
	posted  time.Time // when the client posted it to the relay
	at      time.Time
	attempt int  // of the header Relay-Attempt
	earlier int  // requests for the event that arrived earlier
	status  int  // of the answer; 0 until it is sent
	changed bool // the body has the field "changed"
}

const allowHTTP = "RELAY_EGRESS_ALLOW_HTTP=true"

func newTally(t *testing.T, answer func(hit) int) *tally {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
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

// numbered returns the body of event n, padded by pad bytes.
func numbered(n int64, pad int) []byte {
	return fmt.Appendf(nil, `{"n":%d,"at":%d,"pad":%q}`, n, time.Now().UnixNano(), strings.Repeat("x", pad))
}

// readNumbered parses a body of numbered.
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
	h := hit{number: n, path: r.URL.Path, from: from, posted: posted, at: at, attempt: attempt,
		changed: bytes.Contains(body, []byte(`"changed":true`))}
	s.mu.Lock()
	i := len(s.hits[n])
	h.earlier = i
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

// each calls f for every event that arrived, with its requests in order.
func (s *tally) each(f func(n int64, hits []hit)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, hits := range s.hits {
		f(n, hits)
	}
}

// missing counts the accepted events whose deliveries were never answered 200.
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

// duplicates counts successful deliveries beyond the first of each event, and describes those that no outage explains.
// An outage repeats an attempt that was not committed before it. A repeated failed attempt continues as a second retry
// chain.
func (s *tally) duplicates(outages []outage) (all int, unexplained []string) {
	outages = mergeOutages(outages)
	s.each(func(n int64, hits []hit) {
		taken := 0
		for _, h := range hits {
			if h.status == http.StatusOK {
				taken++
			}
		}
		all += max(taken-1, 0)
		if taken > 1 && taken > 1+countExplained(hits, outages) {
			unexplained = append(unexplained, fmt.Sprintf("event %d: %s", n, history(hits)))
		}
	})
	return all, unexplained
}

// countExplained counts the requests that an outage explains: attempts repeated after it, and attempts made because the
// answer to the one before was lost.
func countExplained(hits []hit, outages []outage) (n int) {
	for i, h := range hits {
		if slices.ContainsFunc(hits[:i], func(before hit) bool {
			return slices.ContainsFunc(outages, func(o outage) bool {
				return before.attempt == h.attempt && o.explains(h.posted, before.at, h.at) ||
					before.attempt+1 == h.attempt && o.mayHideAnswer(before.at)
			})
		}) {
			n++
		}
	}
	return n
}

// history describes the requests for an event, in order.
func history(hits []hit) string {
	var text strings.Builder
	for _, h := range hits {
		fmt.Fprintf(&text, "%s attempt %d answered %d; ", h.at.Format("15:04:05.000"), h.attempt, h.status)
	}
	return text.String()
}

// explains reports whether the outage may repeat, at the time again, an attempt that was first made at the time first.
// Offsets are committed every second while the log is up and the consumer group is stable, which is up to rejoinLimit
// after the outage. Attempts made before commitLimit are committed and not repeated. A delivery that was parked or
// waited for a retry during the outage may exist twice: the outage may fall between the record that continues it and
// the commit of the record that it continues, and both copies are delivered when they are due. An event that was posted
// after the outage is delivered once.
func (o outage) explains(posted, first, again time.Time) bool {
	return again.After(o.from) && first.After(o.from.Add(-commitLimit)) && posted.Before(o.to.Add(rejoinLimit))
}

// mayHideAnswer reports whether the outage may have lost the answer to a request that arrived at that time.
func (o outage) mayHideAnswer(at time.Time) bool {
	return o.linkCut && at.After(o.from.Add(-answerDelay)) && at.Before(o.to)
}

// answerDelay is how long before a link cut a request may have arrived whose answer the cut lost: a busy destination
// answers late.
const answerDelay = 500 * time.Millisecond

const commitLimit, rejoinLimit = 3 * time.Second, 5 * time.Second

// mergeOutages merges outages that follow each other so soon that no commit in between is certain.
func mergeOutages(outages []outage) []outage {
	slices.SortFunc(outages, func(a, b outage) int { return a.from.Compare(b.from) })
	var all []outage
	for _, o := range outages {
		if n := len(all); n > 0 && o.from.Before(all[n-1].to.Add(rejoinLimit)) {
			if all[n-1].to.Before(o.to) {
				all[n-1].to = o.to
			}
			all[n-1].linkCut = all[n-1].linkCut || o.linkCut
			continue
		}
		all = append(all, o)
	}
	return all
}

// lastNumber is the number of the last posted event of all loads, so that no two loads share a number.
var lastNumber atomic.Int64

// load posts numbered events at a rate. It is an open loop: slow answers do not delay later posts.
type load struct {
	urls     []string
	pad      int
	client   *http.Client
	turn     atomic.Int64
	stop     chan struct{}
	wg       sync.WaitGroup
	mu       sync.Mutex // guards accepted and statuses
	accepted map[int64]bool
	statuses map[int]int // requests by status; 0 = no answer
}

// posters bounds how many posts of a load wait for their answers at a time.
const posters = 256

// startLoadVia posts rate events a second to the URLs in turn, with a transport, which may connect from another host.
// At most 256 posts wait for answers at a time; beyond that later posts are delayed.
func startLoadVia(via http.RoundTripper, rate int, pad int, urls ...string) *load {
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
		time.Sleep(20 * time.Millisecond) // the relay is down at the moment
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.statuses[status]++
	if status/100 == 2 {
		l.accepted[n] = true
	}
}

// count returns how many events were answered 2xx.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
}

// finish stops posting and returns the numbers of the events that were answered 2xx.
func (l *load) finish() map[int64]bool {
	close(l.stop)
	l.wg.Wait()
	l.client.CloseIdleConnections()
	return l.accepted
}
