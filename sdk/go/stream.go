package relay

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"
)

const (
	streamSilence = 45 * time.Second // the relay sends a byte every 15 s
	maxStreamLine = 16 << 20         // bytes; an event has at most 1 MiB of body, in base64, and its headers
)

// Streamed is an item of a stream: an event, or a gap, which says that events are missing. The first item has neither:
// the stream has begun.
type Streamed struct {
	ID    string // to stream on after it: Stream(ctx, endpointID, ID)
	Event *StreamEvent
	Gap   *StreamGap
}

// Bytes returns the body of the event.
func (e *StreamEvent) Bytes() ([]byte, error) { return base64.StdEncoding.DecodeString(string(e.Body)) }

// ErrStreamEnded ends a stream whose key was revoked or whose endpoint was deleted.
var ErrStreamEnded = errors.New("the stream has ended")

// Stream yields the events of an endpoint as they are accepted, each once and in order: from now on, or those after the
// item with an ID. It reconnects after a cut and after the shutdown of a node, until ctx is done. An error ends it: a
// refusal, ErrStreamEnded, or no connection in MaxTries at the start.
func (c *Client) Stream(ctx context.Context, endpointID, after string) iter.Seq2[Streamed, error] {
	return func(yield func(Streamed, error) bool) {
		s := stream{c: c, id: after, yield: yield}
		for try := 1; !s.stopped; try++ {
			begun, err := s.connect(ctx, endpointID)
			if begun {
				try = 1
			}
			again := s.stopped || temporary(err) && (s.begun || try < c.MaxTries) && c.wait(ctx, try, err)
			if ctx.Err() != nil {
				return
			}
			if !again {
				yield(Streamed{}, err)
				return
			}
		}
	}
}

type stream struct {
	c              *Client
	id             string // of the last item
	begun, stopped bool   // it has yielded; the caller takes no more
	yield          func(Streamed, error) bool
}

// connect reads from one connection until it ends, and reports whether it had begun.
func (s *stream) connect(ctx context.Context, endpointID string) (begun bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(s.c.Timeout, cancel)
	defer silence.Stop()
	r, err := s.c.newRequest(http.MethodGet, pathOf("/v1/endpoints/%s/stream", endpointID), nil, nil, nil)
	if err != nil {
		return false, err
	}
	r.header.Set("Accept", "text/event-stream")
	r.header.Set("Last-Event-ID", s.id)
	resp, err := s.c.send(ctx, r)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxStreamLine)
	item := map[string]string{}
	for !s.stopped && lines.Scan() {
		silence.Reset(streamSilence)
		name, value, _ := strings.Cut(lines.Text(), ":")
		if name != "" {
			item[name] = strings.TrimPrefix(value, " ")
		} else if value == "" { // others are comments
			begun = true
			silence.Stop() // the caller may take its time
			if err := s.take(item["event"], item["id"], []byte(item["data"])); err != nil {
				return true, err
			}
			silence.Reset(streamSilence)
			clear(item)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return begun, err
	}
	return begun, io.ErrUnexpectedEOF // whatever has cut it
}

// take passes an item on.
func (s *stream) take(kind, id string, data []byte) (err error) {
	next := Streamed{ID: id}
	switch kind {
	case "event":
		err = json.Unmarshal(data, &next.Event)
	case "gap":
		err = json.Unmarshal(data, &next.Gap)
	case "end":
		var end StreamEnd
		err = json.Unmarshal(data, &end)
		if err == nil && end.Reason != "shutdown" {
			err = fmt.Errorf("%w: %s", ErrStreamEnded, end.Reason)
		}
	}
	if err != nil {
		return err
	}
	s.id = cmp.Or(id, s.id)
	if next.Event != nil || next.Gap != nil || kind == "ready" && !s.begun {
		s.begun, s.stopped = true, !s.yield(next, nil)
	}
	return nil
}
