package config

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// Node is a node that was heard of in the last 5 s.
type Node struct {
	Name    string
	Version string        // of its program; empty: one that does not tell
	Keys    []string      // ids of its master keys, the one that seals first; empty: it does not tell
	Behind  int64         // records of the configuration log that it has still to apply, as far as this node knows
	Skew    time.Duration // how far the broker's clock is ahead of its own
}

// Nodes are the living nodes by name, this one included while it runs.
func (c *Control) Nodes() []Node {
	next, now := c.view.Load().next, c.now()
	c.peers.mu.Lock()
	defer c.peers.mu.Unlock()
	var nodes []Node
	for _, p := range c.peers.nodes {
		if now.Sub(p.heard) < c.timing.lease {
			nodes = append(nodes, Node{
				Name: p.told.Node, Version: p.told.Version, Keys: p.told.Keys, Behind: max(0, next-p.next),
				Skew: time.Duration(p.told.SkewMS) * time.Millisecond,
			})
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(nodes, func(a, b Node) bool { return a.Name == b.Name }) // one that was just restarted
}

// Lag is how many records of the configuration log this node has still to apply.
func (c *Control) Lag(ctx context.Context) (int64, error) {
	ends, err := c.reader.Ends(ctx, stream.Control)
	if err != nil {
		return 0, fmt.Errorf("read the end of the configuration log: %w", err)
	}
	return max(0, ends[controlLog]-c.view.Load().next), nil
}

// Seals are how many secrets each master key seals, by its name.
func (c *Control) Seals() (map[string]int, error) {
	n := make(map[string]int)
	err := c.eachWithSecrets(func(_ *entity, v value) {
		eachSealed(v, func(_, _ string, s *Sealed) { n[s.keyName()]++ })
	})
	return n, err
}

// Inspect reads the configuration log as it stands without taking part: nothing is written, and no node
// hears of it. What it returns answers reads, is never up to date again, and takes no changes. Close it.
func Inspect(ctx context.Context, cfg Config, deps Deps) (c *Control, err error) {
	if c, err = New(cfg, deps); err != nil {
		return nil, err
	}
	close(c.stopped)
	reader, err := stream.NewReader(c.stream, "inspect")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			reader.Close()
		}
	}()
	c.reader = reader
	s, next, _, err := c.load(ctx)
	if err != nil {
		return nil, err
	}
	c.publish(s, next)
	ends, err := c.reader.Ends(ctx, stream.Control, stream.Nodes)
	if err != nil {
		return nil, fmt.Errorf("read the end of the configuration log: %w", err)
	}
	if err := c.readRange(ctx, controlLog, next, ends[controlLog], c.step); err != nil {
		return nil, err
	}
	if err := c.readable(); err != nil {
		return nil, err
	}
	nodes := stream.Partition{Topic: stream.Nodes}
	at, err := c.reader.At(ctx, stream.Nodes, c.now().Add(-c.timing.lease))
	if err != nil {
		return nil, fmt.Errorf("find the heartbeats of the nodes: %w", err)
	}
	err = c.readRange(ctx, nodes, at[nodes], ends[nodes], func(r *stream.Record) error {
		if h, ok := c.heartbeatOf(r); ok {
			c.peers.note(h, c.now(), c.timing.lease)
		}
		return nil
	})
	return c, err
}

// Close ends what Inspect opened.
func (c *Control) Close() { c.reader.Close() }
