package conflog

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
// The first record of a log says at which level it begins: at the newest that its writer knows, which is the highest
// of its kinds. What a node cannot authenticate it passes over, so a program that authenticates records in another way
// raises the level first.

// baseLevel is that of a log whose records tell none, and of the kinds that every version knows.
const baseLevel = 1

// ErrLevel means that the configuration log is not yet at the level that a write needs, or that a node is not.
var ErrLevel = errors.New("the configuration log is at an older level")

// errNewer stops a node that is too old for the log.
func errNewer(level, newest int) error {
	return fmt.Errorf("the configuration log is at level %d, this program knows %d: it is for a newer one", level, newest)
}

// Level is that of the log, 0 as long as it is empty, and the newest that this program knows.
func (l *Log) Level() (now, newest int) { return l.view.Load().level, l.kinds.newestLevel }

// allows reports whether the log is at the level of a kind. An empty one begins at the newest.
func (s *state) checkLevel(k Kind) error {
	if s.seq == 0 || s.kinds.infos[k].Level <= s.level {
		return nil
	}
	return s.errEarly(k)
}

func (s *state) errEarly(k Kind) error {
	return fmt.Errorf("%w: %s needs level %d, it is at %d; when every node runs this version, run relay migrate "+
		"--finalize",
		ErrLevel, s.kinds.name(k), s.kinds.infos[k].Level, s.level)
}

// raise is the outcome of a record that raises the level.
func (s *state) raiseLevel(level int) result {
	if level <= s.level {
		return conflict
	}
	s.level = level
	return applied
}

// levels raises the level of a log.
type levels struct{ *Log }

func (l levels) newRaise(s *state) record {
	r := l.newRecord(s, KindLog, "level", preNone, opLevel)
	r.Level = l.kinds.newestLevel
	return r
}

// ensureLevel raises the log of a node that has no others beside it.
func (l levels) ensureLevel(ctx context.Context) error {
	s := l.view.Load().state
	if !l.cfg.SingleNode || s.seq == 0 || s.level >= l.kinds.newestLevel {
		return nil
	}
	_, err := writer(l).write(ctx, l.newRaise(s))
	return err
}

// Finalize raises a log that Inspect has opened to the newest level that this program knows, and returns the level
// before. It is refused while a node is heard of whose program does not know that level. An empty log needs nothing.
func (l *Log) Finalize(ctx context.Context) (before int, err error) {
	s, newest := l.view.Load(), l.kinds.newestLevel
	if s.seq == 0 || s.level >= newest {
		return s.level, nil
	}
	if old := (levels{l}).olderNodes(); len(old) > 0 {
		return s.level, fmt.Errorf(
			"%w: level %d is not known to %s; upgrade or stop them first", ErrLevel, newest, strings.Join(old, ", "))
	}
	rec, err := (writer{l}).encode((levels{l}).newRaise(s.state), l.auth.Load())
	if err != nil {
		return s.level, err
	}
	p, err := stream.NewProducer(l.stream, "finalize")
	if err != nil {
		return s.level, err
	}
	defer p.Close()
	if err := p.ProduceSync(ctx, stream.Control, 0, rec); err != nil {
		return s.level, fmt.Errorf("raise the level of the configuration log: %w", err)
	}
	// What was written meanwhile may have come first: the log tells what became of it.
	if err := l.readRange(ctx, recordLog, s.nextOffset, rec.Offset+1, l.applyRecord); err != nil {
		return s.level, err
	}
	if now := l.view.Load().level; now < newest {
		return s.level, fmt.Errorf("%w: it is at %d still", ErrLevel, now)
	}
	return s.level, nil
}

// olderNodes are the living nodes whose programs do not know the newest level.
func (l levels) olderNodes() (names []string) {
	for _, p := range l.peers.living(l.now(), l.timing.Lease) {
		if p.last.Level < l.kinds.newestLevel {
			names = append(names, fmt.Sprintf("node %s (version %s)", p.last.Node, p.last.Version))
		}
	}
	slices.Sort(names)
	return names
}
