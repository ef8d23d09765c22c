package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// An operator changes what runs: pauses, disables and purges destinations, erases payloads, replays events, makes and
// deletes endpoints. What the answer to a change promises holds from then on (ban).

// ban is a time in which a destination must get nothing new.
type ban struct {
	from, until time.Time // until is zero while it lasts
	before      time.Time // only events that were acknowledged before; zero: all events
	ends        bool      // what waits ends
	why         string
}

// operate makes changes until ctx ends.
func (w *World) operate(ctx context.Context, eps []*endpoint) {
	for {
		select {
		case <-time.After(w.between(3*time.Second, time.Minute)):
		case <-ctx.Done():
			return
		}
		ep := eps[w.intn(len(eps))]
		t := ep.targets[w.intn(len(ep.targets))]
		at := "/v1/endpoints/" + ep.id + "/destinations/" + t.id
		switch w.intn(6) {
		case 0: // it waits
			w.suspend(ctx, ep, t, map[string]any{"paused": true}, map[string]any{"paused": false}, false)
		case 1: // what waits ends, and what comes is not sent
			w.suspend(ctx, ep, t, map[string]any{"enabled": false}, map[string]any{"enabled": true}, true)
		case 2:
			w.purge(t, at)
		case 3:
			if w.intn(2) == 0 && ep.groups == 0 { // one that is on its way
				w.rush(ep, 1)
				w.erase(w.oracle.any(1))
			} else {
				w.erase(w.oracle.any(40))
			}
		case 4:
			w.replay()
		case 5:
			w.passing()
		}
	}
}

// replay replays an event of late.
func (w *World) replay() {
	if id := w.oracle.any(40); id != "" {
		w.replayEvent(id)
	}
}

func (w *World) replayEvent(id string) {
	asked := time.Now()
	w.oracle.replay(id)
	if code, raw := w.change("POST", "/v1/events/"+id+"/replay", map[string]any{}); code < 300 {
		w.oracle.replayed(id, asked)
		if w.ledger != nil {
			w.ledger.hasCommands(raw)
		}
	}
}

// purge ends what waits for a destination.
func (w *World) purge(t *target, at string) {
	asked, margin := time.Now(), time.Second
	if w.skewedSince(asked.Add(-10 * time.Minute)) { // times of events are wrong
		margin = 5 * time.Minute
	}
	excused := w.oracle.excuse(t, time.Time{}, asked.Add(24*time.Hour))
	w.change("POST", at+"/purge", map[string]any{})
	excused(time.Now().Add(5 * time.Minute))
	w.oracle.ban(t, ban{before: asked.Add(-margin), ends: true, why: "it was purged"})
}

// erase erases the payload of an event; empty: of none.
func (w *World) erase(id string) {
	if id == "" {
		return
	}
	w.oracle.erase(id, false)
	w.change("DELETE", "/v1/events/"+id+"/payload", nil)
	w.oracle.erase(id, true)
}

// rush sends several events within a second or two.
func (w *World) rush(ep *endpoint, n int) {
	w.mu.Lock()
	w.made++
	name := fmt.Sprint("once-rush", w.made)
	w.mu.Unlock()
	var sending sync.WaitGroup
	for i := range n {
		group := ""
		if ep.groups > 0 {
			group = fmt.Sprint("g", w.intn(ep.groups))
		}
		sending.Go(func() { w.send(ep, fmt.Sprint(name, "-", i), true, group) })
		time.Sleep(w.between(time.Millisecond, 200*time.Millisecond))
	}
	sending.Wait()
}

// suspend makes a change that stops deliveries to a destination, and takes it back. Meanwhile events come.
func (w *World) suspend(ctx context.Context, ep *endpoint, t *target, stop, resume map[string]any, ends bool) {
	from, at := time.Now(), "/v1/endpoints/"+ep.id+"/destinations/"+t.id
	excused := func(time.Time) {}
	if ends {
		excused = w.oracle.excuse(t, time.Time{}, from.Add(24*time.Hour)) // until it is known when it ended
	}
	var rush sync.WaitGroup
	rush.Go(func() { w.rush(ep, 8) })
	defer rush.Wait()
	time.Sleep(w.between(500*time.Millisecond, time.Second))
	defer w.compete(at)()
	w.change("PATCH", at, stop)
	b := w.oracle.ban(t, ban{ends: ends, why: fmt.Sprintf("%v was answered", stop)})
	select {
	case <-time.After(w.between(time.Second, time.Minute)):
	case <-ctx.Done():
	}
	w.oracle.lift(b)
	w.change("PATCH", at, resume)
	excused(time.Now().Add(10 * time.Second)) // other nodes apply it later
}

// passing makes an endpoint, sends to it and deletes it.
func (w *World) passing() {
	w.mu.Lock()
	w.made++
	host := fmt.Sprintf("passing%d.example.com", w.made)
	w.mu.Unlock()
	ep := w.newEndpoint([]string{host}, nil)
	for i := range 1 + w.intn(4) {
		w.send(ep, fmt.Sprintf("once-%s-%d", host, i), true, "")
	}
	time.Sleep(w.between(time.Millisecond, 20*time.Second))
	t := ep.targets[0]
	w.oracle.excuse(t, time.Time{}, time.Now().Add(24*time.Hour))
	w.change("DELETE", "/v1/endpoints/"+ep.id, nil)
	w.oracle.ban(t, ban{why: "its endpoint was deleted"})
}

