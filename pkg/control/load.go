package control

import (
	"bytes"
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

// load returns the state of the newest whole snapshot and the offset in control from which to go on; an
// empty state and the start of the log when there is none. It retries while the brokers do not answer.
func (c *Control) load(ctx context.Context) (s *state, next int64, from snapshotPlace, err error) {
	var logStart, logEnd, start, end int64
	var cluster, topic string
	err = c.retry(ctx, "find the configuration log", func(ctx context.Context) error {
		starts, err := c.reader.Starts(ctx, stream.Control, stream.ControlSnapshots)
		if err != nil {
			return err
		}
		ends, err := c.reader.Ends(ctx, stream.Control, stream.ControlSnapshots)
		if err != nil {
			return err
		}
		logStart, logEnd, start, end = starts[controlLog], ends[controlLog], starts[snapshotLog], ends[snapshotLog]
		cluster, topic, err = c.reader.TopicID(ctx, stream.Control)
		return err
	})
	if err != nil {
		return nil, 0, from, err
	}
	var closed error // why the foot of a snapshot was not even judged
	// Feet are looked for from the end, in windows that grow: usually the last record is one.
	for hi, size := end, int64(8); hi > start; size *= 4 {
		lo := max(start, hi-size)
		feet, err := c.feet(ctx, lo, hi)
		if err != nil {
			return nil, 0, from, err
		}
		for _, f := range slices.Backward(feet) {
			own, err := c.authenticFoot(f)
			if errors.Is(err, ErrLogSecret) {
				closed = err
			}
			if err != nil {
				continue
			}
			s, head, err := c.loadSnapshot(ctx, f)
			if head.Level > newestLevel {
				return nil, 0, from, fmt.Errorf("the configuration log is at level %d, this program knows %d: it is for a newer one", head.Level, newestLevel)
			}
			if err == nil {
				err = usable(head, cluster, topic, logStart, logEnd)
			}
			if err == nil {
				c.auth.Store(own)
				return s, head.Next, snapshotPlace{first: f.First, next: head.Next, seq: head.Seq, at: head.At}, nil
			}
			if ctx.Err() != nil {
				return nil, 0, from, ctx.Err()
			}
			c.log.LogAttrs(ctx, slog.LevelWarn, "snapshot of the configuration passed over",
				slog.Int64("offset", f.offset), slog.Any("error", err))
		}
		hi = lo
	}
	switch {
	case logStart == 0:
	case closed != nil:
		return nil, 0, from, closed
	case c.older.Load():
		return nil, 0, from, ErrOlderLog
	default:
		return nil, 0, from, fmt.Errorf("%w: the log begins at %d, and there is no snapshot of what was before", errGap, logStart)
	}
	return &state{}, logStart, from, nil
}

// authenticFoot returns the authority that a foot has a right MAC of.
func (c *Control) authenticFoot(f foundFoot) (*authority, error) {
	if c.cfg.Unverified {
		return nil, nil
	}
	own, err := c.openLogSecret(f.Secret)
	if err != nil {
		return nil, err
	}
	if !own.verify(macSnapshot, f.record) {
		c.unauthentic(stream.ControlSnapshots, f.offset)
		return nil, errTorn
	}
	return &own, nil
}

// usable reports why a whole snapshot cannot be gone on from.
func usable(h snapshotHead, cluster, topic string, logStart, logEnd int64) error {
	switch {
	case h.Cluster != cluster:
		return fmt.Errorf("it belongs to cluster %q, this is %q", h.Cluster, cluster)
	case h.Log != topic:
		return fmt.Errorf("it belongs to another topic of this name")
	case h.Next < logStart:
		return fmt.Errorf("%w: the log begins at %d, the snapshot ends at %d", errGap, logStart, h.Next)
	case h.Next > logEnd:
		return fmt.Errorf("%w: the log ends at %d, the snapshot at %d", errGap, logEnd, h.Next)
	}
	return nil
}

// foundFoot is a foot and where it stands.
type foundFoot struct {
	snapshotFoot
	offset int64
	key    string
	record *stream.Record
}

func (c *Control) feet(ctx context.Context, lo, hi int64) (feet []foundFoot, err error) {
	err = c.readRange(ctx, snapshotLog, lo, hi, func(r *stream.Record) error {
		f := foundFoot{offset: r.Offset, key: string(r.Key), record: r}
		if partOf(r) != partFoot || json.Unmarshal(r.Value, &f.snapshotFoot) != nil {
			return nil
		}
		if f.V == snapshotVersion {
			feet = append(feet, f)
		} else if f.V < snapshotVersion {
			c.older.Store(true)
		}
		return nil
	})
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

// loadSnapshot reads and checks one. Chunks are decoded while the next are fetched.
func (c *Control) loadSnapshot(ctx context.Context, f foundFoot) (*state, snapshotHead, error) {
	var head snapshotHead
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0))
	if err != nil {
		return nil, head, fmt.Errorf("make zstd decoder: %w", err)
	}
	defer unzip.Close()
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	var chunks []*[]*entity
	sum := sha256.New()
	err = c.readRange(ctx, snapshotLog, f.First, f.offset, func(r *stream.Record) error {
		if string(r.Key) != f.key {
			return nil // another node's, written at the same time
		}
		addPart(sum, r.Value)
		if partOf(r) == partHead {
			return json.Unmarshal(r.Value, &head)
		}
		var entities []*entity
		chunks = append(chunks, &entities)
		workers.Go(func() error {
			lines, err := unzip.DecodeAll(r.Value, nil)
			if err == nil {
				entities, err = c.codec.readLines(lines)
			}
			return err
		})
		return nil
	})
	if err := errors.Join(err, workers.Wait()); err != nil {
		return nil, head, fmt.Errorf("read snapshot: %w", err)
	}
	if got := sum.Sum(nil); !bytes.Equal(got, f.SHA256) {
		return nil, head, fmt.Errorf("%w: SHA-256 %x of %d chunks instead of %x", errTorn, got, len(chunks), f.SHA256)
	}
	s := &state{seq: head.Seq, level: max(head.Level, baseLevel)}
	for i, ops := range head.Ops {
		s.ops[i] = unpackOps(ops)
	}
	for _, entities := range chunks {
		for _, e := range *entities {
			s.add(e)
		}
	}
	return s, head, nil
}
