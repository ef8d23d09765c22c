package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventrelay/relay/dispatcher"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// Move asks for an endpoint to be moved to another partition.
type Move struct {
	Endpoint    string `json:"endpoint"`
	Partition   int    `json:"partition"`
	WaitSeconds int64  `json:"wait_seconds"` // for what is open in the old one
	Leave       bool   `json:"leave"`        // what waits for a retry is not waited for
	DryRun      bool   `json:"dry_run"`
}

// States of a move.
const (
	MoveOpen     = "open"     // nothing was changed yet
	MoveSwitched = "switched" // new events go to the new partition and wait there
	MoveDone     = "moved"
)

// MoveStep is how far a move is, and what is open in the old partition.
type MoveStep struct {
	State   string     `json:"state"`
	From    int32      `json:"from"`
	To      int32      `json:"to"`
	Open    int        `json:"open"`    // records that are done as soon as there is room
	Waiting int        `json:"waiting"` // records that wait for a retry, or because they are held
	Until   *time.Time `json:"until"`   // when the last of these is due
}

// String is the step as a line for people.
func (s MoveStep) String() string {
	open := fmt.Sprintf("%d records are open in partition %d", s.Open+s.Waiting, s.From)
	if s.Waiting > 0 && s.Until != nil {
		open += fmt.Sprintf(", %d of them wait, the last until %s", s.Waiting, s.Until.Format(time.RFC3339))
	}
	switch s.State {
	case MoveSwitched:
		return fmt.Sprintf("new events go to partition %d and wait; %s", s.To, open)
	case MoveDone:
		return fmt.Sprintf("moved from partition %d to %d", s.From, s.To)
	}
	return open
}

// MaxMoveWait bounds how long a move waits.
const MaxMoveWait = time.Hour

const (
	// moveLease is how long new events wait without a word of who moves the endpoint: so long a crash of that
	// node delays them.
	moveLease = time.Minute
	// moveLook is the pause between two looks at what is open.
	moveLook = 500 * time.Millisecond
	// moveBackTime bounds the way back.
	moveBackTime = 20 * time.Second
)

// Endpoints is what moves endpoints in the configuration.
type Endpoints interface {
	Endpoint(id string) (*config.Endpoint, config.Presence)
	MoveEndpoint(ctx context.Context, endpoint string, to int32, until time.Time) (*config.Endpoint, error)
	ExtendMove(ctx context.Context, moved *config.Endpoint, until time.Time) (*config.Endpoint, error)
	EndMove(ctx context.Context, moved *config.Endpoint, back bool) (*config.Endpoint, error)
}

// Partitions looks at what is open of endpoints.
type Partitions interface {
	Count(ctx context.Context) (int, error)
	Survey(endpoint string, partitions []int32) Survey
	Close()
}

// Survey looks again and again at what is open of one endpoint; see dispatcher.Survey.
type Survey interface {
	Refresh(ctx context.Context) (dispatcher.OpenRecords, error)
}

// moves is the handler of relay endpoints move.
type moves struct {
	log       *slog.Logger
	endpoints Endpoints
	open      func() (Partitions, error)
	now       func() time.Time
}

// mover moves one endpoint.
type mover struct {
	*moves
	ask      Move
	ep       *config.Endpoint // as it was before
	survey   Survey
	deadline time.Time
	tell     func(any)
}

// move moves an endpoint to another partition when nothing of its earlier events is open any more.
func (x *moves) move(r *http.Request, tell func(any)) error {
	m := mover{moves: x, tell: tell}
	if err := readCommand(r, &m.ask); err != nil {
		return err
	}
	if m.ask.WaitSeconds < 1 || time.Duration(m.ask.WaitSeconds)*time.Second > MaxMoveWait {
		return web.Invalid("wait_seconds", "must be from 1 to %d", int(MaxMoveWait/time.Second))
	}
	var presence config.Presence
	if m.ep, presence = x.endpoints.Endpoint(m.ask.Endpoint); presence != config.Present {
		return web.Missing("no endpoint has this id")
	}
	log, err := x.open()
	if err != nil {
		return err
	}
	defer log.Close()
	if err := m.check(r.Context(), log); err != nil {
		return err
	}
	// In the partitions before as well: an old event may be replayed there.
	m.survey = log.Survey(m.ep.ID, append([]int32{m.ep.Partition}, m.ep.FormerPartitions...))
	m.deadline = m.now().Add(time.Duration(m.ask.WaitSeconds) * time.Second)
	open, err := m.look(r.Context())
	if err != nil {
		return err
	}
	m.told(MoveOpen, open)
	if err := m.hopeless(open); err != nil {
		return err
	}
	if m.ask.DryRun {
		return nil
	}
	return m.carryOut(r.Context())
}

