package config

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/stream"
)

const (
	// maxFailedLoads is how many snapshots are loaded in vain before a start does without.
	maxFailedLoads = 8
	// maxPassedOver is of how many snapshots the log says why they were passed over.
	maxPassedOver = 8
)

// logBounds is where the configuration log and its snapshots begin and end, and whose they are.
type logBounds struct {
	cluster, topic     string
	logStart, logEnd   int64
	snapStart, snapEnd int64
}

// snapshotSearch is one search for a snapshot to start from.
type snapshotSearch struct {
	logBounds
	seen       map[[sha256.Size]byte]bool // feet that were judged: a copy of one is none
	opened     map[Sealed]*authority
	closed     error // why a foot was not even judged
	failed     int   // snapshots that were loaded in vain
	passedOver int   // these, and those that are not usable
}

// load returns the state of the newest whole snapshot and the offset in control from which to go on; an
// empty state and the start of the log when there is none. It retries while the brokers do not answer.
func (c *Control) load(ctx context.Context) (s *state, next int64, from placedFoot, err error) {
	find := &snapshotSearch{seen: make(map[[sha256.Size]byte]bool), opened: make(map[Sealed]*authority)}
	if find.logBounds, err = c.findLog(ctx); err != nil {
		return nil, 0, from, err
	}
	// Feet are looked for from the end, in windows that grow: usually the last record is one.
	for hi, size := find.snapEnd, int64(8); hi > find.snapStart && find.failed < maxFailedLoads; size *= 4 {
		lo := max(find.snapStart, hi-size)
		feet, err := c.feet(ctx, find, lo, hi)
		if err != nil {
			return nil, 0, from, err
		}
		for _, f := range feet {
			if find.failed == maxFailedLoads {
				break
			}
			if f.Level > newestLevel {
				return nil, 0, from, fmt.Errorf("the configuration log is at level %d, this program knows %d: it is for a newer one",
					f.Level, newestLevel)
			}
			s, err := c.loadSnapshot(ctx, f.snapshotFoot)
			if err == nil {
				c.auth.Store(find.opened[f.Secret])
				return s, f.Next, f, nil
			}
			if ctx.Err() != nil {
				return nil, 0, from, ctx.Err()
			}
			find.failed++
			c.passOver(ctx, find, f.offset, err)
		}
		hi = lo
	}
	switch {
	case find.logStart == 0:
	case find.closed != nil:
		return nil, 0, from, find.closed
	case c.older.Load():
		return nil, 0, from, ErrOlderLog
	default:
		return nil, 0, from, fmt.Errorf("%w: the log begins at %d, and there is no snapshot of what was before", errGap, find.logStart)
	}
	return &state{}, find.logStart, from, nil
}

func (c *Control) findLog(ctx context.Context) (b logBounds, err error) {
	err = c.retry(ctx, "find the configuration log", func(ctx context.Context) error {
		starts, err := c.reader.Starts(ctx, stream.Control, stream.ControlSnapshots)
		if err != nil {
			return err
		}
		ends, err := c.reader.Ends(ctx, stream.Control, stream.ControlSnapshots)
		if err != nil {
			return err
		}
		b.logStart, b.logEnd, b.snapStart, b.snapEnd = starts[controlLog], ends[controlLog], starts[snapshotLog], ends[snapshotLog]
		b.cluster, b.topic, err = c.reader.TopicID(ctx, stream.Control)
		return err
	})
	return b, err
}

// passOver logs that a snapshot is not used, of the first ones.
func (c *Control) passOver(ctx context.Context, find *snapshotSearch, offset int64, err error) {
	find.passedOver++
	if find.passedOver <= maxPassedOver {
		c.log.LogAttrs(ctx, slog.LevelWarn, "snapshot of the configuration passed over",
			slog.Int64("offset", offset), slog.Any("error", err))
	}
}

// authenticFoot reports whether a foot has the right MAC.
func (c *Control) authenticFoot(find *snapshotSearch, f placedFoot, r *stream.Record) bool {
	if c.cfg.Unverified {
		return true
	}
	own := find.opened[f.Secret]
	if own == nil {
		opened, err := c.openLogSecret(f.Secret)
		if err != nil {
			find.closed = err
			return false
		}
		own = &opened
	}
	if !own.verify(macSnapshot, r) {
		c.unauthentic(stream.ControlSnapshots, r.Offset)
		return false
	}
	find.opened[f.Secret] = own
	return true
}

