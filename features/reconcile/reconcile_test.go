package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/ingest"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

// transport passes requests to a handler, without a network.
type transport struct{ http.Handler }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	t.ServeHTTP(w, r)
	return w.Result(), nil
}

// stripeAPI stands for Stripe's list of events, as https://docs.stripe.com/api/events/list describes it: newest first,
// starting_after, and delivery_success=false for those that failed at any webhook endpoint.
type stripeAPI struct {
	mu      sync.Mutex
	events  []stripeEvent // oldest first
	asked   int
	refuse  func(n int) (status int, header http.Header)
	queries []string
}

type stripeEvent struct {
	id      string
	created time.Time
	failed  bool
	kind    string
}

func (s *stripeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.refuse != nil {
		if status, header := s.refuse(s.asked); status != 0 {
			for k := range header {
				w.Header().Set(k, header.Get(k))
			}
			w.WriteHeader(status)
			return
		}
	}
	if r.Header.Get("Authorization") != "Bearer rk_test_1" || r.URL.Path != "/v1/events" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	q := r.URL.Query()
	s.queries = append(s.queries, r.URL.RawQuery)
	number := func(name string) int64 { n, _ := strconv.ParseInt(q.Get(name), 10, 64); return n }
	var page []json.RawMessage
	more, after := false, q.Get("starting_after")
	for _, e := range slices.Backward(s.events) {
		if after != "" {
			if e.id == after {
				after = ""
			}
			continue
		}
		if !e.failed || e.created.Unix() < number("created[gte]") || e.created.Unix() > number("created[lte]") ||
			len(q["types[]"]) > 0 && !slices.Contains(q["types[]"], e.kind) {
			continue
		}
		if len(page) == int(number("limit")) {
			more = true
			break
		}
		page = append(page, json.RawMessage(fmt.Sprintf(`{"id":%q,"object":"event","type":%q}`, e.id, e.kind)))
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": page, "has_more": more})
}

func newClient(rt http.RoundTripper) *client {
	return &client{http: rt, turns: make(chan struct{}, 1), credential: "rk_test_1"}
}

// taken keeps what was stored, once for each key.
type taken struct{ keys, bodies []string }

func (k *taken) take(_ context.Context, records []ingest.Record) (stored int, err error) {
	for _, r := range records {
		if !slices.Contains(k.keys, r.Key) {
			k.keys, k.bodies = append(k.keys, r.Key), append(k.bodies, string(r.Body))
			stored++
		}
	}
	return stored, nil
}

// Of 250 failed events over three pages all are stored, oldest of a page first; delivered ones are not, nor those that
// may still be on their way. A second pass stores nothing again, and 429 and 500 are waited out.
func TestStripe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, began := &stripeAPI{}, time.Now()
		for i := range 300 {
			api.events = append(api.events, stripeEvent{fmt.Sprintf("evt_%03d", i),
				began.Add(time.Duration(i-400) * time.Minute), i%6 != 0, "invoice.paid"})
		}
		api.events = append(api.events, stripeEvent{"evt_young", began.Add(-5 * time.Second), true, "invoice.paid"})
		api.refuse = func(n int) (int, http.Header) {
			switch n {
			case 2:
				return 429, http.Header{"Retry-After": {"7"}}
			case 4:
				return 503, nil
			}
			return 0, nil
		}
		s := newStripe(newClient(transport{api}), "https://api.example", []string{"invoice.paid"}, 1000)
		var k taken
		for pass, want := range []Counts{{Found: 250, Stored: 250}, {Found: 250}} {
			var count Counts
			must.Do(t, s.pass(t.Context(), began.Add(-24*time.Hour), &count, k.take))
			is.Equal(t, count, want, "pass %d", pass)
		}
		if len(k.keys) != 250 || k.keys[0] > k.keys[99] || slices.Contains(k.keys, "evt_young") {
			t.Errorf("%d stored, first %s", len(k.keys), k.keys[0])
		}
		if took := time.Since(began); took < 7*time.Second {
			t.Errorf("Retry-After was not kept: %s", took)
		}
		is.Has(t, api.queries[0], "delivery_success=false", "asks for")
		is.Equal(t, k.bodies[0], fmt.Sprintf(`{"id":%q,"object":"event","type":"invoice.paid"}`, k.keys[0]), "body")
		// Only events since a time, and only of a type.
		var count Counts
		must.Do(t, s.pass(t.Context(), began.Add(-106*time.Minute), &count, k.take))
		if count.Found != 5 { // of six, one of which arrived
			t.Errorf("since a time: %+v", count)
		}
		s.types = []string{"customer.created"}
		count = Counts{}
		must.Do(t, s.pass(t.Context(), began.Add(-24*time.Hour), &count, k.take))
		is.Equal(t, count.Found, 0, "of another type: %+v", count)
	})
}

