package conflog

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
// others are acknowledged. It says which state they hold, at which offset each of them is and its SHA-256, and has a
// MAC. What else is among them is not read, whatever its key; a foot that is appended once more names the same parts.
const (
	snapshotVersion = 1
	// chunkBytes is where a chunk is cut, before compression, so that it is within 512 KiB after it.
	chunkBytes = 500 << 10
	// keptSnapshots are not deleted, nor is the log after the oldest of them: two may turn out torn.
	keptSnapshots = 3
)

// Values of the record header "part".
const (
	partHeader = "head"
	partChunk  = "chunk"
	partFooter = "foot"
)

var snapshotLog = stream.Partition{Topic: stream.ControlSnapshots}

// snapshotHeader is the first part.
type snapshotHeader struct {
	// Ops are the hashes of state.ops, 8 bytes each.
	Ops [2][]byte `json:"ops"`
}

// snapshotFooter says which state a snapshot holds and where, and makes it whole.
type snapshotFooter struct {
	V          int            `json:"v"` // of the whole
	Node       string         `json:"node"`
	Cluster    string         `json:"cluster"` // whose offsets Next is one of
	Log        string         `json:"log"`     // id of the topic; empty where the brokers give topics none
	Seq        int64          `json:"sequence"`
	Level      int            `json:"level"` // of the log
	NextOffset int64          `json:"next"`  // offset in control of the first record that is not in it
	At         time.Time      `json:"at"`
	Parts      []snapshotPart `json:"parts"`  // the head, then the chunks
	Secret     string         `json:"secret"` // of the log, by which the foot is authenticated
}

// snapshotPart is where the head or a chunk is.
type snapshotPart struct {
	Offset int64  `json:"offset"`
	SHA256 []byte `json:"sha256"`
}

// storedFooter is a foot in the topic.
type storedFooter struct {
	snapshotFooter
	offset int64
	sum    [sha256.Size]byte // of the whole record's value
}

// place is the first of the two lines of an entity.
type entityLine struct {
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Seq     int64  `json:"seq"`
	Rev     int64  `json:"rev"`
	Hash    []byte `json:"hash,omitempty"`
	Former  []byte `json:"former,omitempty"`
	Open    bool   `json:"open,omitempty"`
	Deleted int64  `json:"deleted,omitempty"` // unix milliseconds; a tombstone has an empty second line
}

// snapshots writes and reads those of a log.
type snapshots struct{ *Log }

// WriteSnapshot writes one now.
func (l *Log) WriteSnapshot(ctx context.Context) error {
	_, err := snapshots{l}.write(ctx, l.view.Load())
	return err
}

// run writes one whenever this node owns partition 0 of events and enough has changed.
func (sn snapshots) run(ctx context.Context, last storedFooter) error {
	kept := []storedFooter{last}
	if last.Seq == 0 {
		kept = nil
		last.At = sn.now()
	}
	var counted int64 // of sn.applied, those before the last snapshot
	for wait.For(ctx, sn.timing.SnapshotCheckInterval) == nil {
		applied := sn.applied.Load() // before the view, so that none is missed
		v := sn.view.Load()
		// What was refused, or is not the service's, makes a start longer too, but somebody may append it at will: it
		// counts by the clock only. That is not before the audit log was told: the record that says so would ask for one
		// more.
		old := v.nextOffset > last.NextOffset && sn.now().Sub(last.At) >= sn.timing.SnapshotInterval && v.Len(KindOutbox) == 0
		due := applied-counted >= int64(sn.cfg.SnapshotEvery) || old
		if !due || !sn.owner.Load() {
			continue
		}
		began := time.Now()
		written, err := sn.write(ctx, v)
		if err != nil {
			sn.metrics.snapshots.WithLabelValues("error").Inc()
			sn.log.LogAttrs(ctx, slog.LevelWarn, "write a snapshot of the configuration", slog.Any("error", err))
			_ = wait.For(ctx, sn.timing.WriteTimeout) // the loop looks at ctx
			continue
		}
		sn.metrics.snapshots.WithLabelValues("written").Inc()
		sn.log.LogAttrs(ctx, slog.LevelInfo, "snapshot of the configuration written",
			slog.Int64("sequence", v.seq), slog.Duration("took", time.Since(began)))
		last, counted = written, applied
		kept = sn.trim(ctx, append(kept, written))
	}
	return nil
}

// trim deletes what no kept snapshot needs, and returns the kept ones. The oldest of them must be readable: then there
// is one to start from, whatever became of those after it.
func (sn snapshots) trim(ctx context.Context, kept []storedFooter) []storedFooter {
	if len(kept) <= keptSnapshots {
		return kept
	}
	kept = kept[len(kept)-keptSnapshots:]
	if err := sn.readBack(ctx, kept[0]); err != nil {
		sn.metrics.snapshots.WithLabelValues("error").Inc()
		sn.log.LogAttrs(ctx, slog.LevelError, "cannot read a snapshot of the configuration back, the log before it is kept",
			slog.Int64("offset", kept[0].offset), slog.Any("error", err))
		return kept[1:]
	}
	for p, before := range map[stream.Partition]int64{
		snapshotLog: kept[0].Parts[0].Offset, recordLog: kept[0].NextOffset} {
		if err := sn.reader.Trim(ctx, p, before); err != nil {
			sn.log.LogAttrs(ctx, slog.LevelWarn, "trim the configuration log", slog.Any("error", err))
		}
	}
	return kept
}

