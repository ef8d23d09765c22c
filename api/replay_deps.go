package api

import (
	"context"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Replays are what replays, and repeats of requests, need beside the rest.
type Replays struct {
	Selection Selector
	Runs      Runs
	Answers   Answers
}

// Commander puts work into the log, into the partitions of its events, and returns when all of it is durable or when
// ctx ends, and how much was acknowledged by then. stream.ErrBufferFull means that the rest was not taken; after any
// other error it may yet become durable.
type Commander interface {
	Commands(ctx context.Context, works []*event.Work) (acknowledged int, err error)
}

// Selector finds what a replay sends. It takes part in none of it.
type Selector interface {
	// Select passes on everything that a query matches, newest first, or is event.ErrUnavailable when the store does not
	// hold all that was acknowledged before the call.
	Select(ctx context.Context, q event.Query, page func([]event.Match) error) error
	// Stored returns whole events in the order of the ids, without those that are gone.
	Stored(ctx context.Context, account string, ids []id.ID) ([]event.Stored, error)
	// RecoveryCounts are the deliveries of runs that have ended, of those that have any, and up to when that is known.
	RecoveryCounts(ctx context.Context, account string, runs ...string) (map[string]event.RecoveryCounts, time.Time, error)
	// CountCommands counts the deliveries of a run that stand in the log, of events newer than one, asked for since a
	// moment.
	CountCommands(ctx context.Context, run string, since time.Time, newer id.ID) (int, error)
}

// Runs are the replay runs.
type Runs interface {
	AddRun(ctx context.Context, r *config.Run) (*config.Run, error)
	ChangeRun(ctx context.Context, id string, alter func(*config.Run) error) (*config.Run, error)
	ReplayRun(id string) (*config.Run, config.Presence)
	ReplayRuns(account string, beforeSeq int64, limit int, keep func(*config.Run) bool) ([]*config.Run, bool)
	QueueingRuns(since time.Time) []*config.Run
}

// Answers are what requests under an Idempotency-Key came to.
type Answers interface {
	ClaimAnswer(ctx context.Context, claim *config.Answer, optional bool) (*config.Answer, error)
	ChangeAnswer(ctx context.Context, id string, alter func(*config.Answer) error) (*config.Answer, error)
	ReleaseClaim(ctx context.Context, claim *config.Answer) error
}
