package clickhouse

import (
	"context"
	"slices"
	"strings"
)

// writerSlots is how many sessions are reserved for statements that write: however many reads wait, the store writer
// goes on.
const writerSlots = 2

// slots limits the statements that run at once. A ping has a slot of its own: it tests whether the engine answers, not
// whether a session is free.
type slots struct {
	all   chan struct{} // one token per running statement
	reads chan struct{} // one token per running statement that only reads; it also holds one of all
	ping  chan struct{}
}

func newSlots(sessions int) *slots {
	return &slots{
		all: make(chan struct{}, sessions), reads: make(chan struct{}, max(1, sessions-writerSlots)),
		ping: make(chan struct{}, 1),
	}
}

// pingQuery is the ping of clickhouse-go.
const pingQuery = "SELECT 1"

// readVerbs are the first words of statements that only read.
var readVerbs = []string{"SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN"}

// acquire waits until the statement may run; the returned function releases its slots.
func (s *slots) acquire(ctx context.Context, q *request) (release func(), err error) {
	var needs []chan struct{}
	switch {
	case q.insert == nil && strings.TrimSpace(q.query) == pingQuery:
		needs = []chan struct{}{s.ping}
	case q.insert == nil && slices.Contains(readVerbs, strings.ToUpper(verb(q.query))):
		needs = []chan struct{}{s.reads, s.all} // in this order: a read that waits for reads must not hold one of all
	default:
		needs = []chan struct{}{s.all}
	}
	for i, need := range needs {
		select {
		case need <- struct{}{}:
		case <-ctx.Done():
			releaseSlots(needs[:i])
			return nil, context.Cause(ctx)
		}
	}
	return func() { releaseSlots(needs) }, nil
}

func releaseSlots(taken []chan struct{}) {
	for _, slot := range taken {
		<-slot
	}
}
