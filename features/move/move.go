package move

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/dispatcher"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

// Move asks for an endpoint to be moved to another partition.
type Move struct {
	Endpoint    string `json:"endpoint"`
	Partition   int    `json:"partition"`
	WaitSeconds int64  `json:"wait_seconds"` // for open records in the old partition
	Leave       bool   `json:"leave"`        // leave records that wait for a retry in the old partition
	DryRun      bool   `json:"dry_run"`
}

// States of a move.
const (
	StateOpen     = "open"     // nothing has changed yet
	StateSwitched = "switched" // new events go to the new partition and wait there
	StateMoved    = "moved"
)

// Step is the progress of a move, with the open records in the old partition.
type Step struct {
	State   string     `json:"state"`
	From    int32      `json:"from"`
	To      int32      `json:"to"`
	Open    int        `json:"open"`    // records that can be processed now
	Waiting int        `json:"waiting"` // records that wait for a retry or are held
	Until   *time.Time `json:"until"`   // when the last of these is due
}

// String describes the step in one line.
func (s Step) String() string {
	open := fmt.Sprintf("%d records are open in partition %d", s.Open+s.Waiting, s.From)
	if s.Waiting > 0 && s.Until != nil {
		open += fmt.Sprintf(", %d of them wait, the last until %s", s.Waiting, s.Until.Format(time.RFC3339))
	}
	switch s.State {
	case StateSwitched:
		return fmt.Sprintf("new events go to partition %d and wait; %s", s.To, open)
	case StateMoved:
		return fmt.Sprintf("moved from partition %d to %d", s.From, s.To)
	}
	return open
}

// maxWait bounds how long a move waits.
const maxWait = time.Hour

const (
	// moveLease is how long new events wait after the moving node last extended the move: a crash of that node delays
	// them this long.
	moveLease = time.Minute
	// surveyInterval is the pause between two counts of open records.
	surveyInterval = 500 * time.Millisecond
	// moveBackTimeout bounds the reversal of a move.
	moveBackTimeout = 20 * time.Second
)

// Endpoints reads and moves endpoints in the configuration.
type Endpoints interface {
	Endpoint(id string) (*config.Endpoint, entity.Presence)
	MoveEndpoint(ctx context.Context, endpoint string, to int32, until time.Time) (*config.Endpoint, error)
	ExtendMove(ctx context.Context, moved *config.Endpoint, until time.Time) (*config.Endpoint, error)
	EndMove(ctx context.Context, moved *config.Endpoint, back bool) (*config.Endpoint, error)
}

// Partitions reads the log for open records of endpoints.
type Partitions interface {
	Count(ctx context.Context) (int, error)
	Survey(endpoint string, partitions []int32) Survey
	Close()
}

// Survey counts the open records of one endpoint; see dispatcher.Survey.
type Survey interface {
	Refresh(ctx context.Context) (dispatcher.OpenRecords, error)
}

func newParts(h *features.Host) features.Parts {
	return features.Parts{Steps: map[string]func(*http.Request, func(any)) error{
		"POST /move": func(r *http.Request, report func(any)) error {
			x := &moves{log: h.Log, endpoints: h.Control, now: h.Now, open: func() (Partitions, error) {
				r, err := stream.NewReader(h.Stream, "move")
				return partitions{r}, err
			}}
			x.named = func() (all []cli.Named) {
				page, _ := h.Control.Endpoints(h.Control.Account().ID, 0, math.MaxInt)
				for _, e := range page {
					all = append(all, cli.Named{ID: e.ID, Name: e.Name})
				}
				return all
			}
			return x.move(r, report)
		},
	}}
}

// partitions reads the log for the move of an endpoint.
type partitions struct{ *stream.Reader }

// Count returns how many partitions events have.
func (p partitions) Count(ctx context.Context) (int, error) {
	ends, err := p.Ends(ctx, stream.Events)
	return len(ends), err
}

