package demo

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// laptop follows the stream of an endpoint, as the local forwarding tool does.
type laptop struct {
	world *world
	path  string
	last  string   // id of the last item: the next connection resumes after it
	got   []string // ids of events, as they came
}

// open connects until n events have come in all, and closes the connection as a laptop does that falls asleep.
func (l *laptop) open(ctx context.Context, n int, ready func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.world.url+l.path, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+l.world.key)
	if l.last != "" {
		req.Header.Set("Last-Event-ID", l.last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	kind := ""
	for lines := bufio.NewScanner(resp.Body); len(l.got) < n && lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			l.last = value
		case "event":
			if kind = value; kind == "ready" && ready != nil {
				ready()
			}
		case "data":
			if kind == "event" {
				l.got = append(l.got, gjson.Get(value, "id").Str)
			}
			if kind == "gap" {
				return fmt.Errorf("the stream has a gap: %s", value)
			}
		}
	}
	if len(l.got) < n {
		return fmt.Errorf("the stream ended after %d of %d events", len(l.got), n)
	}
	return nil
}

// forward follows a stream, sleeps while events are sent and the relay is killed, and compares what came with what was
// sent.
func forward(ctx context.Context, w *world) error {
	const awake, asleep = 20, 200
	endpoint, err := w.endpoint(ctx, "/orders", nil, nil)
	if err != nil {
		return err
	}
	l := &laptop{world: w, path: "/v1/endpoints/" + endpoint + "/stream"}
	w.show("/v1/events?endpoint_id=" + endpoint)
	var sent []string
	var failed error
	if err := l.open(ctx, awake, func() { sent, failed = w.send(ctx, endpoint, awake, 1) }); err != nil || failed != nil {
		return fmt.Errorf("awake: %w, %w", err, failed)
	}
	w.say("%d events came to the laptop; it falls asleep, %d more are sent, and the relay is killed with SIGKILL",
		awake, asleep)
	more, err := w.send(ctx, endpoint, awake+asleep, 1) // the first ones again, with their keys: they are not stored twice
	if err != nil {
		return err
	}
	w.kill()
	if err := w.start(ctx); err != nil {
		return err
	}
	if err := l.open(ctx, awake+asleep, nil); err != nil {
		return err
	}
	for i, id := range more {
		if id != l.got[i] {
			return fmt.Errorf("event %d is %s, the laptop got %s", i, id, l.got[i])
		}
	}
	w.say("awake again it got all %d in their order, without a gap, the first %d of them once", len(l.got), len(sent))
	return nil
}
