package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrMoving means that an endpoint is being moved, by somebody else.
var ErrMoving = errors.New("the endpoint is being moved")

// ErrSamePartition means that an endpoint is where it is to be moved to.
var ErrSamePartition = errors.New("the endpoint is in this partition")

// MoveEndpoint gives an endpoint another partition, which its new events go to, and makes those wait until
// EndMove, or the time until. It returns when no node accepts an event into the old partition any more, but
// for requests that are being read.
func (c endpoints) MoveEndpoint(ctx context.Context, endpoint string, to int32, until time.Time) (*Endpoint, error) {
	return c.move(ctx, endpoint, func(e *Endpoint) error {
		switch {
		case e.Move != nil && c.now().Before(e.Move.Until):
			return fmt.Errorf("%w until %s at the latest", ErrMoving, e.Move.Until.Format(time.RFC3339))
		case e.Partition == to:
			return ErrSamePartition
		}
		e.Move = &PartitionMove{From: e.Partition, Until: until.UTC()}
		e.setPartition(to)
		return nil
	})
}

// ExtendMove makes the new events of an endpoint that MoveEndpoint or ExtendMove has returned wait for longer.
func (c endpoints) ExtendMove(ctx context.Context, moved *Endpoint, until time.Time) (*Endpoint, error) {
	return c.move(ctx, moved.ID, func(e *Endpoint) error {
		if !e.sameMove(moved) {
			return ErrMoving
		}
		e.Move.Until = until.UTC()
		return nil
	})
}

// EndMove ends a move that MoveEndpoint has begun: what waits goes on. With back, new events go to the old
// partition again; those that were accepted meanwhile stay in the new one.
func (c endpoints) EndMove(ctx context.Context, moved *Endpoint, back bool) (*Endpoint, error) {
	return c.move(ctx, moved.ID, func(e *Endpoint) error {
		if !e.sameMove(moved) {
			return ErrMoving
		}
		from := e.Move.From
		if e.Move = nil; back {
			e.setPartition(from)
		}
		return nil
	})
}

// sameMove reports whether it is still the same move.
func (e *Endpoint) sameMove(moved *Endpoint) bool {
	return e.Move != nil && moved.Move != nil && e.Move.From == moved.Move.From &&
		e.Move.Until.Equal(moved.Move.Until)
}

// settle changes the partition and remembers the one before.
func (e *Endpoint) setPartition(to int32) {
	former := append(slices.Clone(e.FormerPartitions), e.Partition)
	slices.Sort(former)
	e.FormerPartitions = slices.DeleteFunc(slices.Compact(former), func(p int32) bool { return p == to })
	e.Partition = to
}

// move changes what ordinary changes leave alone, and waits until every node goes by it.
func (c endpoints) move(ctx context.Context, endpoint string, change func(*Endpoint) error) (*Endpoint, error) {
	_, res, err := c.change(ctx, kindEndpoint, endpoint, isExempt, func(old value) (value, error) {
		raw, err := json.Marshal(old)
		if err != nil {
			return nil, fmt.Errorf("encode endpoint %s: %w", endpoint, err)
		}
		var e Endpoint
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("copy endpoint %s: %w", endpoint, err)
		}
		if err := change(&e); err != nil {
			return nil, err
		}
		return &e, nil
	})
	if err != nil {
		return nil, err
	}
	return c.endpoint(res.Entity), c.Barrier(ctx, res)
}
