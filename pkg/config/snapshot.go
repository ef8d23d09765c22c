package config

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// A snapshot is a head, chunks and a foot: records of control.snapshots that share a key. The head holds the hashes of
// op_ids; a chunk is zstd over pairs of lines, the place of an entity and its value. The foot is written when the
// others are acknowledged. It says which state they hold, at which offset each of them is and its SHA-256, and has a MAC.
// What else is among them is not read, whatever its key; a foot that is appended once more names the same parts.
const (
	snapshotVersion = 3
	// chunkBytes is where a chunk is cut, before compression, so that it is within 512 KiB after it.
	chunkBytes = 500 << 10
	// keptSnapshots are not deleted, nor is the log after the oldest of them: two may turn out torn.
	keptSnapshots = 3
)

// Values of the record header "part".
const (
	partHead  = "head"
	partChunk = "chunk"
	partFoot  = "foot"
)

var snapshotLog = stream.Partition{Topic: stream.ControlSnapshots}

// snapshotHead is the first part.
type snapshotHead struct {
	// Ops are the hashes of state.ops, 8 bytes each.
	Ops [2][]byte `json:"ops"`
}

// snapshotFoot says which state a snapshot holds and where, and makes it whole.
type snapshotFoot struct {
	V       int            `json:"v"` // of the whole
	Node    string         `json:"node"`
	Cluster string         `json:"cluster"` // whose offsets Next is one of
	Log     string         `json:"log"`     // id of the topic; empty where the brokers give topics none
	Seq     int64          `json:"sequence"`
	Level   int            `json:"level"` // of the log
	Next    int64          `json:"next"`  // offset in control of the first record that is not in it
	At      time.Time      `json:"at"`
	Parts   []snapshotPart `json:"parts"`  // the head, then the chunks
	Secret  Sealed         `json:"secret"` // of the log, by which the foot is authenticated
}

// snapshotPart is where the head or a chunk is.
type snapshotPart struct {
	Offset int64  `json:"offset"`
	SHA256 []byte `json:"sha256"`
}

// placedFoot is a foot in the topic.
type placedFoot struct {
	snapshotFoot
	offset int64
	sum    [sha256.Size]byte // of the whole record's value
}

// place is the first of the two lines of an entity.
type place struct {
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Seq     int64  `json:"seq"`
	Rev     int64  `json:"rev"`
	Hash    []byte `json:"hash,omitempty"`
	Former  []byte `json:"former,omitempty"`
	Deleted int64  `json:"deleted,omitempty"` // unix milliseconds; a tombstone has an empty second line
}

// snapshots writes one whenever this node owns partition 0 of events and enough has changed.
func (c *Control) snapshots(ctx context.Context, last placedFoot) error {
	kept := []placedFoot{last}
	if last.Seq == 0 {
		kept = nil
		last.At = c.now()
	}
	var counted int64 // of c.applied, those before the last snapshot
	for wait.For(ctx, c.timing.look) == nil {
		applied := c.applied.Load() // before the view, so that none is missed
		v := c.view.Load()
		// What was refused, or is not the service's, makes a start longer too, but somebody may append it at will: it
		// counts by the clock only. That is not before the audit log was told: the record that says so would ask for one more.
		old := v.next > last.Next && c.now().Sub(last.At) >= c.timing.snapshot && v.sets[kindTrail].bySeq.len == 0
		due := applied-counted >= int64(c.cfg.SnapshotEvery) || old
		if !due || !c.owner.Load() {
			continue
		}
		began := time.Now()
		written, err := c.writeSnapshot(ctx, v)
		if err != nil {
			c.metrics.snapshots.WithLabelValues("error").Inc()
			c.log.LogAttrs(ctx, slog.LevelWarn, "write a snapshot of the configuration", slog.Any("error", err))
			_ = wait.For(ctx, c.timing.write) // the loop looks at ctx
			continue
		}
		c.metrics.snapshots.WithLabelValues("written").Inc()
		c.log.LogAttrs(ctx, slog.LevelInfo, "snapshot of the configuration written",
			slog.Int64("sequence", v.seq), slog.Duration("took", time.Since(began)))
		last, counted = written, applied
		kept = c.trim(ctx, append(kept, written))
	}
	return nil
}

