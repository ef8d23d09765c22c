package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
)

// ErrMoving means that another call is moving the endpoint.
var ErrMoving = errors.New("the endpoint is being moved")

// ErrSamePartition means that the endpoint already is in that partition.
var ErrSamePartition = errors.New("the endpoint is already in this partition")

// MoveEndpoint assigns an endpoint to another partition, where its new events go. Deliveries of these wait until
// EndMove, or until the time until. It returns when no node accepts events into the old partition, except for requests
// whose bodies are being read.
func (c endpoints) MoveEndpoint(ctx context.Context, endpoint string, to int32, until time.Time) (*Endpoint, error) {
	return c.move(ctx, endpoint, func(e *Endpoint) error {
		switch {
		case e.Move != nil && c.Clock().Before(e.Move.Until):
			return fmt.Errorf("%w until %s at the latest", ErrMoving, e.Move.Until.Format(time.RFC3339))
		case e.Partition == to:
			return ErrSamePartition
		}
		e.Move = &PartitionMove{From: e.Partition, Until: until.UTC()}
		e.setPartition(to)
		return nil
	})
}

// ExtendMove extends the wait of a move. moved is the endpoint that MoveEndpoint or ExtendMove returned last.
func (c endpoints) ExtendMove(ctx context.Context, moved *Endpoint, until time.Time) (*Endpoint, error) {
	return c.move(ctx, moved.ID, func(e *Endpoint) error {
		if !e.sameMove(moved) {
			return ErrMoving
		}
		e.Move.Until = until.UTC()
		return nil
	})
}

// EndMove ends a move that MoveEndpoint has started: waiting deliveries continue. With rollBack, new events go to the
// old partition again; events accepted during the move stay in the new one.
func (c endpoints) EndMove(ctx context.Context, moved *Endpoint, rollBack bool) (*Endpoint, error) {
	return c.move(ctx, moved.ID, func(e *Endpoint) error {
		if !e.sameMove(moved) {
			return ErrMoving
		}
		from := e.Move.From
		if e.Move = nil; rollBack {
			e.setPartition(from)
		}
		return nil
	})
}

func (e *Endpoint) sameMove(moved *Endpoint) bool {
	return e.Move != nil && moved.Move != nil && e.Move.From == moved.Move.From &&
		e.Move.Until.Equal(moved.Move.Until)
}

// setPartition changes the partition and adds the old one to FormerPartitions.
func (e *Endpoint) setPartition(to int32) {
	former := append(slices.Clone(e.FormerPartitions), e.Partition)
	slices.Sort(former)
	e.FormerPartitions = slices.DeleteFunc(slices.Compact(former), func(p int32) bool { return p == to })
	e.Partition = to
}

// move changes members that ordinary updates must not change, and waits until every node has applied the change.
func (c endpoints) move(ctx context.Context, endpoint string, change func(*Endpoint) error) (*Endpoint, error) {
	_, res, err := c.Replace(ctx, entity.KindEndpoint, endpoint, func(old entity.Value) (entity.Value, error) {
		e, err := entity.CopyOf(c.Core, old.(*Endpoint))
		if err != nil {
			return nil, err
		}
		return e, change(e)
	})
	if err != nil {
		return nil, err
	}
	return c.endpoint(res.Entity), c.Barrier(ctx, res)
}