func (p partitions) Survey(endpoint string, partitions []int32) Survey {
	return dispatcher.NewSurvey(p.Reader, endpoint, partitions)
}

// moves is the handler of relay endpoints move.
type moves struct {
	log       *slog.Logger
	endpoints Endpoints
	named     func() []cli.Named // all endpoints
	open      func() (Partitions, error)
	now       func() time.Time
}

// mover moves one endpoint.
type mover struct {
	*moves
	request  Move
	endpoint *config.Endpoint // before the move
	survey   Survey
	deadline time.Time
	report   func(any)
}

// move moves an endpoint to another partition: it switches new events to it, where they wait until no earlier record is
// open in the old one.
func (x *moves) move(r *http.Request, report func(any)) error {
	m := mover{moves: x, report: report}
	if err := json.NewDecoder(r.Body).Decode(&m.request); err != nil {
		return web.Invalid("", "the command could not be read: %v", err)
	}
	if m.request.WaitSeconds < 1 || time.Duration(m.request.WaitSeconds)*time.Second > maxWait {
		return web.Invalid("wait_seconds", "must be from 1 to %d", int(maxWait/time.Second))
	}
	var presence entity.Presence
	if m.endpoint, presence = x.endpoints.Endpoint(m.request.Endpoint); presence != entity.Present {
		id, err := cli.ByName("endpoint", m.request.Endpoint, x.named())
		if err != nil {
			return web.Missing("%v", err)
		}
		if m.endpoint, presence = x.endpoints.Endpoint(id); presence != entity.Present {
			return web.Missing("no endpoint has this id any more")
		}
	}
	log, err := x.open()
	if err != nil {
		return err
	}
	defer log.Close()
	if err := m.rejectImpossible(r.Context(), log); err != nil {
		return err
	}
	// Former partitions count too: an old event may be replayed there.
	m.survey = log.Survey(m.endpoint.ID, append([]int32{m.endpoint.Partition}, m.endpoint.FormerPartitions...))
	m.deadline = m.now().Add(time.Duration(m.request.WaitSeconds) * time.Second)
	open, err := m.countOpen(r.Context())
	if err != nil {
		return err
	}
	m.reportStep(StateOpen, open)
	if err := m.rejectIfDueTooLate(open); err != nil {
		return err
	}
	if m.request.DryRun {
		return nil
	}
	return m.carryOut(r.Context())
}

// rejectImpossible returns an error for a move that cannot succeed.
func (m *mover) rejectImpossible(ctx context.Context, log Partitions) error {
	partitions, err := log.Count(ctx)
	if err != nil {
		return err
	}
	switch {
	case m.request.Partition < 0 || m.request.Partition >= partitions:
		return web.Invalid("partition", "must be from 0 to %d; relay migrate --partitions adds some", partitions-1)
	case int32(m.request.Partition) == m.endpoint.Partition:
		return web.WrongState("partition", "the endpoint is already in this partition")
	case m.request.Leave && m.isOrdered():
		return web.WrongState("", "a destination of the endpoint is ordered, and the deliveries that are left behind would "+
			"be overtaken; move it without --leave")
	case m.request.Leave:
		return nil
	case m.endpoint.Paused:
		return web.WrongState("", "the endpoint is paused, so its held deliveries cannot complete; "+
			"unpause it, or leave them in the old partition with --leave")
	}
	for _, d := range m.endpoint.Destinations {
		if d.Enabled && d.Paused {
			return web.WrongState("", "its destination %s is paused, so its held deliveries cannot complete; "+
				"unpause it, or leave them in the old partition with --leave", d.ID)
		}
	}
	return nil
}

func (m *mover) isOrdered() bool {
	return slices.ContainsFunc(m.endpoint.Destinations, func(d config.Destination) bool { return d.Ordering != nil })
}

func (m *mover) countOpen(ctx context.Context) (dispatcher.OpenRecords, error) {
	open, err := m.survey.Refresh(ctx)
	if errors.Is(err, dispatcher.ErrTooManyOpen) {
		return open, web.WrongState("", "%v for this endpoint: move it when its backlog is smaller", err)
	}
	return open, err
}