// runs counts the requests to a path that nodes work on, whether somebody waits for their answer or not.
func (w *World) runs(path string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[path] += n
}

// awaitRuns waits until no node works on an earlier request to a path: it could undo what comes after it.
func (w *World) awaitRuns(path string) {
	for {
		w.mu.Lock()
		n := w.running[path]
		w.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// change repeats a call until a node answers it.
func (w *World) change(method, path string, body any) (code int, raw []byte) {
	for try := 0; ; try++ {
		code, raw, err := w.call(context.Background(), method, path, "", body)
		switch {
		case err != nil || code >= 500 || code == http.StatusTooManyRequests || code == http.StatusConflict:
		case code >= 400 && code != http.StatusNotFound && code != http.StatusBadRequest:
			w.oracle.unexpected("%s %s was answered with %d %s", method, path, code, raw)
			return code, raw
		default:
			w.trace("%s %s %v: %d", method, path, body, code)
			w.awaitRuns(path)
			return code, raw
		}
		if try == 400 {
			w.oracle.unexpected("%s %s is not answered: %d %.300s, %v", method, path, code, raw, err)
			return code, raw
		}
		time.Sleep(w.between(200*time.Millisecond, 3*time.Second))
	}
}

// pull is a consumer of a pulled destination: it acknowledges most of what it gets.
func (w *World) pull(ctx context.Context, name string, ep *endpoint) {
	t := ep.targets[0]
	at := "/v1/endpoints/" + ep.id + "/destinations/" + t.id
	for ctx.Err() == nil {
		wait := w.intn(5)
		if w.calm.Load() {
			wait = 15
		}
		code, raw, err := w.call(ctx, "GET", fmt.Sprintf("%s/pull?consumer=%s&max=10&wait=%d", at, name, wait), "", nil)
		var got struct {
			Data []struct {
				EventID   string          `json:"event_id"`
				AttemptID string          `json:"attempt_id"`
				Body      json.RawMessage `json:"body"`
			} `json:"data"`
		}
		if err != nil || code != http.StatusOK || json.Unmarshal(raw, &got) != nil || len(got.Data) == 0 {
			time.Sleep(w.between(100*time.Millisecond, 3*time.Second))
			continue
		}
		if len(got.Data) > 10 {
			w.oracle.unexpected("a pull of 10 events got %d", len(got.Data))
		}
		attempts := make(map[string]string)
		var ids []string
		for _, e := range got.Data {
			w.oracle.attempt(nil, t, e.EventID, bodyOf(e.Body), 0)
			if w.intn(10) > 0 {
				attempts[e.AttemptID] = e.EventID
				ids = append(ids, e.AttemptID)
			}
		}
		if w.intn(20) == 0 || len(ids) == 0 { // it dies with what it has
			continue
		}
		code, raw, err = w.call(ctx, "POST", at+"/ack", "", map[string]any{"attempt_ids": ids})
		var acked struct {
			Data []struct {
				AttemptID string `json:"attempt_id"`
				Status    string `json:"status"`
			} `json:"data"`
		}
		if err != nil || code != http.StatusOK || json.Unmarshal(raw, &acked) != nil {
			// it may be recorded
			if w.quiet.Load() && ctx.Err() == nil {
				w.oracle.unexpected("an acknowledgement was answered with %d %.300s %v although no fault was in its way",
					code, raw, err)
			}
			for _, event := range attempts {
				w.oracle.maybe(t, event)
			}
			continue
		}
		for _, a := range acked.Data {
			if a.Status == "acknowledged" {
				if w.ledger != nil {
					w.ledger.hasDelivered(attempts[a.AttemptID], t.id)
				}
				w.oracle.attempt(nil, t, attempts[a.AttemptID], nil, http.StatusOK)
			}
		}
	}
}

// bodyOf is a body as an answer has it: a text.
func bodyOf(raw json.RawMessage) []byte {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []byte(text)
	}
	return raw
}

// commander appends the commands of replays, as that of the package node does.
type commander struct{ producer *stream.Producer }

// Commands implements jobs.Commander.
func (c commander) Commands(ctx context.Context, works []*event.Work) (acknowledged int, err error) {
	results := make(chan error, len(works))
	for _, work := range works {
		r, err := work.Record()
		if err != nil {
			return 0, err
		}
		c.producer.Produce(stream.Commands, work.Event.ID.Partition(), r,
			func(_ *stream.Record, err error) { results <- err })
	}
	for range works {
		select {
		case failed := <-results:
			if failed == nil {
				acknowledged++
			} else if err == nil {
				err = failed
			}
		case <-ctx.Done():
			return acknowledged, ctx.Err()
		}
	}
	return acknowledged, err
}
