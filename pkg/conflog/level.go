package conflog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/stream"
)

// Nodes of two versions run at the same time while a cluster is upgraded. An older node does not know the newer kinds:
// it would refuse their records, the newer nodes would apply them, and the states would diverge. So the log has a
// level, which is part of the state. All nodes, newer ones included, refuse a record of a kind above that level. relay
// migrate --finalize raises the level when all nodes run the new version. A node that is too old for the level stops.
//
// The first record of a log sets its level: the newest that its writer knows, which is the highest level of its kinds.
// Nodes ignore records that they cannot authenticate. So a version that authenticates records in a new way must raise
// the level first.

// baseLevel is the level of a log whose records name none, and of the kinds that every version knows.
const baseLevel = 1

// ErrLevel means that a write needs a higher level of the configuration log, or that a living node does not support it.
var ErrLevel = errors.New("the configuration log is at an older level")

// errNewer is the error that stops a node too old for the log.
func errNewer(level, newest int) error {
	return fmt.Errorf("the configuration log is at level %d, this version supports up to %d: run a newer version",
		level, newest)
}

// Level returns the level of the log, 0 while it is empty, and the newest level that this program supports.
func (l *Log) Level() (now, newest int) { return l.view.Load().level, l.kinds.newestLevel }

// checkLevel returns an error when the log is below the level of a kind. An empty log starts at the newest level.
func (s *state) checkLevel(k Kind) error {
	if s.seq == 0 || s.kinds.infos[k].Level <= s.level {
		return nil
	}
	return s.errEarly(k)
}

// errEarly is the error for a kind above the level of the log.
func (s *state) errEarly(k Kind) error {
	return fmt.Errorf("%w: kind %s needs level %d, the log is at %d; when every node runs this version, "+
		"run relay migrate --finalize",
		ErrLevel, s.kinds.name(k), s.kinds.infos[k].Level, s.level)
}

// raiseLevel applies a record that raises the level.
func (s *state) raiseLevel(level int) result {
	if level <= s.level {
		return conflict
	}
	s.level = level
	return applied
}

// levels raises the level of a log.
type levels struct{ *Log }

// newLevelRecord returns the record that raises the log to the newest level.
func (l levels) newLevelRecord(s *state) record {
	r := l.newRecord(s, KindLog, "level", preNone, opLevel)
	r.Level = l.kinds.newestLevel
	return r
}

// ensureLevel raises the level of the log at the start of a node with Config.SingleNode.
func (l levels) ensureLevel(ctx context.Context) error {
	s := l.view.Load().state
	if !l.cfg.SingleNode || s.seq == 0 || s.level >= l.kinds.newestLevel {
		return nil
	}
	_, err := writer(l).write(ctx, l.newLevelRecord(s))
	return err
}

// Finalize raises the level of a log that Inspect has opened to the newest that this program supports, and returns the
// level before. It returns ErrLevel while a living node does not support that level. It does nothing to an empty log.
func (l *Log) Finalize(ctx context.Context) (before int, err error) {
	s, newest := l.view.Load(), l.kinds.newestLevel
	if s.seq == 0 || s.level >= newest {
		return s.level, nil
	}
	if old := (levels{l}).olderNodes(); len(old) > 0 {
		return s.level, fmt.Errorf(
			"%w: level %d is not supported by %s; upgrade or stop them first", ErrLevel, newest, strings.Join(old, ", "))
	}
	rec, err := (writer{l}).encode((levels{l}).newLevelRecord(s.state), l.macKeys.Load())
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
	// Other records may stand before it: read the log up to the record to learn its result.
	if err := l.readRange(ctx, recordLog, s.nextOffset, rec.Offset+1, l.applyRecord); err != nil {
		return s.level, err
	}
	if now := l.view.Load().level; now < newest {
		return s.level, fmt.Errorf("%w: the level is still %d", ErrLevel, now)
	}
	return s.level, nil
}

// olderNodes names the living nodes that do not support the newest level.
func (l levels) olderNodes() (names []string) {
	for _, p := range l.peers.living(l.now(), l.timing.Lease) {
		if p.last.Level < l.kinds.newestLevel {
			names = append(names, fmt.Sprintf("node %s (version %s)", p.last.Node, p.last.Version))
		}
	}
	slices.Sort(names)
	return names
}
