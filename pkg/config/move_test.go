package config

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// Only one move of an endpoint runs at a time. It changes nothing else in the endpoint, and other changes do not affect
// it. It ends forward or back. The partitions of earlier events are kept.
func TestMoveEndpoint(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b := node(t, conf, Config{Node: "a"}), node(t, conf, Config{Node: "b"})
		created := a.create(t)
		from := created.Partition
		to, third := (from+1)%4, (from+2)%4
		until := time.Now().Add(time.Minute)
		moved := must(a.MoveEndpoint(ctx, created.ID, to, until))(t)
		now := time.Now()
		if moved.Partition != to || !slices.Equal(moved.FormerPartitions, []int32{from}) || !moved.Move.Until.Equal(until) ||
			!moved.UpdatedAt.Equal(created.UpdatedAt) {
			t.Fatalf("%+v, %+v", moved, moved.Move)
		}
		if !moved.HoldsDeliveries(to, now) || moved.HoldsDeliveries(from, now) || moved.HoldsDeliveries(to, until) ||
			created.HoldsDeliveries(from, now) {
			t.Error("deliveries of new events must wait until the end of the move, others must not")
		}
		// When the move is answered, the other node has it.
		if there, _ := b.Endpoint(created.ID); there.Partition != to {
			t.Errorf("the other node has %+v", there)
		}
		if _, err := b.MoveEndpoint(ctx, created.ID, third, until); !errors.Is(err, ErrMoving) {
			t.Errorf("a second move: %v", err)
		}
		must(b.UpdateEndpoint(ctx, created.ID, func(e *Endpoint) error {
			e.Name, e.Partition, e.FormerPartitions, e.Move = "renamed", third, nil, nil
			return nil
		}))(t)
		held, err := a.ExtendMove(ctx, moved, until.Add(time.Minute))
		if err != nil || held.Name != "renamed" || held.Partition != to || !held.HoldsDeliveries(to, until) {
			t.Fatalf("%+v, %v", held, err)
		}
		if _, err := a.EndMove(ctx, moved, true); !errors.Is(err, ErrMoving) {
			t.Errorf("the end of a move that was replaced by another: %v", err)
		}
		back, err := a.EndMove(ctx, held, true)
		if err != nil || back.Partition != from || back.Move != nil || !slices.Equal(back.FormerPartitions, []int32{to}) {
			t.Fatalf("back: %+v, %v", back, err)
		}
		if _, err := a.ExtendMove(ctx, held, until); !errors.Is(err, ErrMoving) {
			t.Errorf("a move that has ended: %v", err)
		}
		if _, err := a.MoveEndpoint(ctx, created.ID, from, until); !errors.Is(err, ErrSamePartition) {
			t.Errorf("to its own partition: %v", err)
		}
		// The node that moved it has failed: after a while another node may move it.
		must(a.MoveEndpoint(ctx, created.ID, to, time.Now().Add(time.Minute)))(t)
		time.Sleep(time.Minute)
		moved = must(b.MoveEndpoint(ctx, created.ID, third, time.Now().Add(time.Minute)))(t)
		end, err := b.EndMove(ctx, moved, false)
		if want := []int32{from, to}; err != nil || end.Partition != third || end.Move != nil ||
			!slices.Equal(end.FormerPartitions, sorted(want)) {
			t.Fatalf("%+v, %v", end, err)
		}
		if _, err := a.MoveEndpoint(ctx, "ep_nope", to, until); !errors.Is(err, ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
	})
}

func sorted(s []int32) []int32 { slices.Sort(s); return s }
