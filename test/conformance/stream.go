package conformance

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"time"
)

// message is one event of a stream.
type message struct{ id, event, data string }

// listen opens the stream of an endpoint and returns its messages; it ends with the context.
func (c *C) listen(ctx context.Context, endpoint, last string) func() message {
	c.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", c.URL+"/v1/endpoints/"+endpoint+"/stream", nil)
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		c.Fatalf("stream: %d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	scanner := bufio.NewScanner(resp.Body)
	return func() (m message) {
		c.Helper()
		for scanner.Scan() {
			name, value, _ := strings.Cut(scanner.Text(), ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case scanner.Text() == "" && m != message{}:
				return m
			case name == "id":
				m.id = value
			case name == "event":
				m.event = value
			case name == "data":
				m.data += value
			}
		}
		c.Fatalf("the stream ended: %v", scanner.Err())
		return m
	}
}

// streamed watches an endpoint, leaves, and comes back where it was.
func streamed(c *C) {
	ep := c.endpoint(nil)
	id := text(ep, "id")
	ctx, leave := context.WithTimeout(c.Context(), patience)
	next := c.listen(ctx, id, "")
	if m := next(); m.event != "ready" {
		c.Fatalf("first comes %v", m)
	}
	one, two := c.send(ep, "a.b", object{}), c.send(ep, "a.b", object{})
	first := next()
	if first.event != "event" || !strings.Contains(first.data, one) {
		c.Fatalf("then comes %v, want %s", first, one)
	}
	if m := next(); !strings.Contains(m.data, two) {
		c.Fatalf("then comes %v, want %s", m, two)
	}
	leave()
	three := c.send(ep, "a.b", object{})

	ctx, leave = context.WithTimeout(c.Context(), patience)
	defer leave()
	next = c.listen(ctx, id, first.id)
	var came []string
	for len(came) < 2 {
		if m := next(); m.event == "event" {
			came = append(came, m.data)
		}
	}
	if !strings.Contains(came[0], two) || !strings.Contains(came[1], three) {
		c.Errorf("resumed after %s with %v", one, came)
	}
	began := time.Now()
	c.must(200, "DELETE", "/v1/endpoints/"+id, nil)
	if m := next(); m.event != "end" || !strings.Contains(m.data, "endpoint_deleted") {
		c.Errorf("after the deletion comes %v (%v)", m, time.Since(began))
	}
}
