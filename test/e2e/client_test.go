package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/must"
)

// client calls the API of a relay. It fails its test on an unexpected answer.
type client struct {
	t         *testing.T
	url       string
	key       string
	logs      *tail             // log of the process that answers
	transport http.RoundTripper // connects from a host of a kit.Network; nil = from this machine
}

// forTest returns the same client for a subtest.
func (c client) forTest(t *testing.T) client {
	c.t = t
	return c
}

// withKey returns the same client with another API key.
func (c client) withKey(key string) client {
	c.key = key
	return c
}

// call makes an API request and returns status, answer and headers.
func (c client) call(method, path string, body any) (int, map[string]any, http.Header) {
	c.t.Helper()
	status, raw, header, err := c.request(method, path, body)
	must.Do(c.t, err, "%s %s: %s", method, path, c.logs)
	var answer map[string]any
	must.Do(c.t, json.Unmarshal(raw, &answer), "%s %s: %d, not JSON: %s", method, path, status, raw)
	return status, answer, header
}

// try is call for a relay that may be down: the status is 0 without an answer.
func (c client) try(method, path string, body any) (status int, answer map[string]any) {
	c.t.Helper()
	status, raw, _, err := c.request(method, path, body)
	if err != nil {
		return 0, nil
	}
	_ = json.Unmarshal(raw, &answer) // a provider's answer need not be JSON
	return status, answer
}

func (c client) request(method, path string, body any) (status int, answer []byte, _ http.Header, err error) {
	c.t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		raw := must.Get(json.Marshal(b))(c.t)
		reader = bytes.NewReader(raw)
	}
	req := must.Get(http.NewRequest(method, c.url+path, reader))(c.t)
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: c.transport}).Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, resp.Header, err
}

// must makes an API request and fails the test unless the answer has the status. It retries, as clients should, while
// the node refuses every request because its configuration is behind: engines on a slow machine answer late.
func (c client) must(want int, method, path string, body any) map[string]any {
	c.t.Helper()
	var status int
	var answer map[string]any
	eventually(c.t, arrival, func() string {
		if status, answer, _ = c.call(method, path, body); status == http.StatusServiceUnavailable && status != want &&
			strings.Contains(fmt.Sprint(answer), "cannot confirm API keys") {
			return fmt.Sprintf("%s %s: %d %v\n%s", method, path, status, answer, c.logs)
		}
		return ""
	})
	must.Equal(c.t, status, want, "%s %s: %v: %s", method, path, answer, c.logs)
	return answer
}

// endpoint creates an endpoint and returns its id, its ingest URL and the signing secret of its first destination.
func (c client) endpoint(definition map[string]any) (ep, ingestURL, secret string) {
	c.t.Helper()
	made := c.must(http.StatusCreated, "POST", "/v1/endpoints", definition)
	dest := made["destinations"].([]any)[0].(map[string]any)
	secret, _ = dest["signing"].(map[string]any)["secret"].(string)
	return made["id"].(string), made["ingest_url"].(string), secret
}

// send sends a numbered event through the API and returns its id.
func (c client) send(endpoint string, n int) string {
	c.t.Helper()
	e := c.must(http.StatusAccepted, "POST", "/v1/endpoints/"+endpoint+"/events",
		map[string]any{"type": "order.paid", "data": map[string]any{"n": n}})
	return e["id"].(string)
}

// post sends a request to an ingest URL, as a webhook provider does.
func (c client) post(url string, header map[string]string, body []byte) *http.Response {
	c.t.Helper()
	req := must.Get(http.NewRequest(http.MethodPost, url, bytes.NewReader(body)))(c.t)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp := must.Get((&http.Client{Transport: c.transport}).Do(req))(c.t)
	defer resp.Body.Close()
	must.Get(io.Copy(io.Discard, resp.Body))(c.t)
	return resp
}

// awaitStatus reads an event until it has the status, and returns it. It tries again, as clients should, while the
// store is unavailable: on a slow machine engines answer late.
func (c client) awaitStatus(id, want string, limit time.Duration) map[string]any {
	c.t.Helper()
	for deadline := time.Now().Add(busy * limit); ; time.Sleep(30 * time.Millisecond) {
		status, e, _ := c.call("GET", "/v1/events/"+id, nil)
		if status != http.StatusOK && status != http.StatusServiceUnavailable {
			c.t.Fatalf("event %s: %d %v\n%s", id, status, e, c.logs)
		}
		if e["status"] == want {
			return e
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("event %s is %v (%v), want %s; deliveries %v; error %v\n%s", id, e["status"], e["why"], want,
				e["deliveries"], e["error"], c.logs)
		}
	}
}

// event reads an event. It reads it again while Relay-Data-As-Of says that attempts may be missing: where ClickHouse
// answers late, the relay reads the event from the log.
func (c client) event(id string) map[string]any {
	c.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		status, e, header := c.call("GET", "/v1/events/"+id, nil)
		if status != http.StatusOK && status != http.StatusServiceUnavailable {
			c.t.Fatalf("event %s: %d %v\n%s", id, status, e, c.logs)
		}
		if status == http.StatusOK && (header.Get("Relay-Data-As-Of") == "" || time.Since(began) > busy*time.Minute) {
			return e
		}
	}
}

// hasOpen reports whether a list of events has one that is not final, or is behind.
func (c client) hasOpen(query string) bool {
	c.t.Helper()
	status, page, header := c.call("GET", "/v1/events?limit=1&status=pending,retrying"+query, nil)
	return status != http.StatusOK || header.Get("Relay-Data-As-Of") != "" || len(page["data"].([]any)) > 0
}

// list reads all pages of a list of events. It reads the first page again while Relay-Data-As-Of says that the page is
// behind: events acknowledged later may be missing from it. A busy store may refuse a page, too.
func (c client) list(query string, limit int) []map[string]any {
	c.t.Helper()
	var rows []map[string]any
	began := time.Now()
	for cursor := ""; ; {
		path := fmt.Sprintf("/v1/events?limit=%d%s%s", limit, query, cursor)
		status, page, header := c.call("GET", path, nil)
		if status == http.StatusServiceUnavailable && time.Since(began) < busy*time.Minute {
			time.Sleep(time.Second)
			continue
		}
		must.Equal(c.t, status, http.StatusOK, "GET %s: %v\n%s", path, page, c.logs)
		if cursor == "" && header.Get("Relay-Data-As-Of") != "" && time.Since(began) < busy*time.Minute {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		for _, row := range page["data"].([]any) {
			rows = append(rows, row.(map[string]any))
		}
		next, more := page["next_cursor"].(string)
		if !more {
			return rows
		}
		cursor = "&cursor=" + next
	}
}