// trim deletes what no kept snapshot needs, and returns the kept ones. The oldest of them must be readable: then there
// is one to start from, whatever became of those after it.
func (c *Control) trim(ctx context.Context, kept []placedFoot) []placedFoot {
	if len(kept) <= keptSnapshots {
		return kept
	}
	kept = kept[len(kept)-keptSnapshots:]
	if err := c.readBack(ctx, kept[0]); err != nil {
		c.metrics.snapshots.WithLabelValues("error").Inc()
		c.log.LogAttrs(ctx, slog.LevelError, "cannot read a snapshot of the configuration back, the log before it is kept",
			slog.Int64("offset", kept[0].offset), slog.Any("error", err))
		return kept[1:]
	}
	for p, before := range map[stream.Partition]int64{snapshotLog: kept[0].Parts[0].Offset, controlLog: kept[0].Next} {
		if err := c.reader.Trim(ctx, p, before); err != nil {
			c.log.LogAttrs(ctx, slog.LevelWarn, "trim the configuration log", slog.Any("error", err))
		}
	}
	return kept
}

// readBack reports why a snapshot that was written cannot be read.
func (c *Control) readBack(ctx context.Context, f placedFoot) error {
	ctx, cancel := context.WithTimeout(ctx, 6*c.timing.write)
	defer cancel()
	if err := c.readParts(ctx, f.snapshotFoot, func(int, []byte) error { return nil }); err != nil {
		return err
	}
	found := fmt.Errorf("%w: its foot is gone", errTorn)
	err := c.readRange(ctx, snapshotLog, f.offset, f.offset+1, func(r *stream.Record) error {
		if own := c.auth.Load(); own != nil && own.verify(macSnapshot, r) && sha256.Sum256(r.Value) == f.sum {
			found = nil
		}
		return nil
	})
	return errors.Join(err, found)
}

// writeSnapshot writes the state of a view. The view is immutable, so records go on being applied.
func (c *Control) writeSnapshot(ctx context.Context, v *view) (f placedFoot, err error) {
	own, e := c.auth.Load(), v.sets[kindLog].living(logID)
	if own == nil || e == nil {
		return f, errors.New("the log has no first record yet")
	}
	f.snapshotFoot = snapshotFoot{
		V: snapshotVersion, Node: c.cfg.Node, Seq: v.seq, Level: v.level, Next: v.next, At: c.now().UTC(),
		Secret: c.codec.value(e).(*LogSecret).Secret,
	}
	if f.Cluster, f.Log, err = c.reader.TopicID(ctx, stream.Control); err != nil {
		return f, err
	}
	key := []byte(id.Random("snap_"))
	emit := func(part string, value []byte) (*stream.Record, error) {
		ctx, cancel := context.WithTimeout(ctx, c.timing.write)
		defer cancel()
		rec := &stream.Record{Key: key, Value: value, Headers: []stream.Header{{Key: "part", Value: []byte(part)}}}
		if part == partFoot {
			own.sign(macSnapshot, rec)
		}
		return rec, c.producer.ProduceSync(ctx, stream.ControlSnapshots, 0, rec)
	}
	add := func(part string, value []byte) error {
		rec, err := emit(part, value)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(value)
		f.Parts = append(f.Parts, snapshotPart{Offset: rec.Offset, SHA256: sum[:]})
		return nil
	}
	head, err := json.Marshal(snapshotHead{Ops: [2][]byte{packOps(v.ops[0]), packOps(v.ops[1])}})
	if err != nil {
		return f, fmt.Errorf("encode the head: %w", err)
	}
	if err := add(partHead, head); err != nil {
		return f, err
	}
	if err := c.chunks(v.state, func(chunk []byte) error { return add(partChunk, chunk) }); err != nil {
		return f, err
	}
	foot, err := json.Marshal(f.snapshotFoot)
	if err != nil {
		return f, fmt.Errorf("encode the foot: %w", err)
	}
	rec, err := emit(partFoot, foot)
	if err != nil {
		return f, err
	}
	f.offset, f.sum = rec.Offset, sha256.Sum256(foot)
	return f, nil
}