// check refuses what can be seen to be in vain.
func (m *mover) check(ctx context.Context, log Partitions) error {
	partitions, err := log.Count(ctx)
	if err != nil {
		return err
	}
	switch {
	case m.ask.Partition < 0 || m.ask.Partition >= partitions:
		return web.Invalid("partition", "must be from 0 to %d; relay migrate --partitions adds some", partitions-1)
	case int32(m.ask.Partition) == m.ep.Partition:
		return web.State("partition", "the endpoint is in this partition")
	case m.ask.Leave:
		return nil
	case m.ep.Paused:
		return web.State("", "the endpoint is paused: what is held does not end while it is; "+
			"unpause it, or leave that where it is with --leave")
	}
	for _, d := range m.ep.Destinations {
		if d.Enabled && d.Paused {
			return web.State("", "its destination %s is paused: what is held does not end while it is; "+
				"unpause it, or leave that where it is with --leave", d.ID)
		}
	}
	return nil
}

func (m *mover) look(ctx context.Context) (dispatcher.OpenRecords, error) {
	open, err := m.survey.Refresh(ctx)
	if errors.Is(err, dispatcher.ErrTooManyOpen) {
		return open, web.State("", "%v for this endpoint: move it when it is up to date", err)
	}
	return open, err
}

// ended reports whether nothing is open that is waited for.
func (m *mover) ended(o dispatcher.OpenRecords) bool {
	return !o.Any() || m.ask.Leave && o.Immediate == 0
}

// hopeless refuses when something that is waited for is due too late.
func (m *mover) hopeless(o dispatcher.OpenRecords) error {
	if m.ask.Leave || !o.LastDue.After(m.deadline) {
		return nil
	}
	return web.State("", "%d records wait for a retry, the last until %s, which is longer than --wait: "+
		"wait for them, purge them, or leave them in partition %d with --leave",
		o.Waiting, o.LastDue.Format(time.RFC3339), m.ep.Partition)
}

// carryOut switches, waits until the old partition is done, and lets the new one go on. If that is in vain, or
// nobody listens any more, it goes back.
func (m *mover) carryOut(ctx context.Context) error {
	moved, err := m.endpoints.MoveEndpoint(ctx, m.ep.ID, int32(m.ask.Partition), m.now().Add(moveLease))
	switch {
	case errors.Is(err, config.ErrMoving):
		return web.State("", "%v", err)
	case errors.Is(err, config.ErrNotFound):
		return web.Missing("no endpoint has this id any more")
	case err != nil:
		return fmt.Errorf("move endpoint: %w", err)
	}
	moved, err = m.wait(ctx, moved)
	if err == nil {
		if _, err = m.endpoints.EndMove(ctx, moved, false); err == nil {
			m.told(MoveDone, dispatcher.OpenRecords{})
			return nil
		}
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveBackTime)
	defer cancel()
	if _, backErr := m.endpoints.EndMove(back, moved, true); backErr != nil {
		m.log.LogAttrs(ctx, slog.LevelError, "endpoint stays where it was moved to",
			slog.String("endpoint", m.ep.ID), slog.Int("partition", m.ask.Partition), slog.Any("error", backErr))
		return fmt.Errorf("move endpoint back: %w", errors.Join(backErr, err))
	}
	return err
}

// wait looks until nothing is open and keeps the new events waiting meanwhile. It returns the move as it
// stands then.
func (m *mover) wait(ctx context.Context, moved *config.Endpoint) (*config.Endpoint, error) {
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
		now := m.now()
		if now.Sub(told) > 5*time.Second {
			told = now
			m.told(MoveSwitched, open)
		}
		if err := m.hopeless(open); err != nil {
			return moved, err
		}
		if now.After(m.deadline) {
			return moved, web.State("", "%d records are still open in partition %d after %ds: it was moved back; "+
				"try again with a longer --wait",
				open.Immediate+open.Waiting, m.ep.Partition, m.ask.WaitSeconds)
		}
		if moved.Move.Until.Sub(now) < moveLease/2 {
			held, err := m.endpoints.ExtendMove(ctx, moved, now.Add(moveLease))
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

func (m *mover) told(state string, o dispatcher.OpenRecords) {
	s := MoveStep{State: state, From: m.ep.Partition, To: int32(m.ask.Partition), Open: o.Immediate, Waiting: o.Waiting}
	if !o.LastDue.IsZero() {
		s.Until = &o.LastDue
	}
	m.tell(s)
}
