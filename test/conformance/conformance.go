// Package conformance checks a running service from outside: it knows addresses and keys, speaks HTTP, and imports no
// other package of the program. Somebody who has only the documents could have written it. Each promise of the API
// that a client can observe has a case, numbered by subject ("Recovery rules 3"); those of a client that knows
// nothing of the service are called "Stranger". Cases are independent: each creates its own endpoints, so they run in
// parallel, against one process or a load balancer. Begin with Run, which runs all cases, and RunAttacks, which runs
// those of an attacker. Both take a Target. What the command line promises is not tested here.
package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Target is a running service.
type Target struct {
	URL     string // of the service, or of the load balancer in front of its nodes
	Key     string // API key with the scope read_write
	ReadKey string // API key with the scope read
	// NewKey creates another key with the scope read, and returns a function that revokes it. Keys have no HTTP API.
	NewKey func(t *testing.T) (key string, revoke func())
	// Keys creates a key with the scope; agent makes it an agent's key. Only RunAttacks uses Keys and Admin.
	Keys  func(t *testing.T, scope string, agent bool) (key string)
	Admin string // address of the admin server of one node
	Sink  *Sink  // receives the deliveries of the cases; the service must reach it and trust its certificate
	// Limited says that the API's read rate limit is low enough for a case to exceed it.
	Limited bool
}

// testCase tests one sentence of a document.
type testCase struct {
	reference string // where the sentence stands, such as "Recovery rules 3"
	title     string // the sentence, shortened
	run       func(c *C)
}

// Run runs every case as a subtest.
func Run(t *testing.T, target Target) {
	seen := map[string]bool{}
	for _, group := range [][]testCase{
		serviceCases(), resourceCases(), stateCases(), routeCases(), replayCases(), recoveryCases(), sendingCases(),
		authenticationCases(), errorCases(), limitCases(), strangerCases(),
	} {
		for _, tc := range group {
			if seen[tc.reference] {
				t.Fatalf("two cases have the reference %q", tc.reference)
			}
			seen[tc.reference] = true
			t.Run(tc.reference+": "+tc.title, func(t *testing.T) {
				t.Parallel()
				tc.run(&C{T: t, Target: target, key: target.Key})
			})
		}
	}
}

// object is decoded JSON.
type object = map[string]any

// C is the context of a case: its test, the service, and the API key of its requests.
type C struct {
	*testing.T
	Target
	key string
}

// withKey returns the context with another API key; "" sends none.
func (c *C) withKey(key string) *C {
	other := *c
	other.key = key
	return &other
}

// answer is one HTTP response of the service.
type answer struct {
	status int
	header http.Header
	raw    []byte
	body   object
}

// sendUntilLimited sends up to 16,000 requests on 16 goroutines until one is answered 429, and returns that answer, or
// the last one. On a busy machine sequential requests may be slower than the rate limit.
func (c *C) sendUntilLimited(method, path string) (refused answer) {
	c.Helper()
	const senders, each = 16, 1_000
	var mu sync.Mutex // guards refused
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return refused.status == http.StatusTooManyRequests
	}
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for n := 0; n < each && !over() && !c.Failed(); n++ {
				a := c.doOnce(method, path, nil)
				mu.Lock()
				if refused.status != http.StatusTooManyRequests {
					refused = a
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return refused
}

// do is doOnce, but sends a read again that was over the rate limit, as a good client does: the limit is low, and all
// cases share a key.
func (c *C) do(method, path string, body any, header ...string) answer {
	c.Helper()
	for {
		a := c.doOnce(method, path, body, header...)
		if method != http.MethodGet || !c.Limited || a.status != http.StatusTooManyRequests {
			return a
		}
		select {
		case <-time.After(time.Second):
		case <-c.Context().Done():
			return a
		}
	}
}

// doOnce sends a request. The body is nil, a string that is sent as it is, or a value that is encoded as JSON.
func (c *C) doOnce(method, path string, body any, header ...string) answer {
	c.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			c.Fatal(err)
		}
		reader = strings.NewReader(string(raw))
	}
	url := path
	if strings.HasPrefix(path, "/") {
		url = c.URL + path
	}
	req, err := http.NewRequestWithContext(c.Context(), method, url, reader)
	if err != nil {
		c.Fatal(err)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.raw, err = io.ReadAll(resp.Body); err != nil {
		c.Fatalf("%s %s: %v", method, path, err)
	}
	if strings.HasPrefix(path, "/v1") {
		if err := json.Unmarshal(a.raw, &a.body); err != nil {
			c.Fatalf("%s %s: %d, not a JSON object: %.200s", method, path, a.status, a.raw)
		}
		if a.header.Get("X-Request-Id") == "" {
			c.Errorf("%s %s: no X-Request-Id", method, path)
		}
	}
	return a
}

