package stream

import (
	"context"
	"errors"
	"time"
)

// Batch holds consecutive records of one partition, at least one.
type Batch struct {
	Partition Partition
	Records   []*Record
}

// Done returns what a group commits that has processed the batch.
func (b Batch) Done() Commit {
	last := b.Records[len(b.Records)-1]
	return Commit{Offset: last.Offset + 1, LeaderEpoch: last.LeaderEpoch}
}

// PollFor is Poll for groups that have other work at least every so often: it returns what one Poll returns within
// most, and no error if nothing came.
func (m *Group) PollFor(ctx context.Context, most time.Duration) ([]Batch, error) {
	var batches []Batch
	polling, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := m.Poll(polling, func(p Partition, records []*Record) { batches = append(batches, Batch{p, records}) })
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	return batches, nil
}

// commitTimeout bounds CommitAll: Revoked waits for it, and brokers wait 30 s for Revoked.
const commitTimeout = 5 * time.Second

// CommitAll commits within 5 s and then clears commits. If that fails they stay, for the next call.
func (m *Group) CommitAll(ctx context.Context, commits map[Partition]Commit) error {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := m.Commit(ctx, commits); err != nil {
		return err
	}
	clear(commits)
	return nil
}