// isDrained reports whether no open record has to be waited for.
func (m *mover) isDrained(o dispatcher.OpenRecords) bool {
	return !o.Any() || m.request.Leave && o.Immediate == 0
}

// rejectIfDueTooLate returns an error when a record that has to be waited for is due after the deadline.
func (m *mover) rejectIfDueTooLate(o dispatcher.OpenRecords) error {
	if m.request.Leave || !o.LastDue.After(m.deadline) {
		return nil
	}
	return web.WrongState("", "%d records wait for a retry, the last until %s, which is longer than --wait: "+
		"wait for them, purge them, or leave them in partition %d with --leave",
		o.Waiting, o.LastDue.Format(time.RFC3339), m.endpoint.Partition)
}

// carryOut switches new events to the new partition, waits until the old one is drained, and ends the move. If that
// fails, or the client disconnects, it moves the endpoint back.
func (m *mover) carryOut(ctx context.Context) error {
	moved, err := m.endpoints.MoveEndpoint(ctx, m.endpoint.ID, int32(m.request.Partition), m.now().Add(moveLease))
	switch {
	case errors.Is(err, config.ErrMoving):
		return web.WrongState("", "%v", err)
	case errors.Is(err, config.ErrNotFound):
		return web.Missing("no endpoint has this id any more")
	case err != nil:
		return fmt.Errorf("move endpoint: %w", err)
	}
	moved, err = m.waitUntilDrained(ctx, moved)
	if err == nil {
		if _, err = m.endpoints.EndMove(ctx, moved, false); err == nil {
			m.reportStep(StateMoved, dispatcher.OpenRecords{})
			return nil
		}
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveBackTimeout)
	defer cancel()
	if _, backErr := m.endpoints.EndMove(back, moved, true); backErr != nil {
		m.log.LogAttrs(ctx, slog.LevelError, "cannot move the endpoint back to its partition",
			slog.String("endpoint", m.endpoint.ID), slog.Int("partition", m.request.Partition), slog.Any("error", backErr))
		return fmt.Errorf("move endpoint back: %w", errors.Join(backErr, err))
	}
	return err
}

// waitUntilDrained counts open records until none is left, and extends the move meanwhile so that new events wait. It
// returns the endpoint with the last extension.
func (m *mover) waitUntilDrained(ctx context.Context, moved *config.Endpoint) (*config.Endpoint, error) {
	tick := time.NewTicker(surveyInterval)
	defer tick.Stop()
	var reported time.Time
	for {
		open, err := m.countOpen(ctx)
		if err != nil {
			return moved, err
		}
		if m.isDrained(open) {
			return moved, nil
		}
		now := m.now()
		if now.Sub(reported) > 5*time.Second {
			reported = now
			m.reportStep(StateSwitched, open)
		}
		if err := m.rejectIfDueTooLate(open); err != nil {
			return moved, err
		}
		if now.After(m.deadline) {
			return moved, web.WrongState("", "%d records are still open in partition %d after %ds: it was moved back; "+
				"try again with a longer --wait",
				open.Immediate+open.Waiting, m.endpoint.Partition, m.request.WaitSeconds)
		}
		if moved.Move.Until.Sub(now) < moveLease/2 {
			extended, err := m.endpoints.ExtendMove(ctx, moved, now.Add(moveLease))
			if err != nil {
				return moved, fmt.Errorf("extend the move: %w", err)
			}
			moved = extended
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return moved, ctx.Err()
		}
	}
}

func (m *mover) reportStep(state string, o dispatcher.OpenRecords) {
	s := Step{State: state, From: m.endpoint.Partition, To: int32(m.request.Partition), Open: o.Immediate,
		Waiting: o.Waiting}
	if !o.LastDue.IsZero() {
		s.Until = &o.LastDue
	}
	m.report(s)
}
