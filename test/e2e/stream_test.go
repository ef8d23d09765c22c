package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// streamLine is one message of an event stream, with the fields that tests need.
type streamLine struct {
	id, kind string
	event    string // evt_…
	reason   string // of a message "end"
}

// eventStream is an open event stream.
type eventStream struct {
	t      *testing.T
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// openStream opens the event stream of an endpoint, after the message last unless that is empty, and waits until it is
// ready.
func (c client) openStream(endpoint, last string) *eventStream {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/v1/endpoints/"+endpoint+"/stream", nil))(c.t)
	r.Header.Set("Authorization", "Bearer "+c.key)
	r.Header.Set("Accept", "text/event-stream")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp := must.Get((&http.Client{Transport: c.transport}).Do(r))(c.t)
	c.t.Cleanup(func() { cancel(); resp.Body.Close() })
	w := &eventStream{t: c.t, lines: bufio.NewScanner(resp.Body), cancel: cancel}
	w.lines.Buffer(nil, 4<<20)
	if first := w.next(); resp.StatusCode != http.StatusOK || first.kind != "ready" {
		c.t.Fatalf("the stream is answered %s and begins with %+v\n%s", resp.Status, first, c.logs)
	}
	return w
}

// next returns the next message; an empty one when the stream has ended.
func (w *eventStream) next() (l streamLine) {
	w.t.Helper()
	for w.lines.Scan() {
		name, value, _ := strings.Cut(w.lines.Text(), ": ")
		switch name {
		case "id":
			l.id = value
		case "event":
			l.kind = value
		case "data":
			var data struct{ ID, Reason string }
			must.Do(w.t, json.Unmarshal([]byte(value), &data), "%.200s", value)
			l.event, l.reason = data.ID, data.Reason
		default:
			if l.kind != "" {
				return l
			}
		}
	}
	return l
}

// awaitKnown waits until a node answers a GET with 200: configuration reaches other nodes a moment later.
func (c client) awaitKnown(path string) {
	c.t.Helper()
	eventually(c.t, arrival, func() string {
		if status, answer, _ := c.call("GET", path, nil); status != http.StatusOK {
			return fmt.Sprintf("%s: %d %v", path, status, answer)
		}
		return ""
	})
}

// eventStreams reads an endpoint's stream on one node and resumes it on the other, while both accept events. Each event
// is seen once, in the order of the log. Revoking the key and deleting the endpoint end open streams.
func eventStreams(t *testing.T, a, b *process) {
	near, far := a.forTest(t), b.forTest(t)
	dest := newSink(t, nil)
	ep, _, _ := near.endpoint(map[string]any{"destinations": []any{dest.URL}})
	far.awaitKnown("/v1/endpoints/" + ep)
	const each = 30
	w := near.openStream(ep, "")
	var sent, seen []string
	last := ""
	for n := range each {
		for _, c := range []client{near, far} {
			sent = append(sent, c.send(ep, n))
		}
		if n%10 == 9 { // disconnects before it reads the last message, and resumes on the other node
			for range 5 {
				l := w.next()
				seen, last = append(seen, l.event), l.id
			}
			w.cancel()
			near, far = far, near
			w = near.openStream(ep, last)
		}
	}
	for len(seen) < len(sent) {
		l := w.next()
		must.Equal(t, l.kind, "event", "after %d events: %+v", len(seen), l)
		seen = append(seen, l.event)
	}
	if strings.Join(seen, " ") != strings.Join(sent, " ") { // requests are sequential, so the log has the same order
		t.Errorf("seen %v\nsent %v", seen, sent)
	}
	made := strings.Fields(a.keys("create", "--name", "watcher", "--scope", "read"))
	far.withKey(made[2]).awaitKnown("/v1/me")
	revoked := far.withKey(made[2]).openStream(ep, "")
	a.keys("revoke", made[0])
	if l := revoked.next(); l.kind != "end" || l.reason != "key_revoked" {
		t.Errorf("after the revocation: %+v", l)
	}
	test := near.must(http.StatusAccepted, "POST", "/v1/endpoints/"+ep+"/test",
		map[string]any{"provider": "github"})["id"].(string)
	if l := w.next(); l.event != test {
		t.Errorf("a test event is shown as %+v", l)
	}
	detail := near.awaitStatus(test, "delivered", arrival)
	if attempts := detail["attempts"].([]any); attempts[0].(map[string]any)["trigger"] != "test" {
		t.Errorf("a test event is delivered as %v", attempts[0])
	}
	far.must(http.StatusOK, "DELETE", "/v1/endpoints/"+ep, nil)
	if l := w.next(); l.kind != "end" || l.reason != "endpoint_deleted" {
		t.Errorf("after the deletion: %+v", l)
	}
}