// githubAPI stands for the deliveries of a webhook: newest attempt first, with cursors in the Link header. A redelivery
// is a delivery of its own with the same GUID.
type githubAPI struct {
	mu       sync.Mutex
	attempts []attempt // oldest first
	asked    []string  // GUIDs
	status   int       // of redeliveries
}

func (g *githubAPI) add(guid, event string, status int, at time.Time) {
	g.attempts = append(g.attempts, attempt{int64(len(g.attempts) + 1), guid, at, status, event})
}

func (g *githubAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	path, ok := strings.CutPrefix(r.URL.Path, "/repos/example/shop/hooks/42/deliveries")
	switch parts := strings.Split(path, "/"); {
	case r.Header.Get("Authorization") != "Bearer rk_test_1", r.Header.Get("User-Agent") == "":
		w.WriteHeader(http.StatusUnauthorized)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPost && len(parts) == 3 && parts[2] == "attempts":
		id, _ := strconv.Atoi(parts[1])
		a := g.attempts[id-1]
		g.asked = append(g.asked, a.GUID)
		g.add(a.GUID, a.Event, g.status, time.Now())
		w.WriteHeader(http.StatusAccepted)
	default:
		end := len(g.attempts)
		if c := r.URL.Query().Get("cursor"); c != "" {
			end, _ = strconv.Atoi(strings.TrimPrefix(c, "v1_"))
		}
		from := max(0, end-100)
		page := slices.Clone(g.attempts[from:end])
		slices.Reverse(page)
		if from > 0 {
			w.Header().Set("Link", fmt.Sprintf(`<https://elsewhere.example/x?per_page=100&cursor=v1_%d>; rel="next"`, from))
		}
		_ = json.NewEncoder(w).Encode(page)
	}
}

// Exactly those without a successful attempt are asked for, once while the attempt is under way, and at most maxAsked
// times if they fail again.
func TestGitHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, now := &githubAPI{status: 200}, time.Now()
		api.add("old", "push", 502, now.Add(-80*time.Hour))
		var want []string
		for i := range 260 {
			guid := fmt.Sprintf("guid-%03d", i)
			status := 200
			if i%13 < 10 {
				status = 502
				if i%26 < 10 {
					want = append(want, guid)
				}
			}
			api.add(guid, "push", status, now.Add(-2*time.Hour+time.Duration(i)*time.Second))
		}
		for i := range 260 { // some were redelivered by hand
			if i%13 < 10 && i%26 >= 10 {
				api.add(fmt.Sprintf("guid-%03d", i), "push", 202, now.Add(-time.Hour))
			}
		}
		api.add("other", "issues", 500, now.Add(-time.Minute))
		g := newGitHub(newClient(transport{api}), "https://api.example",
			"repos/example/shop/hooks/42", []string{"push"})
		pass := func() (count Counts) {
			t.Helper()
			must.Do(t, g.pass(t.Context(), now.Add(-72*time.Hour), &count, nil))
			return count
		}
		if count := pass(); count != (Counts{Found: len(want), Asked: len(want)}) || !slices.Equal(api.asked, want) {
			t.Errorf("%+v, asked for %d, want %d in their order", count, len(api.asked), len(want))
		}
		is.Equal(t, pass(), Counts{}, "after they arrived")
		api.status, api.asked = 503, nil
		api.add("never", "push", 503, time.Now())
		var total Counts
		for range 10 { // each looks at the newest attempts only, as Runner does
			for range 2 { // immediately after: the attempt is under way
				must.Do(t, g.pass(t.Context(), time.Now().Add(-7*time.Minute), &total, nil))
			}
			time.Sleep(5 * time.Minute)
		}
		is.Equal(t, len(api.asked), maxAsked, "asked … times for one that always fails")
		is.Equal(t, total, Counts{Found: 1, Asked: maxAsked, GivenUp: 1}, "at the end")
	})
}

