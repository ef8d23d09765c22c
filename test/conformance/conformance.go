// Package conformance holds a running service to its documents, from outside: it knows addresses and keys, speaks
// HTTP, and imports nothing of the program. A stranger who reads the documents could have written it.
//
// There is a case for each sentence of the service document that a client can see, numbered in the order of the
// document ("Recovery rules 3"), and one for each row of the table that closes the HTTP contract ("stranger 12").
// Cases do not depend on each other: each makes the endpoints it needs, so that they run side by side, against one
// process or against a balancer before several.
//
// In: a Target. Out: the verdict of the cases. What the tools of the service promise is not here.
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
	URL     string // of the service, or of the balancer before its nodes
	Key     string // may read and write
	ReadKey string // may read
	// NewKey makes another key that may read, and returns what revokes it. Keys have no HTTP API.
	NewKey func(t *testing.T) (key string, revoke func())
	// Keys makes a key of a scope, which may be an agent's. For RunAttacks alone, as is Admin.
	Keys  func(t *testing.T, scope string, agent bool) (key string)
	Admin string // address of the metrics of one of its processes
	Sink  *Sink  // where destinations of the cases are; the service must reach and trust it
	// Limited says that the rates of the API are low enough for a case to exceed that of reading.
	Limited bool
}

// testCase is one sentence.
type testCase struct {
	place string // of the sentence
	title string // what it says, in short
	run   func(c *C)
}

// Run plays every case as a subtest.
func Run(t *testing.T, target Target) {
	seen := map[string]bool{}
	for _, group := range [][]testCase{
		serviceCases(), resourceCases(), stateCases(), routeCases(), replayCases(), recoveryCases(), sendingCases(),
		authenticationCases(), errorCases(), limitCases(), strangerCases(),
	} {
		for _, x := range group {
			if seen[x.place] {
				t.Fatalf("two cases have the place %q", x.place)
			}
			seen[x.place] = true
			t.Run(x.place+": "+x.title, func(t *testing.T) {
				t.Parallel()
				x.run(&C{T: t, Target: target, key: target.Key})
			})
		}
	}
}

// object is decoded JSON.
type object = map[string]any

// C is what a case has at hand: the service, and a test that fails.
type C struct {
	*testing.T
	Target
	key string
}

// as is the same case with another key.
func (c *C) as(key string) *C {
	other := *c
	other.key = key
	return &other
}

// answer is one answer of the service.
type answer struct {
	status int
	header http.Header
	raw    []byte
	body   object
}

// flood sends requests at once until one is refused for their number, and returns its answer, else the last one. One
// after the other they may be slower than the rate on a busy machine.
func (c *C) flood(method, path string) (refused answer) {
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
				a := c.do(method, path, nil)
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

// do sends a request. A body is nil, a string as it stands, or a value that becomes JSON.
func (c *C) do(method, path string, body any, header ...string) answer {
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

// must is do, failing on anything but the wanted status.
func (c *C) must(want int, method, path string, body any, header ...string) object {
	c.Helper()
	a := c.do(method, path, body, header...)
	if a.status != want {
		c.Fatalf("%s %s: %d %.500s, want %d", method, path, a.status, a.raw, want)
	}
	return a.body
}

// refused wants an error of that status and type, which names param unless that is "-".
func (c *C) refused(status int, kind, param, method, path string, body any, header ...string) object {
	c.Helper()
	a := c.do(method, path, body, header...)
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

// equal wants a member of an object to be a value, by their JSON.
func (c *C) equal(what string, got, want any) {
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

// has wants every member to be there.
func (c *C) has(what string, o object, members ...string) {
	c.Helper()
	for _, m := range members {
		if _, ok := o[m]; !ok {
			c.Errorf("%s has no member %s: %v", what, m, o)
		}
	}
}

// eventually asks until there is no fault left.
func (c *C) eventually(limit time.Duration, ask func() (fault string)) {
	c.Helper()
	deadline := time.After(limit)
	pause := time.NewTicker(25 * time.Millisecond)
	defer pause.Stop()
	for {
		fault := ask()
		if fault == "" {
			return
		}
		select {
		case <-deadline:
			c.Fatal(fault)
		case <-pause.C:
		}
	}
}

// patience bounds what takes a moment: a delivery, a first retry, a page of a recovery.
const patience = 30 * time.Second

// path is a member deep in an object, by names and indexes: path(e, "deliveries", 0, "status").
func path(v any, steps ...any) any {
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

// text is a member that is a string.
func text(v any, steps ...any) string {
	s, _ := path(v, steps...).(string)
	return s
}

// number is a member that is a number.
func number(v any, steps ...any) int {
	n, _ := path(v, steps...).(float64)
	return int(n)
}

// rows are the elements of a member that is an array of objects.
func rows(v any, steps ...any) []object {
	a, _ := path(v, steps...).([]any)
	out := make([]object, len(a))
	for i, x := range a {
		out[i], _ = x.(object)
	}
	return out
}

// endpoint makes one with destinations at the receivers, quick retries, and more settings.
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

// provider posts to the ingest URL of an endpoint, through the target's address.
func (c *C) provider(endpoint object, body string, header ...string) answer {
	c.Helper()
	_, in, ok := strings.Cut(text(endpoint, "ingest_url"), "/in/")
	if !ok {
		c.Fatalf("ingest_url is %v", endpoint["ingest_url"])
	}
	return c.as("").do("POST", "/in/"+in, body, header...)
}

// event reads one.
func (c *C) event(id string) object {
	c.Helper()
	return c.must(http.StatusOK, "GET", "/v1/events/"+id, nil)
}

// becomes reads an event until it has the status.
func (c *C) becomes(id, status string) (e object) {
	c.Helper()
	c.eventually(patience, func() string {
		if e = c.event(id); e["status"] != status {
			return fmt.Sprintf("event %s is %v (%v), want %s", id, e["status"], e["why"], status)
		}
		return ""
	})
	return e
}

// list reads a whole list, page by page, and holds every page to the envelope. A first page that says that it is
// behind is asked for again.
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
		if cursor == "" && a.header.Get("Relay-Data-As-Of") != "" && time.Since(began) < patience {
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

// now is the time, to give to filters: of whole milliseconds, as the times of events are.
func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

// ago is a time before now.
func ago(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339Nano) }