// usable reports why a snapshot cannot be gone on from, as far as its foot tells.
func (b logBounds) usable(f placedFoot) error {
	switch {
	case f.Cluster != b.cluster:
		return fmt.Errorf("it belongs to cluster %q, this is %q", f.Cluster, b.cluster)
	case f.Log != b.topic:
		return fmt.Errorf("it belongs to another topic of this name")
	case f.Next < b.logStart:
		return fmt.Errorf("%w: the log begins at %d, the snapshot ends at %d", errGap, b.logStart, f.Next)
	case f.Next > b.logEnd:
		return fmt.Errorf("%w: the log ends at %d, the snapshot at %d", errGap, b.logEnd, f.Next)
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
func (c *Control) feet(ctx context.Context, find *snapshotSearch, lo, hi int64) (feet []placedFoot, err error) {
	err = c.readRange(ctx, snapshotLog, lo, hi, func(r *stream.Record) error {
		if partOf(r) != partFoot {
			return nil
		}
		f := placedFoot{offset: r.Offset, sum: sha256.Sum256(r.Value)}
		if find.seen[f.sum] || json.Unmarshal(r.Value, &f.snapshotFoot) != nil {
			return nil
		}
		if f.V < snapshotVersion {
			c.older.Store(true)
		}
		if f.V != snapshotVersion || !c.authenticFoot(find, f, r) {
			return nil
		}
		find.seen[f.sum] = true
		if err := find.usable(f); err != nil {
			c.passOver(ctx, find, f.offset, err)
			return nil
		}
		feet = append(feet, f)
		if len(feet) > maxFailedLoads { // more are not tried
			feet = feet[1:]
		}
		return nil
	})
	slices.SortStableFunc(feet, func(a, b placedFoot) int { return cmp.Compare(b.Next, a.Next) })
	return feet, err
}

// readRange reads [lo, hi) of a topic that nothing compacts: the record before hi is known to be there.
func (c *Control) readRange(ctx context.Context, p stream.Partition, lo, hi int64, each func(*stream.Record) error) error {
	if lo >= hi {
		return nil
	}
	return c.reader.ReadAll(ctx, p, lo, func(r *stream.Record) error {
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

// errTorn says that a snapshot does not agree with its foot.
var errTorn = errors.New("snapshot is torn")

// readParts reads the parts that a foot names, and nothing that is between them.
func (c *Control) readParts(ctx context.Context, f snapshotFoot, each func(i int, value []byte) error) error {
	read := 0
	err := c.readRange(ctx, snapshotLog, f.Parts[0].Offset, f.Parts[len(f.Parts)-1].Offset+1, func(r *stream.Record) error {
		p := f.Parts[read]
		if r.Offset < p.Offset {
			return nil // somebody else's, written at the same time
		}
		if got := sha256.Sum256(r.Value); r.Offset > p.Offset || !bytes.Equal(got[:], p.SHA256) {
			return fmt.Errorf("%w: part %d of %d is not at offset %d", errTorn, read, len(f.Parts), p.Offset)
		}
		read++
		return each(read-1, r.Value)
	})
	if err == nil && read < len(f.Parts) {
		err = fmt.Errorf("%w: %d of %d parts are there", errTorn, read, len(f.Parts))
	}
	return err
}

// loadSnapshot reads and checks one. Chunks are decoded while the next are fetched.
func (c *Control) loadSnapshot(ctx context.Context, f snapshotFoot) (*state, error) {
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0))
	if err != nil {
		return nil, fmt.Errorf("make zstd decoder: %w", err)
	}
	defer unzip.Close()
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	var head snapshotHead
	parts := make([][]*entity, len(f.Parts)) // the head has none
	err = c.readParts(ctx, f, func(i int, value []byte) error {
		if i == 0 {
			return json.Unmarshal(value, &head)
		}
		workers.Go(func() error {
			lines, err := unzip.DecodeAll(value, nil)
			if err == nil {
				parts[i], err = c.codec.readLines(lines)
			}
			return err
		})
		return nil
	})
	if err := errors.Join(err, workers.Wait()); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	s := &state{seq: f.Seq, level: max(f.Level, baseLevel)}
	for i, ops := range head.Ops {
		s.ops[i] = unpackOps(ops)
	}
	for _, entities := range parts {
		for _, e := range entities {
			s.add(e)
		}
	}
	return s, nil
}
