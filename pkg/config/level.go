package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/stream"
)

// Nodes of two versions run beside each other while a cluster is upgraded, and the older would take a record of a
// kind that it does not know for an invalid one: the configurations would part. So the log has a level, part of the
// state, and a record of a kind above it is refused by every node alike, the newer ones included. relay migrate
// --finalize raises it when all nodes are new; a node that is too old for the new level stops.
//
// The first record of a log says at which level it begins: at the newest that its writer knows. What a node cannot
// authenticate it passes over, so a program that authenticates records in another way raises the level first.

const (
	// baseLevel is that of a log whose records tell none.
	baseLevel = 1
	// newestLevel is the highest that this program knows. A new kind comes with a new one. Level 4 has none: versions
	// before it leave to views what is gone from the tables then.
	newestLevel = 4
)

// ErrLevel means that the configuration log is not yet at the level that a write needs, or that a node is not.
var ErrLevel = errors.New("the configuration log is at an older level")

// level is the first one at which there may be entities of the kind.
func (k kind) level() int {
	switch k {
	case kindAccount, kindEndpoint, kindKey, kindLog:
		return 1
	case kindRun, kindAnswer, kindRecovery, kindAlertSettings, kindAlert, kindUser, kindTrail:
		return 2
	case kindErasure:
		return 3
	}
	panic("BUG: kind without a level")
}

// Level is that of the log, 0 as long as it is empty, and the newest that this program knows.
func (c *Control) Level() (now, newest int) { return c.view.Load().level, newestLevel }

// allows reports whether the log is at the level of a kind. An empty one begins at the newest.
func (s *state) allows(k kind) error {
	if s.seq == 0 || k.level() <= s.level {
		return nil
	}
	return errEarly(k, s.level)
}

func errEarly(k kind, level int) error {
	return fmt.Errorf("%w: %s needs level %d, it is at %d; when every node runs this version, run relay migrate --finalize", ErrLevel, k, k.level(), level)
}

// raise is the outcome of a record that raises the level.
func (s *state) raise(level int) result {
	if level <= s.level {
		return conflict
	}
	s.level = level
	return applied
}

func (c *Control) newRaise(s *state) record {
	r := c.newRecord(s, kindAccount, "level", preNone, opLevel)
	r.Level = newestLevel
	return r
}

// ensureLevel raises the log of a node that has no others beside it.
func (c *Control) ensureLevel(ctx context.Context) error {
	s := c.view.Load().state
	if !c.cfg.Alone || s.seq == 0 || s.level >= newestLevel {
		return nil
	}
	_, err := c.write(ctx, c.newRaise(s), nil)
	return err
}

// Finalize raises the log to the newest level that this program knows, and returns the level before. It is refused
// while a node is heard of whose program does not know that level. An empty log needs nothing.
func Finalize(ctx context.Context, cfg Config, deps Deps) (before int, err error) {
	c, err := Inspect(ctx, cfg, deps)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	s := c.view.Load()
	if s.seq == 0 || s.level >= newestLevel {
		return s.level, nil
	}
	if old := c.olderNodes(); len(old) > 0 {
		return s.level, fmt.Errorf("%w: level %d is not known to %s; upgrade or stop them first", ErrLevel, newestLevel, strings.Join(old, ", "))
	}
	rec, err := c.encode(c.newRaise(s.state), c.auth.Load())
	if err != nil {
		return s.level, err
	}
	p, err := stream.NewProducer(c.stream, "finalize")
	if err != nil {
		return s.level, err
	}
	defer p.Close()
	if err := p.ProduceSync(ctx, stream.Control, 0, rec); err != nil {
		return s.level, fmt.Errorf("raise the level of the configuration log: %w", err)
	}
	// What was written meanwhile may have come first: the log tells what became of it.
	if err := c.readRange(ctx, controlLog, s.next, rec.Offset+1, c.step); err != nil {
		return s.level, err
	}
	if now := c.view.Load().level; now < newestLevel {
		return s.level, fmt.Errorf("%w: it is at %d still", ErrLevel, now)
	}
	return s.level, nil
}

// olderNodes are the living nodes whose programs do not know the newest level.
func (c *Control) olderNodes() (names []string) {
	c.peers.mu.Lock()
	defer c.peers.mu.Unlock()
	for _, p := range c.peers.nodes {
		if p.told.Level < newestLevel && c.now().Sub(p.heard) < c.timing.lease {
			names = append(names, fmt.Sprintf("node %s (version %s)", p.told.Node, p.told.Version))
		}
	}
	slices.Sort(names)
	return names
}
