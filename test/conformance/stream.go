package conformance

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"time"
)

// streamMessage is one message of a Server-Sent Events stream.
type streamMessage struct{ id, event, data string }

// openStream opens the event stream of an endpoint, after the message last unless that is "". The returned function
// waits for the next message. The stream ends with ctx.
func (c *C) openStream(ctx context.Context, endpoint, last string) func() streamMessage {
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
	return func() (m streamMessage) {
		c.Helper()
		for scanner.Scan() {
			name, value, _ := strings.Cut(scanner.Text(), ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case scanner.Text() == "" && m != streamMessage{}:
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

// streamResumes reads an endpoint's stream, disconnects, and resumes after the last message that it read.
func streamResumes(c *C) {
	ep := c.endpoint(nil)
	id := text(ep, "id")
	ctx, leave := context.WithTimeout(c.Context(), waitLimit)
	next := c.openStream(ctx, id, "")
	if m := next(); m.event != "ready" {
		c.Fatalf("the first message is %v, want ready", m)
	}
	one, two := c.send(ep, "a.b", object{}), c.send(ep, "a.b", object{})
	first := next()
	if first.event != "event" || !strings.Contains(first.data, one) {
		c.Fatalf("the next message is %v, want event %s", first, one)
	}
	if m := next(); !strings.Contains(m.data, two) {
		c.Fatalf("the next message is %v, want event %s", m, two)
	}
	leave()
	three := c.send(ep, "a.b", object{})

	ctx, leave = context.WithTimeout(c.Context(), waitLimit)
	defer leave()
	next = c.openStream(ctx, id, first.id)
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
		c.Errorf("the message after the deletion is %v (%v), want end", m, time.Since(began))
	}
}