// Whatever an API lists, little of it is in memory.
func TestHostileLists(t *testing.T) {
	var long page[attempt]
	err := json.Unmarshal([]byte("["+strings.Repeat("{},", 100_000)+"{}]"), &long)
	is.ErrorIs(t, err, errOdd)
	is.Equal(t, len(long), perPage, "elements in memory")
	api, now := &githubAPI{status: 200}, time.Now()
	g := newGitHub(newClient(transport{api}), "https://api.example", "repos/example/shop/hooks/42", nil)
	pass := func() error { return g.pass(t.Context(), now.Add(-time.Hour), new(Counts), nil) }
	for i := range maxOpen {
		g.open[strconv.Itoa(i)] = &undelivered{at: now, given: true, asked: maxAsked}
	}
	g.open["3"].asked, g.open["3"].newest = 0, 1
	api.add("new", "push", 502, now)
	is.ErrorIs(t, pass(), errTooManyOpen)
	is.Equal(t, len(api.asked), 1, "deliveries asked for, though there were too many")
	api.add("7", "push", 200, now) // makes room
	must.Do(t, pass())
	api.add("later", "push", 502, now.Add(2*time.Hour))
	is.ErrorIs(t, pass(), errOdd)
}

// What a person can change is said, and a credential is in no message.
func TestErrorsSayWhatToChange(t *testing.T) {
	status, header, body := 0, http.Header{}, ""
	answer := transport{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for k := range header {
			w.Header().Set(k, header.Get(k))
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})}
	for _, c := range []struct {
		status     int
		header     http.Header
		body, want string
		tries      bool // takes time
	}{
		{401, nil, "", "does not accept the credential (401)", false},
		{403, nil, "", "it needs the right to read events", false},
		{403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"946684860"}}, "", "too many requests", true},
		{404, nil, "", "answers 404 for /v1/events", false},
		{302, http.Header{"Location": {"https://elsewhere.example"}}, "", "answers 302", false},
		{500, nil, "", "answers 500", true},
		{200, nil, "<html>", "is not what its documentation describes", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			status, header, body = c.status, c.header, c.body
			s := newStripe(newClient(answer), "https://api.example", nil, 1000)
			began := time.Now()
			err := s.pass(t.Context(), began.Add(-time.Hour), new(Counts), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "rk_test") {
				t.Errorf("%d: %v, want %q", c.status, err, c.want)
			}
			if tried := time.Since(began) > time.Second; tried != c.tries {
				t.Errorf("%d: ended after %s", c.status, time.Since(began))
			}
		})
	}
	many := transport{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			fmt.Fprintf(w, `{"has_more":%t,"data":[%s]}`, !strings.Contains(body, "text"), body)
		} else {
			fmt.Fprint(w, "["+body+"]")
		}
	})}
	for text, want := range map[string]string{
		strings.Repeat(`{"id":"evt_1","guid":"1"},`, 100) + `{"id":"evt_2","guid":"1"}`: "is not what its documentation",
		`{"id":"` + strings.Repeat("x", 101) + `","guid":"1"}`:                          "is not what its documentation",
		`{"id":"evt_1","text":"` + strings.Repeat("x", 1000) + `"}`:                     "the event evt_1 has 1024 bytes",
		`{"id":"evt_1"}`: "lists more than 100000 events",
	} {
		synctest.Test(t, func(t *testing.T) {
			body = text
			err := newStripe(newClient(many), "https://api.example", nil, 1000).pass(t.Context(), time.Now(),
				new(Counts), new(taken).take)
			is.Failed(t, err, want, "%.60s", text)
		})
	}
	closed := newStripe(newClient(failing{}), "https://api.example", nil, 1000)
	synctest.Test(t, func(t *testing.T) {
		is.Failed(t, closed.pass(t.Context(), time.Now(), new(Counts), nil), "api.example cannot be reached")
	})
}

type failing struct{}

func (failing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
}
