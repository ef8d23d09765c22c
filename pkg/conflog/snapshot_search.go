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
	// maxFailedLoads is how many snapshots may fail to load before a start stops trying.
	maxFailedLoads = 8
	// maxLoggedSkips is for how many skipped snapshots the log gives the reason.
	maxLoggedSkips = 8
)

// logBounds holds the identity of the configuration log, and the first and end offsets of it and of its snapshots.
type logBounds struct {
	cluster, topic     string
	logStart, logEnd   int64
	snapStart, snapEnd int64
}

// snapshotSearch is the search for the snapshot that a start loads.
type snapshotSearch struct {
	*Log
	logBounds
	seen         map[[sha256.Size]byte]bool // footers that were checked, by SHA-256: later copies are ignored
	keysBySecret map[string]*macKeys        // of authentic footers, by their sealed secret
	openErr      error                      // why the secret of a footer could not be opened
	failedLoads  int                        // snapshots that failed to load
	skipped      int                        // snapshots that failed to load or do not fit the log
}

// load returns the state of the newest complete snapshot and the offset in control from which to continue. Without a
// snapshot it returns an empty state and the start of the log, or an error when the log does not begin at offset 0. It
// retries while the brokers do not answer.
func (l *Log) load(ctx context.Context) (s *state, next int64, from storedFooter, err error) {
	search := &snapshotSearch{Log: l, seen: make(map[[sha256.Size]byte]bool), keysBySecret: make(map[string]*macKeys)}
	if search.logBounds, err = search.readBounds(ctx); err != nil {
		return nil, 0, from, err
	}
	// Search for footers from the end, in windows that grow by a factor of 4: usually the last record is one.
	for hi, size := search.snapEnd, int64(8); hi > search.snapStart && search.failedLoads < maxFailedLoads; size *= 4 {
		lo := max(search.snapStart, hi-size)
		footers, err := search.footers(ctx, lo, hi)
		if err != nil {
			return nil, 0, from, err
		}
		for _, f := range footers {
			if search.failedLoads == maxFailedLoads {
				break
			}
			if f.Level > l.kinds.newestLevel {
				return nil, 0, from, errNewer(f.Level, l.kinds.newestLevel)
			}
			s, err := snapshots{l}.load(ctx, f.snapshotFooter)
			if err == nil {
				l.macKeys.Store(search.keysBySecret[f.Secret])
				return s, f.NextOffset, f, nil
			}
			if ctx.Err() != nil {
				return nil, 0, from, ctx.Err()
			}
			search.failedLoads++
			search.skip(ctx, f.offset, err)
		}
		hi = lo
	}
	switch {
	case search.logStart == 0:
	case search.openErr != nil:
		return nil, 0, from, search.openErr
	default:
		return nil, 0, from, fmt.Errorf(
			"%w: the log begins at offset %d, and no snapshot covers the records before it", errGap, search.logStart)
	}
	return newState(l.kinds), search.logStart, from, nil
}

// readBounds reads the bounds of the log from the brokers. It retries until they answer.
func (search *snapshotSearch) readBounds(ctx context.Context) (b logBounds, err error) {
	err = search.retry(ctx, "find the configuration log", func(ctx context.Context) error {
		starts, err := search.reader.Starts(ctx, stream.Control, stream.ControlSnapshots)
		if err != nil {
			return err
		}
		ends, err := search.reader.Ends(ctx, stream.Control, stream.ControlSnapshots)
		if err != nil {
			return err
		}
		b.logStart, b.logEnd, b.snapStart, b.snapEnd = starts[recordLog], ends[recordLog], starts[snapshotLog],
			ends[snapshotLog]
		b.cluster, b.topic, err = search.reader.TopicID(ctx, stream.Control)
		return err
	})
	return b, err
}

// skip counts a snapshot that is not used, and logs the first ones.
func (search *snapshotSearch) skip(ctx context.Context, offset int64, err error) {
	search.skipped++
	if search.skipped <= maxLoggedSkips {
		search.log.LogAttrs(ctx, slog.LevelWarn, "cannot use a snapshot of the configuration, trying an older one",
			slog.Int64("offset", offset), slog.Any("error", err))
	}
}

// authenticFooter reports whether a footer has a valid MAC.
func (search *snapshotSearch) authenticFooter(f storedFooter, r *stream.Record) bool {
	if search.cfg.Unverified {
		return true
	}
	keys := search.keysBySecret[f.Secret]
	if keys == nil {
		opened, err := (authenticator{search.Log}).openSecret(f.Secret)
		if err != nil {
			search.openErr = err
			return false
		}
		keys = &opened
	}
	if !keys.verify(macSnapshot, r) {
		(authenticator{search.Log}).reportUnauthentic(stream.ControlSnapshots, r.Offset)
		return false
	}
	search.keysBySecret[f.Secret] = keys
	return true
}

// checkUsable returns why the log cannot be continued from a snapshot, as far as its footer shows.
func (b logBounds) checkUsable(f storedFooter) error {
	switch {
	case f.Cluster != b.cluster:
		return fmt.Errorf("it belongs to cluster %q, this cluster is %q", f.Cluster, b.cluster)
	case f.Log != b.topic:
		return fmt.Errorf("it belongs to another topic of the same name")
	case f.NextOffset < b.logStart:
		return fmt.Errorf("%w: the log begins at offset %d, after the end of the snapshot at %d", errGap, b.logStart,
			f.NextOffset)
	case f.NextOffset > b.logEnd:
		return fmt.Errorf("%w: the log ends at offset %d, before the end of the snapshot at %d", errGap, b.logEnd,
			f.NextOffset)
	case len(f.Parts) == 0 || f.Parts[0].Offset < b.snapStart:
		return fmt.Errorf("%w: its first parts were deleted", errTorn)
	}
	after := f.offset
	for _, p := range slices.Backward(f.Parts) {
		if p.Offset >= after {
			return fmt.Errorf("%w: its parts are not in order before its footer", errTorn)
		}
		after = p.Offset
	}
	return nil
}

// footers returns the usable footers in [lo, hi) that were not seen before, those of the newest states first.
func (search *snapshotSearch) footers(ctx context.Context, lo, hi int64) (footers []storedFooter, err error) {
	err = search.readRange(ctx, snapshotLog, lo, hi, func(r *stream.Record) error {
		if partOf(r) != partFooter {
			return nil
		}
		f := storedFooter{offset: r.Offset, sum: sha256.Sum256(r.Value)}
		if search.seen[f.sum] || json.Unmarshal(r.Value, &f.snapshotFooter) != nil {
			return nil
		}
		if f.V != snapshotVersion || !search.authenticFooter(f, r) {
			return nil
		}
		search.seen[f.sum] = true
		if err := search.checkUsable(f); err != nil {
			search.skip(ctx, f.offset, err)
			return nil
		}
		footers = append(footers, f)
		if len(footers) > maxFailedLoads { // more are never tried
			footers = footers[1:]
		}
		return nil
	})
	slices.SortStableFunc(footers, func(a, b storedFooter) int { return cmp.Compare(b.NextOffset, a.NextOffset) })
	return footers, err
}

// readRange calls each for the records in [lo, hi) of a partition. The topic must not be compacted: the record at hi-1
// must exist.
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

// partOf returns the record header "part".
func partOf(r *stream.Record) string {
	for _, h := range r.Headers {
		if h.Key == "part" {
			return string(h.Value)
		}
	}
	return ""
}
