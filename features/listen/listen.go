// Package listen copies the events of an endpoint to a local URL, as the forwarding tool for Node.js does: it follows
// the event stream and sends each event once, one after the other.
//
// The position in the stream is in a state file. It is written after each copy, so that a program that was killed goes
// on after the last event that it has copied; the one that it was copying is copied again. On Ctrl-C it waits up to
// 5 s for the answer.
package listen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/wait"
)

// Options say what is copied, and where.
type Options struct {
	BaseURL, Key, Endpoint, Target string
	Remote                         bool         // the target may be public, over https
	Secret                         *sign.Secret // signs copies of events without a webhook-signature; nil: none
	State                          string       // file with the position; empty: none is kept
	FromNow                        bool         // leave out what came since the position
}

// View shows what happens.
type View interface {
	Status(text string)
	Warn(text string)
	Copied(Copy)
}

// Copy is an event that was sent to the target.
type Copy struct {
	At     time.Time
	Event  *wire.StreamEvent
	Status int    // of the answer; 0: there is none
	Fault  string // why there is no answer, or why the event was not sent
	Took   time.Duration
	Again  bool // somebody asked for it
}

// How often the service is asked again. An unknown address is given up early, a connection that was lost never: the
// laptop may sleep.
const firstTries = 5

var backoff = wait.Backoff{First: time.Second, Longest: 30 * time.Second}

// Listener copies the events of one endpoint.
type Listener struct {
	Options
	target  *target
	service *service
	view    View
	cursor  string
	seen    bool // it was connected before
	types   atomic.Pointer[[]string]
}

// SetTypes sets the types of events that are copied from now on, such as order.*; none: all.
func (l *Listener) SetTypes(types []string) { l.types.Store(&types) }

// New checks the options.
func New(o Options) (*Listener, error) {
	l := &Listener{Options: o}
	var err error
	if l.service, err = newService(o.BaseURL, o.Key, o.Endpoint); err != nil {
		return nil, err
	}
	if l.target, err = newTarget(o.Target, o.Remote, o.Secret); err != nil {
		return nil, err
	}
	return l, nil
}

// Shown is the target without what may be secret.
func (l *Listener) Shown() string { return l.target.shown }

// Run copies events until ctx ends. Its error says why it has ended earlier.
func (l *Listener) Run(ctx context.Context, view View) error {
	l.view = view
	if err := l.readState(); err != nil {
		return err
	}
	for failed := 0; ; {
		err := l.follow(ctx, func() { failed = 0 })
		var final *Refusal
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &final):
			return err
		case !l.seen && failed+1 >= firstTries:
			return fmt.Errorf("gave up after %d tries: %w", firstTries, err)
		}
		pause := max(backoff.After(failed), pauseOf(err))
		failed++
		view.Status(fmt.Sprintf("%v; trying again in %v", err, pause.Round(time.Second)))
		if wait.For(ctx, pause) != nil {
			return nil
		}
	}
}

// follow reads the stream until it ends.
func (l *Listener) follow(ctx context.Context, connected func()) error {
	stream, err := l.service.open(ctx, l.cursor)
	if refused := (*Refusal)(nil); errors.As(err, &refused) && refused.Status == http.StatusBadRequest && l.cursor != "" {
		l.cursor = ""
		l.view.Warn("the service does not know the position; events may be missing")
		return errors.New("starting again from now")
	}
	if err != nil {
		return err
	}
	defer stream.close()
	for {
		item, err := stream.next()
		if err != nil {
			return err
		}
		if err := l.handle(ctx, item, connected); err != nil {
			return err
		}
		if item.id != "" && item.id != l.cursor {
			l.cursor = item.id
			if err := l.writeState(); err != nil {
				return &Refusal{Message: err.Error()}
			}
		}
		if ctx.Err() != nil { // further events may be in the buffer
			return ctx.Err()
		}
	}
}

func (l *Listener) handle(ctx context.Context, x item, connected func()) error {
	switch x.kind {
	case "ready":
		connected()
		resumed := ", from now"
		if l.cursor != "" {
			resumed = ", after the last one that was copied"
		}
		if l.seen {
			resumed = ", connected again"
		}
		l.seen = true
		l.view.Status("waiting for events" + resumed)
	case "gap":
		var gap wire.StreamGap
		if json.Unmarshal(x.data, &gap) == nil {
			since := time.Time(gap.From).Format(time.RFC3339)
			l.view.Warn("events since " + since + " are no longer stored and were not copied")
		}
	case "end":
		var end struct{ Reason string }
		_ = json.Unmarshal(x.data, &end) // an unknown reason is tried again
		switch end.Reason {
		case "key_revoked":
			return &Refusal{Message: "the API key was revoked or has expired"}
		case "endpoint_deleted":
			return &Refusal{Message: "the endpoint " + l.Endpoint + " was deleted"}
		}
		return errors.New("the service stops")
	case "event":
		var e wire.StreamEvent
		if err := json.Unmarshal(x.data, &e); err != nil || e.ID == "" {
			return errors.New("the stream is damaged")
		}
		kind := ""
		if e.Type != nil {
			kind = *e.Type
		}
		if types := l.types.Load(); types != nil && !(&filter.Filter{Types: *types}).MatchesType(kind) {
			return nil
		}
		if e.Truncated {
			if err := l.service.complete(ctx, &e); err != nil {
				return err
			}
		}
		return l.copy(ctx, &e, false)
	}
	return nil
}

// Repeat sends a copy again.
func (l *Listener) Repeat(ctx context.Context, c Copy) { _ = l.copy(ctx, c.Event, true) }

// copy sends an event to the target. An error means that ctx has ended and that there was no answer soon after: the
// event will be copied again.
func (l *Listener) copy(ctx context.Context, e *wire.StreamEvent, again bool) error {
	const grace = 5 * time.Second
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })()
	c := Copy{At: time.Now(), Event: e, Again: again}
	if e.Method == "" {
		c.Fault = "it was erased before it could be copied"
	} else {
		c.Status, c.Fault = l.target.send(sending, e)
	}
	if sending.Err() != nil {
		return sending.Err()
	}
	c.Took = time.Since(c.At)
	l.view.Copied(c)
	return nil
}

// state is the content of the state file.
type state struct {
	Cursor string `json:"cursor"`
}

func (l *Listener) readState() error {
	if l.State == "" || l.FromNow {
		return nil
	}
	text, err := os.ReadFile(l.State)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var s state
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return &Refusal{Message: fmt.Sprintf("read the position: %v; delete the file, or name another with --state", err)}
	}
	l.cursor = s.Cursor
	return nil
}

// writeState replaces the file, so that a kill leaves the old one or the new one.
func (l *Listener) writeState() error {
	if l.State == "" {
		return nil
	}
	text, _ := json.Marshal(state{l.cursor}) // a string always encodes
	if err := os.MkdirAll(filepath.Dir(l.State), 0o700); err != nil {
		return fmt.Errorf("keep the position: %w", err)
	}
	next, err := os.CreateTemp(filepath.Dir(l.State), filepath.Base(l.State)+".*") // mode 0600; follows no link
	if err != nil {
		return fmt.Errorf("keep the position: %w", err)
	}
	_, err = next.Write(text)
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), l.State)
	}
	if err != nil {
		_ = os.Remove(next.Name())
		return fmt.Errorf("keep the position: %w", err)
	}
	return nil
}
