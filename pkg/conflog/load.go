package conflog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"github.com/eventrelay/relay/pkg/stream"
)

const (
	// maxFailedLoads is how many snapshots are loaded in vain before a start does without.
	maxFailedLoads = 8
	// maxLoggedSkips is of how many snapshots the log says why they were passed over.
	maxLoggedSkips = 8
)

// logBounds is where the configuration log and its snapshots begin and end, and whose they are.
type logBounds struct {
	cluster, topic     string
	logStart, logEnd   int64
	snapStart, snapEnd int64
}

// snapshotSearch is one search for a snapshot to start from.
type snapshotSearch struct {
	*Log
	logBounds
	seen        map[[sha256.Size]byte]bool // feet that were judged: a copy of one is none
	authorities map[string]*authority
	openErr     error // why a foot was not even judged
	failedLoads int   // snapshots that were loaded in vain
	skipped     int   // these, and those that are not usable
}

// load returns the state of the newest whole snapshot and the offset in control from which to go on; an
// empty state and the start of the log when there is none. It retries while the brokers do not answer.
func (l *Log) load(ctx context.Context) (s *state, next int64, from storedFooter, err error) {
	find := &snapshotSearch{Log: l, seen: make(map[[sha256.Size]byte]bool), authorities: make(map[string]*authority)}
	if find.logBounds, err = find.readBounds(ctx); err != nil {
		return nil, 0, from, err
	}
	// Feet are looked for from the end, in windows that grow: usually the last record is one.
	for hi, size := find.snapEnd, int64(8); hi > find.snapStart && find.failedLoads < maxFailedLoads; size *= 4 {
		lo := max(find.snapStart, hi-size)
		feet, err := find.footers(ctx, lo, hi)
		if err != nil {
			return nil, 0, from, err
		}
		for _, f := range feet {
			if find.failedLoads == maxFailedLoads {
				break
			}
			if f.Level > l.kinds.newestLevel {
				return nil, 0, from, errNewer(f.Level, l.kinds.newestLevel)
			}
			s, err := snapshots{l}.load(ctx, f.snapshotFooter)
			if err == nil {
				l.auth.Store(find.authorities[f.Secret])
				return s, f.NextOffset, f, nil
			}
			if ctx.Err() != nil {
				return nil, 0, from, ctx.Err()
			}
			find.failedLoads++
			find.skip(ctx, f.offset, err)
		}
		hi = lo
	}
	switch {
	case find.logStart == 0:
	case find.openErr != nil:
		return nil, 0, from, find.openErr
	default:
		return nil, 0, from, fmt.Errorf(
			"%w: the log begins at %d, and there is no snapshot of what was before", errGap, find.logStart)
	}
	return newState(l.kinds), find.logStart, from, nil
}

func (find *snapshotSearch) readBounds(ctx context.Context) (b logBounds, err error) {
	err = find.retry(ctx, "find the configuration log", func(ctx context.Context) error {
		starts, err := find.reader.Starts(ctx, stream.Control, stream.ControlSnapshots)
		if err != nil {
			return err
		}
		ends, err := find.reader.Ends(ctx, stream.Control, stream.ControlSnapshots)
		if err != nil {
			return err
		}
		b.logStart, b.logEnd, b.snapStart, b.snapEnd = starts[recordLog], ends[recordLog], starts[snapshotLog],
			ends[snapshotLog]
		b.cluster, b.topic, err = find.reader.TopicID(ctx, stream.Control)
		return err
	})
	return b, err
}

// skip logs that a snapshot is not used, of the first ones.
func (find *snapshotSearch) skip(ctx context.Context, offset int64, err error) {
	find.skipped++
	if find.skipped <= maxLoggedSkips {
		find.log.LogAttrs(ctx, slog.LevelWarn, "snapshot of the configuration passed over",
			slog.Int64("offset", offset), slog.Any("error", err))
	}
}

// authenticFooter reports whether a foot has the right MAC.
func (find *snapshotSearch) authenticFooter(f storedFooter, r *stream.Record) bool {
	if find.cfg.Unverified {
		return true
	}
	own := find.authorities[f.Secret]
	if own == nil {
		opened, err := (authenticator{find.Log}).openSecret(f.Secret)
		if err != nil {
			find.openErr = err
			return false
		}
		own = &opened
	}
	if !own.verify(macSnapshot, r) {
		(authenticator{find.Log}).reportUnauthentic(stream.ControlSnapshots, r.Offset)
		return false
	}
	find.authorities[f.Secret] = own
	return true
}

// usable reports why a snapshot cannot be gone on from, as far as its foot tells.
func (b logBounds) checkUsable(f storedFooter) error {
	switch {
	case f.Cluster != b.cluster:
		return fmt.Errorf("it belongs to cluster %q, this is %q", f.Cluster, b.cluster)
	case f.Log != b.topic:
		return fmt.Errorf("it belongs to another topic of this name")
	case f.NextOffset < b.logStart:
		return fmt.Errorf("%w: the log begins at %d, the snapshot ends at %d", errGap, b.logStart, f.NextOffset)
	case f.NextOffset > b.logEnd:
		return fmt.Errorf("%w: the log ends at %d, the snapshot at %d", errGap, b.logEnd, f.NextOffset)
	case len(f.Parts) == 0 || f.Parts[0].Offset < b.snapStart:
		return fmt.Errorf("%w: its first parts were deleted", errTorn)
	}
	after := f.offset
	for _, p := range slices.Backward(f.Parts) {
		if p.Offset >= after {
			return fmt.Errorf("%w: its parts are not in order before its foot", errTorn)
		}
		after = p.Offset
	}
	return nil
}

// feet returns the usable feet in [lo, hi) that were not seen before, of the newest states first.
func (find *snapshotSearch) footers(ctx context.Context, lo, hi int64) (feet []storedFooter, err error) {
	err = find.readRange(ctx, snapshotLog, lo, hi, func(r *stream.Record) error {
		if partOf(r) != partFooter {
			return nil
		}
		f := storedFooter{offset: r.Offset, sum: sha256.Sum256(r.Value)}
		if find.seen[f.sum] || json.Unmarshal(r.Value, &f.snapshotFooter) != nil {
			return nil
		}
		if f.V != snapshotVersion || !find.authenticFooter(f, r) {
			return nil
		}
		find.seen[f.sum] = true
		if err := find.checkUsable(f); err != nil {
			find.skip(ctx, f.offset, err)
			return nil
		}
		feet = append(feet, f)
		if len(feet) > maxFailedLoads { // more are not tried
			feet = feet[1:]
		}
		return nil
	})
	slices.SortStableFunc(feet, func(a, b storedFooter) int { return cmp.Compare(b.NextOffset, a.NextOffset) })
	return feet, err
}

// readRange reads [lo, hi) of a topic that nothing compacts: the record before hi is known to be there.
func (l *Log) readRange(ctx context.Context, p stream.Partition, lo, hi int64, each func(*stream.Record) error) error {
	if lo >= hi {
		return nil
	}
	return l.reader.ReadWithControlRecords(ctx, p, lo, func(r *stream.Record) error {
		if r.Offset < hi {
			if err := each(r); err != nil {
				return err
			}
		}
		if r.Offset >= hi-1 {
			return stream.ErrStop
		}
		return nil
	})
}

func partOf(r *stream.Record) string {
	for _, h := range r.Headers {
		if h.Key == "part" {
			return string(h.Value)
		}
	}
	return ""
}
