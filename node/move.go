package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/dispatcher"
	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// moveLease is how long new events wait without a word of who moves the endpoint: so long a crash of that
	// node delays them.
	moveLease = time.Minute
	// moveLook is the pause between two looks at what is open.
	moveLook = 500 * time.Millisecond
	// moveBackTime bounds the way back.
	moveBackTime = 20 * time.Second
)

// mover moves one endpoint.
type mover struct {
	n        *node
	ask      command.Move
	ep       *control.Endpoint // as it was before
	survey   *dispatcher.Survey
	deadline time.Time
	tell     func(any)
}

// moveEndpoint moves an endpoint to another partition when nothing of its earlier events is open any more.
func (n *node) moveEndpoint(r *http.Request, tell func(any)) error {
	m := mover{n: n, tell: tell}
	if err := readCommand(r, &m.ask); err != nil {
		return err
	}
	if m.ask.WaitSeconds < 1 || time.Duration(m.ask.WaitSeconds)*time.Second > command.MaxMoveWait {
		return web.Invalid("wait_seconds", "must be from 1 to %d", int(command.MaxMoveWait/time.Second))
	}
	var presence control.Presence
	if m.ep, presence = n.control.Endpoint(m.ask.Endpoint); presence != control.Present {
		return web.Missing("no endpoint has this id")
	}
	reader, err := stream.NewReader(n.stream, "move")
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := m.check(r.Context(), reader); err != nil {
		return err
	}
	// In the partitions before as well: an old event may be replayed there.
	m.survey = dispatcher.NewSurvey(reader, m.ep.ID, append([]int32{m.ep.Partition}, m.ep.Former...))
	m.deadline = m.n.now().Add(time.Duration(m.ask.WaitSeconds) * time.Second)
	open, err := m.look(r.Context())
	if err != nil {
		return err
	}
	m.told(command.MoveOpen, open)
	if err := m.hopeless(open); err != nil {
		return err
	}
	if m.ask.DryRun {
		return nil
	}
	return m.move(r.Context())
}

// check refuses what can be seen to be in vain.
func (m *mover) check(ctx context.Context, reader *stream.Reader) error {
	ends, err := reader.Ends(ctx, stream.Events)
	if err != nil {
		return err
	}
	switch {
	case m.ask.Partition < 0 || m.ask.Partition >= len(ends):
		return web.Invalid("partition", "must be from 0 to %d; relay migrate --partitions adds some", len(ends)-1)
	case int32(m.ask.Partition) == m.ep.Partition:
		return web.State("partition", "the endpoint is in this partition")
	case m.ask.Leave:
		return nil
	case m.ep.Paused:
		return web.State("", "the endpoint is paused: what is held does not end while it is; unpause it, or leave that where it is with --leave")
	}
	for _, d := range m.ep.Destinations {
		if d.Enabled && d.Paused {
			return web.State("", "its destination %s is paused: what is held does not end while it is; unpause it, or leave that where it is with --leave", d.ID)
		}
	}
	return nil
}

func (m *mover) look(ctx context.Context) (dispatcher.Open, error) {
	open, err := m.survey.Look(ctx)
	if errors.Is(err, dispatcher.ErrManyOpen) {
		return open, web.State("", "%v for this endpoint: move it when it is up to date", err)
	}
	return open, err
}

// ended reports whether nothing is open that is waited for.
func (m *mover) ended(o dispatcher.Open) bool { return !o.Any() || m.ask.Leave && o.Now == 0 }

// hopeless refuses when something that is waited for is due too late.
func (m *mover) hopeless(o dispatcher.Open) error {
	if m.ask.Leave || !o.Until.After(m.deadline) {
		return nil
	}
	return web.State("", "%d records wait for a retry, the last until %s, which is longer than --wait: wait for them, purge them, or leave them in partition %d with --leave",
		o.Waiting, o.Until.Format(time.RFC3339), m.ep.Partition)
}

// move switches, waits until the old partition is done, and lets the new one go on. If that is in vain, or
// nobody listens any more, it goes back.
func (m *mover) move(ctx context.Context) error {
	moved, err := m.n.control.MoveEndpoint(ctx, m.ep.ID, int32(m.ask.Partition), m.n.now().Add(moveLease))
	switch {
	case errors.Is(err, control.ErrMoving):
		return web.State("", "%v", err)
	case errors.Is(err, control.ErrNotFound):
		return web.Missing("no endpoint has this id any more")
	case err != nil:
		return fmt.Errorf("move endpoint: %w", err)
	}
	moved, err = m.wait(ctx, moved)
	if err == nil {
		if _, err = m.n.control.EndMove(ctx, moved, false); err == nil {
			m.told(command.MoveDone, dispatcher.Open{})
			return nil
		}
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveBackTime)
	defer cancel()
	if _, backErr := m.n.control.EndMove(back, moved, true); backErr != nil {
		m.n.log.LogAttrs(ctx, slog.LevelError, "endpoint stays where it was moved to", slog.String("endpoint", m.ep.ID),
			slog.Int("partition", m.ask.Partition), slog.Any("error", backErr))
		return fmt.Errorf("move endpoint back: %w", errors.Join(backErr, err))
	}
	return err
}

// wait looks until nothing is open and keeps the new events waiting meanwhile. It returns the move as it
// stands then.
func (m *mover) wait(ctx context.Context, moved *control.Endpoint) (*control.Endpoint, error) {
	tick := time.NewTicker(moveLook)
	defer tick.Stop()
	var told time.Time
	for {
		open, err := m.look(ctx)
		if err != nil {
			return moved, err
		}
		if m.ended(open) {
			return moved, nil
		}
		now := m.n.now()
		if now.Sub(told) > 5*time.Second {
			told = now
			m.told(command.MoveSwitched, open)
		}
		if err := m.hopeless(open); err != nil {
			return moved, err
		}
		if now.After(m.deadline) {
			return moved, web.State("", "%d records are still open in partition %d after %ds: it was moved back; try again with a longer --wait",
				open.Now+open.Waiting, m.ep.Partition, m.ask.WaitSeconds)
		}
		if moved.Moving.Until.Sub(now) < moveLease/2 {
			held, err := m.n.control.HoldMove(ctx, moved, now.Add(moveLease))
			if err != nil {
				return moved, fmt.Errorf("keep new events waiting: %w", err)
			}
			moved = held
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return moved, ctx.Err()
		}
	}
}

func (m *mover) told(state string, o dispatcher.Open) {
	s := command.MoveStep{State: state, From: m.ep.Partition, To: int32(m.ask.Partition), Open: o.Now, Waiting: o.Waiting}
	if !o.Until.IsZero() {
		s.Until = &o.Until
	}
	m.tell(s)
}