// doRetrying sends a request, and repeats a GET or a POST of a replay or recovery job for up to a minute while the
// answer is 503. On a busy machine the store may be further behind than the 15 s that a replay waits. It also repeats a
// replay for which another one of the account is counted or queued: other cases select from the whole account.
func (c *C) doRetrying(method, path string, body any, header ...string) answer {
	c.Helper()
	repeatable := method == "GET" || method == "POST" && (path == "/v1/replays" || path == "/v1/recoveries")
	for until := time.Now().Add(time.Minute); ; <-time.After(time.Second) {
		a := c.do(method, path, body, header...)
		inTheWay := a.status == 429 && path == "/v1/replays"
		if a.status != 503 && !inTheWay || !repeatable || time.Now().After(until) {
			return a
		}
	}
}

// must sends a request and fails the test unless the answer has the status.
func (c *C) must(want int, method, path string, body any, header ...string) object {
	c.Helper()
	a := c.doRetrying(method, path, body, header...)
	if a.status != want {
		c.Fatalf("%s %s: %d %.500s, want %d", method, path, a.status, a.raw, want)
	}
	return a.body
}

// wantError sends a request and expects an error with that status, type and param. param "-" accepts any.
func (c *C) wantError(status int, kind, param, method, path string, body any, header ...string) object {
	c.Helper()
	a := c.doRetrying(method, path, body, header...)
	e, ok := a.body["error"].(object)
	if a.status != status || !ok {
		c.Errorf("%s %s %v: %d %.500s, want the error %d", method, path, body, a.status, a.raw, status)
		return object{}
	}
	if e["type"] != kind {
		c.Errorf("%s %s %v: error type %v, want %s", method, path, body, e["type"], kind)
	}
	if message, _ := e["message"].(string); message == "" {
		c.Errorf("%s %s %v: an error without a message", method, path, body)
	}
	got, _ := e["param"].(string)
	if param != "-" && got != param {
		c.Errorf("%s %s %v: names the parameter %q, want %q (%v)", method, path, body, got, param, e["message"])
	}
	return e
}

// wantEqual expects two values to have the same JSON.
func (c *C) wantEqual(what string, got, want any) {
	c.Helper()
	g, err := json.Marshal(got)
	if err != nil {
		c.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		c.Fatal(err)
	}
	if string(g) != string(w) {
		c.Errorf("%s is %s, want %s", what, g, w)
	}
}

// wantMembers expects the object to have every member.
func (c *C) wantMembers(what string, o object, members ...string) {
	c.Helper()
	for _, m := range members {
		if _, ok := o[m]; !ok {
			c.Errorf("%s has no member %s: %v", what, m, o)
		}
	}
}

// eventually calls ask until it returns "". It pauses for twice as long as ask took, at least 25 ms and at most a
// second. At the limit the test fails with the last fault.
func (c *C) eventually(limit time.Duration, ask func() (fault string)) {
	c.Helper()
	deadline := time.After(limit)
	for {
		asked := time.Now()
		fault := ask()
		if fault == "" {
			return
		}
		select {
		case <-deadline:
			c.Fatal(fault)
		case <-time.After(min(max(25*time.Millisecond, 2*time.Since(asked)), time.Second)):
		}
	}
}

// waitLimit bounds each wait for something asynchronous: a delivery, a first retry, a page of a recovery. Only what
// hangs takes so long.
const waitLimit = 2 * time.Minute