// packOps and unpackOps are the hashes of op_ids as bytes, and the reverse.
func packOps(ops trie[uint64]) []byte {
	b := make([]byte, 0, 8*ops.len)
	for op := range ops.ascend() {
		b = binary.BigEndian.AppendUint64(b, op)
	}
	return b
}

func unpackOps(b []byte) (ops trie[uint64]) {
	for ; len(b) >= 8; b = b[8:] {
		op := binary.BigEndian.Uint64(b)
		ops = ops.put(op, op)
	}
	return ops
}

// chunks encodes a state. Equal states give equal chunks.
func (c *Control) chunks(s *state, emit func([]byte) error) error {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("make zstd encoder: %w", err)
	}
	defer zip.Close()
	var lines bytes.Buffer
	flush := func() error {
		if lines.Len() == 0 {
			return nil
		}
		chunk := zip.EncodeAll(lines.Bytes(), nil)
		lines.Reset()
		return emit(chunk)
	}
	for i := range s.sets {
		for _, t := range []trie[*entity]{s.sets[i].bySeq, s.sets[i].graves} {
			for e := range t.below(math.MaxUint64) {
				before := lines.Len()
				if err := c.codec.writeLines(&lines, e); err != nil {
					return err
				}
				if lines.Len() > c.chunk && before > 0 {
					next := bytes.Clone(lines.Bytes()[before:])
					lines.Truncate(before)
					if err := flush(); err != nil {
						return err
					}
					lines.Write(next)
				}
			}
		}
	}
	return flush()
}

func (c *codec) writeLines(w *bytes.Buffer, e *entity) error {
	p := place{Kind: e.kind.String(), ID: e.id, Seq: e.seq, Rev: e.rev, Deleted: e.deleted}
	if e.hash != [hashLen]byte{} {
		p.Hash = e.hash[:]
	}
	if e.former != nil {
		p.Former = e.former[:]
	}
	line, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode the place of %s: %w", e.id, err)
	}
	w.Write(append(line, '\n'))
	if e.packed != nil {
		w.Write(c.unpack(e))
	}
	w.WriteByte('\n')
	return nil
}

// readLines is the reverse of writeLines for a whole chunk.
func (c *codec) readLines(b []byte) ([]*entity, error) {
	entities := make([]*entity, 0, bytes.Count(b, []byte{'\n'})/2)
	for len(b) > 0 {
		first, rest, ok1 := bytes.Cut(b, []byte{'\n'})
		second, rest, ok2 := bytes.Cut(rest, []byte{'\n'})
		var p place
		var err error
		if err := json.Unmarshal(first, &p); err != nil || !ok1 || !ok2 {
			return nil, fmt.Errorf("entity %d of a chunk is unreadable", len(entities))
		}
		k, ok := kindNamed(p.Kind)
		if !ok {
			return nil, fmt.Errorf("unknown kind %q", p.Kind)
		}
		e := &entity{id: p.ID, kind: k, seq: p.Seq, rev: p.Rev, deleted: p.Deleted}
		copy(e.hash[:], p.Hash)
		if len(p.Former) == hashLen {
			e.former = (*[hashLen]byte)(p.Former)
		}
		if len(second) > 0 {
			e.packed, e.size = c.pack(second), int32(len(second))
			if e.open, err = c.openLine(k, second); err != nil {
				return nil, err
			}
		}
		entities = append(entities, e)
		b = rest
	}
	return entities, nil
}

// add puts an entity of a snapshot in its place.
func (s *state) add(e *entity) {
	if e.packed == nil {
		s.sets[e.kind].addGrave(e)
	} else {
		s.sets[e.kind].insert(e)
	}
}
