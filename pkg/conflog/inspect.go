package conflog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// Node is a node whose last heartbeat is younger than 5 s.
type Node struct {
	Name      string
	Version   string        // version of its program; empty if unknown
	Keys      []string      // ids of its master keys, the one that seals first; empty if unknown
	Lag       int64         // records of the configuration log that it has not applied yet, as far as this node knows
	ClockSkew time.Duration // how far the broker's clock is ahead of the node's; see Log.ClockSkew
	Shared    bool          // two processes run under this name
}

// Nodes returns the living nodes by name, this one included while it runs.
func (l *Log) Nodes() []Node {
	next := l.view.Load().nextOffset
	var nodes []Node
	for _, p := range l.peers.living(l.now(), l.timing.Lease) {
		nodes = append(nodes, Node{
			Name: p.last.Node, Version: p.last.Version, Keys: p.last.Keys, Lag: max(0, next-p.nextOffset),
			ClockSkew: time.Duration(p.last.SkewMS) * time.Millisecond,
			Shared:    l.peers.isShared(p.last.Node, l.now(), l.timing.Lease),
		})
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	// The old and the new process of a node that was just restarted may both be living: list the node once.
	return slices.CompactFunc(nodes, func(a, b Node) bool { return a.Name == b.Name })
}

// Lag returns how many records of the configuration log this node has not applied yet. It is negative if the log ends
// before what this node has applied: it was lost, or replaced.
func (l *Log) Lag(ctx context.Context) (int64, error) {
	next := l.view.Load().nextOffset // before the end is read, which only rises
	ends, err := l.reader.Ends(ctx, stream.Control)
	if err != nil {
		return 0, fmt.Errorf("read the end of the configuration log: %w", err)
	}
	return ends[recordLog] - next, nil
}

// Inspect reads the log as it is now, without joining the cluster: it writes nothing and sends no heartbeats.
// Afterwards the Log answers reads from that state, and accepts no change except Finalize. Call it once, instead of
// Run, and call Close when it has returned nil.
func (l *Log) Inspect(ctx context.Context) (err error) {
	close(l.stopped)
	if l.reader, err = stream.NewReader(l.stream, "inspect"); err != nil {
		return err
	}
	if err := l.readAll(ctx); err != nil {
		l.reader.Close()
		return err
	}
	return nil
}

// readAll reads the current content of the topics.
func (l *Log) readAll(ctx context.Context) error {
	s, next, _, err := l.load(ctx)
	if err != nil {
		return err
	}
	l.publish(s, next)
	ends, err := l.reader.Ends(ctx, stream.Control)
	if err != nil {
		return fmt.Errorf("read the end of the configuration log: %w", err)
	}
	if err := l.readRange(ctx, recordLog, next, ends[recordLog], l.applyRecord); err != nil {
		return err
	}
	if err := (authenticator{l}).checkSecret(); err != nil {
		return err
	}
	for _, topic := range []string{stream.Nodes, stream.Heartbeats} {
		if err := l.readHeartbeats(ctx, stream.Partition{Topic: topic}); err != nil {
			return fmt.Errorf("read the heartbeats of the nodes: %w", err)
		}
	}
	return nil
}

// readHeartbeats reads the heartbeats that are as old as a lease at most.
func (l *Log) readHeartbeats(ctx context.Context, p stream.Partition) error {
	at, err := l.reader.OffsetsForTime(ctx, p.Topic, l.now().Add(-l.timing.Lease))
	if err != nil {
		return err
	}
	ends, err := l.reader.Ends(ctx, p.Topic)
	if err != nil {
		return err
	}
	return l.readRange(ctx, p, at[p], ends[p], func(r *stream.Record) error {
		if h, _, ok := (membership{l}).decodeHeartbeat(p.Topic, r); ok && h.Node != "" {
			l.peers.record(h, l.now(), l.timing.Lease)
		}
		return nil
	})
}

// Close releases what Inspect opened.
func (l *Log) Close() { l.reader.Close() }