// member returns a nested member by names and indexes: member(e, "deliveries", 0, "status"). It returns nil if there is
// none.
func member(v any, steps ...any) any {
	for _, step := range steps {
		switch s := step.(type) {
		case string:
			o, _ := v.(object)
			v = o[s]
		case int:
			a, _ := v.([]any)
			if s >= len(a) {
				return nil
			}
			v = a[s]
		}
	}
	return v
}

// text returns a nested member that is a string, else "".
func text(v any, steps ...any) string {
	s, _ := member(v, steps...).(string)
	return s
}

// number returns a nested member that is a number, else 0.
func number(v any, steps ...any) int {
	n, _ := member(v, steps...).(float64)
	return int(n)
}

// rows returns the elements of a nested member that is an array of objects.
func rows(v any, steps ...any) []object {
	a, _ := member(v, steps...).([]any)
	out := make([]object, len(a))
	for i, x := range a {
		out[i], _ = x.(object)
	}
	return out
}

// endpoint creates an endpoint with one destination for each receiver and retries after 1 s. more overrides settings.
func (c *C) endpoint(more object, receivers ...*Receiver) object {
	c.Helper()
	urls := make([]any, len(receivers))
	for i, r := range receivers {
		urls[i] = object{"url": r.URL}
	}
	if len(urls) == 0 {
		urls = append(urls, object{"url": "https://example.com/hook", "enabled": false})
	}
	definition := object{
		"destinations": urls,
		"retry_policy": object{"strategy": "schedule", "schedule_seconds": []int{1}, "max_attempts": 3, "jitter": 0},
	}
	for name, value := range more {
		definition[name] = value
	}
	return c.must(http.StatusCreated, "POST", "/v1/endpoints", definition)
}

// send sends an event and returns its id.
func (c *C) send(endpoint object, kind string, data any) string {
	c.Helper()
	return text(c.must(http.StatusAccepted, "POST", "/v1/endpoints/"+text(endpoint, "id")+"/events",
		object{"type": kind, "data": data}), "id")
}

// postAsProvider posts to the ingest URL of an endpoint as a webhook provider does, at the target's address.
func (c *C) postAsProvider(endpoint object, body string, header ...string) answer {
	c.Helper()
	_, in, ok := strings.Cut(text(endpoint, "ingest_url"), "/in/")
	if !ok {
		c.Fatalf("ingest_url is %v", endpoint["ingest_url"])
	}
	return c.withKey("").do("POST", "/in/"+in, body, header...)
}

// event reads an event.
func (c *C) event(id string) object {
	c.Helper()
	return c.must(http.StatusOK, "GET", "/v1/events/"+id, nil)
}

// awaitStatus reads an event until it has the status, and returns it.
func (c *C) awaitStatus(id, status string) (e object) {
	c.Helper()
	c.eventually(waitLimit, func() string {
		if e = c.event(id); e["status"] != status {
			return fmt.Sprintf("event %s is %v (%v), want %s", id, e["status"], e["why"], status)
		}
		return ""
	})
	return e
}

// list reads all pages of a list and checks the envelope of each. It reads the first page again while Relay-Data-As-Of
// says that the page is behind.
func (c *C) list(path string, limit int) (all []object) {
	c.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	began := time.Now()
	for cursor := ""; ; {
		a := c.do("GET", fmt.Sprintf("%s%slimit=%d%s", path, separator, limit, cursor), nil)
		if a.status != http.StatusOK {
			c.Fatalf("GET %s: %d %.500s", path, a.status, a.raw)
		}
		if cursor == "" && a.header.Get("Relay-Data-As-Of") != "" && time.Since(began) < waitLimit {
			<-time.After(25 * time.Millisecond)
			continue
		}
		page := a.body
		if _, ok := page["data"].([]any); !ok {
			c.Fatalf("%s: data is no array: %v", path, page)
		}
		all = append(all, rows(page, "data")...)
		next, more := page["next_cursor"]
		if !more {
			return all
		}
		if s, ok := next.(string); !ok || s == "" {
			c.Fatalf("%s: next_cursor is %v", path, next)
		}
		cursor = "&cursor=" + text(next)
	}
}

// now returns the current time for filters, in whole milliseconds as the times of events are.
func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

// ago returns the time d before now.
func ago(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339Nano) }
