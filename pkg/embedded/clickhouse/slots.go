package clickhouse

import (
	"context"
	"slices"
	"strings"
)

// writerSlots is how many of the sessions no read may take: however many reads wait, the store writer goes on.
const writerSlots = 2

// slots bounds the statements that run at once. A ping has a slot of its own: it tells whether the engine answers, not
// how many statements wait.
type slots struct {
	all   chan struct{} // one token a running statement
	reads chan struct{} // one token a running statement that only reads, which has one of all too
	ping  chan struct{}
}

func newSlots(sessions int) *slots {
	return &slots{
		all: make(chan struct{}, sessions), reads: make(chan struct{}, max(1, sessions-writerSlots)),
		ping: make(chan struct{}, 1),
	}
}

// pingQuery is what clickhouse-go sends as a ping.
const pingQuery = "SELECT 1"

// reading are the first words of statements that only read.
var reading = []string{"SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN"}

// acquire waits until the statement may run; release ends it.
func (s *slots) acquire(ctx context.Context, q *request) (release func(), err error) {
	var needs []chan struct{}
	switch {
	case q.insert == nil && strings.TrimSpace(q.query) == pingQuery:
		needs = []chan struct{}{s.ping}
	case q.insert == nil && slices.Contains(reading, strings.ToUpper(verb(q.query))):
		needs = []chan struct{}{s.reads, s.all} // in this order: a read that waits for reads holds nothing of all
	default:
		needs = []chan struct{}{s.all}
	}
	for i, need := range needs {
		select {
		case need <- struct{}{}:
		case <-ctx.Done():
			giveBack(needs[:i])
			return nil, context.Cause(ctx)
		}
	}
	return func() { giveBack(needs) }, nil
}

func giveBack(taken []chan struct{}) {
	for _, slot := range taken {
		<-slot
	}
}