// readBack reports why a snapshot that was written cannot be read.
func (sn snapshots) readBack(ctx context.Context, f storedFooter) error {
	ctx, cancel := context.WithTimeout(ctx, 6*sn.timing.WriteTimeout)
	defer cancel()
	if err := sn.readParts(ctx, f.snapshotFooter, func(int, []byte) error { return nil }); err != nil {
		return err
	}
	found := fmt.Errorf("%w: its foot is gone", errTorn)
	err := sn.readRange(ctx, snapshotLog, f.offset, f.offset+1, func(r *stream.Record) error {
		if own := sn.auth.Load(); own != nil && own.verify(macSnapshot, r) && sha256.Sum256(r.Value) == f.sum {
			found = nil
		}
		return nil
	})
	return errors.Join(err, found)
}

// write writes the state of a view. The view is immutable, so records go on being applied.
func (sn snapshots) write(ctx context.Context, v *View) (f storedFooter, err error) {
	own, e := sn.auth.Load(), v.FindLiving(KindLog, LogID)
	if own == nil || e == nil {
		return f, errors.New("the log has no first record yet")
	}
	f.snapshotFooter = snapshotFooter{
		V: snapshotVersion, Node: sn.cfg.Node, Seq: v.seq, Level: v.level, NextOffset: v.nextOffset, At: sn.now().UTC(),
		Secret: sn.secretOf(e),
	}
	if f.Cluster, f.Log, err = sn.reader.TopicID(ctx, stream.Control); err != nil {
		return f, err
	}
	key := []byte(id.Random("snap_"))
	emit := func(part string, value []byte) (*stream.Record, error) {
		ctx, cancel := context.WithTimeout(ctx, sn.timing.WriteTimeout)
		defer cancel()
		rec := &stream.Record{Key: key, Value: value, Headers: []stream.Header{{Key: "part", Value: []byte(part)}}}
		if part == partFooter {
			own.sign(macSnapshot, rec)
		}
		return rec, sn.producer.ProduceSync(ctx, stream.ControlSnapshots, 0, rec)
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
	head, err := json.Marshal(snapshotHeader{Ops: [2][]byte{packOps(v.ops[0]), packOps(v.ops[1])}})
	if err != nil {
		return f, fmt.Errorf("encode the head: %w", err)
	}
	if err := add(partHeader, head); err != nil {
		return f, err
	}
	if err := sn.chunks(v.state, func(chunk []byte) error { return add(partChunk, chunk) }); err != nil {
		return f, err
	}
	foot, err := json.Marshal(f.snapshotFooter)
	if err != nil {
		return f, fmt.Errorf("encode the foot: %w", err)
	}
	rec, err := emit(partFooter, foot)
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
func (sn snapshots) chunks(s *state, emit func([]byte) error) error {
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
	for _, set := range s.sets {
		for _, t := range []trie[*Entity]{set.bySeq, set.tombstones} {
			for e := range t.below(math.MaxUint64) {
				before := lines.Len()
				if err := sn.writeLines(&lines, e); err != nil {
					return err
				}
				if lines.Len() > sn.chunkSize && before > 0 {
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

func (p *parser) writeLines(w *bytes.Buffer, e *Entity) error {
	at := entityLine{Kind: p.kinds.name(e.Kind), ID: e.ID, Seq: e.Seq, Rev: e.Rev, Open: e.Pending, Deleted: e.deletedAt}
	if e.Hash != [HashLen]byte{} {
		at.Hash = e.Hash[:]
	}
	if e.FormerHash != nil {
		at.Former = e.FormerHash[:]
	}
	line, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("encode the place of %s: %w", e.ID, err)
	}
	w.Write(append(line, '\n'))
	if e.Living() {
		w.Write(p.unpack(e.packed))
	}
	w.WriteByte('\n')
	return nil
}

// readLines is the reverse of writeLines for a whole chunk.
func (p *parser) readLines(b []byte) ([]*Entity, error) {
	entities := make([]*Entity, 0, bytes.Count(b, []byte{'\n'})/2)
	for len(b) > 0 {
		first, rest, ok1 := bytes.Cut(b, []byte{'\n'})
		second, rest, ok2 := bytes.Cut(rest, []byte{'\n'})
		var at entityLine
		if err := json.Unmarshal(first, &at); err != nil || !ok1 || !ok2 {
			return nil, fmt.Errorf("entity %d of a chunk is unreadable", len(entities))
		}
		k, ok := p.kinds.byName[at.Kind]
		if !ok {
			return nil, fmt.Errorf("unknown kind %q", at.Kind)
		}
		e := &Entity{ID: at.ID, Kind: k, Seq: at.Seq, Rev: at.Rev, Pending: at.Open, deletedAt: at.Deleted}
		copy(e.Hash[:], at.Hash)
		if len(at.Former) == HashLen {
			e.FormerHash = (*[HashLen]byte)(at.Former)
		}
		if len(second) > 0 {
			e.packed, e.size = p.pack(second), int32(len(second))
		}
		entities = append(entities, e)
		b = rest
	}
	return entities, nil
}

// add puts an entity of a snapshot in its place.
func (s *state) insertLoaded(e *Entity) {
	if !e.Living() {
		s.sets[e.Kind].addTombstone(e)
	} else {
		s.sets[e.Kind].insert(e)
	}
}
