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
	"runtime"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/conflog/trie"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// A snapshot is a header, chunks and a footer: records of control.snapshots that share a key. The header holds the
// hashes of op_ids. A chunk is zstd-compressed pairs of lines: the metadata of an entity and its value. The footer is
// written when the other parts are acknowledged. It names the state, and the offset and SHA-256 of every part, and has
// a MAC. Readers use only the parts that a footer names. A footer that is appended again names the same parts.
const (
	snapshotVersion = 1
	// chunkBytes is the uncompressed size of a chunk, so that its record stays within 512 KiB.
	chunkBytes = 500 << 10
	// keptSnapshots is how many snapshots are kept, with the log after the oldest of them: two may turn out to be torn.
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
	// Ops holds the hashes of state.ops, 8 bytes each.
	Ops [2][]byte `json:"ops"`
}

// snapshotFooter is the last part. It names the state and the parts of the snapshot.
type snapshotFooter struct {
	V          int            `json:"v"` // version of the format
	Node       string         `json:"node"`
	Cluster    string         `json:"cluster"` // the Kafka cluster that NextOffset belongs to
	Log        string         `json:"log"`     // topic id; empty where the brokers do not support topic ids
	Seq        int64          `json:"sequence"`
	Level      int            `json:"level"` // level of the log
	NextOffset int64          `json:"next"`  // offset in control of the first record that the state does not include
	At         time.Time      `json:"at"`
	Parts      []snapshotPart `json:"parts"`  // the header, then the chunks
	Secret     string         `json:"secret"` // the sealed secret of the log, which authenticates the footer
}

// snapshotPart locates the header or a chunk.
type snapshotPart struct {
	Offset int64  `json:"offset"`
	SHA256 []byte `json:"sha256"`
}

// storedFooter is a footer with its place in the topic.
type storedFooter struct {
	snapshotFooter
	offset int64
	sum    [sha256.Size]byte // SHA-256 of the record's value
}

// entityLine is the first of the two lines of an entity.
type entityLine struct {
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Seq     int64  `json:"seq"`
	Rev     int64  `json:"rev"`
	Hash    []byte `json:"hash,omitempty"`
	Former  []byte `json:"former,omitempty"`
	Pending bool   `json:"open,omitempty"`
	Deleted int64  `json:"deleted,omitempty"` // Unix milliseconds; the second line of a tombstone is empty

	Attributes uint64 `json:"attr,omitempty"`
}

// snapshots writes and reads the snapshots of a log.
type snapshots struct{ *Log }

// WriteSnapshot writes a snapshot now.
func (l *Log) WriteSnapshot(ctx context.Context) error {
	_, err := snapshots{l}.write(ctx, l.view.Load())
	return err
}

// run writes a snapshot when this node owns partition 0 of events and enough has changed, until ctx ends.
func (sn snapshots) run(ctx context.Context, last storedFooter) error {
	kept := []storedFooter{last}
	if last.Seq == 0 {
		kept = nil
		last.At = sn.now()
	}
	var appliedAtLast int64 // sn.applied at the last snapshot
	for wait.For(ctx, sn.timing.SnapshotCheckInterval) == nil {
		applied := sn.applied.Load() // read before the view, so that no record is missed
		v := sn.view.Load()
		// Only applied records count towards the number: anybody who can write to the topic could append refused ones
		// at will. They too slow a start down, so a snapshot is also due after SnapshotInterval. That one waits for an
		// empty outbox: otherwise the record that empties the outbox would make the next snapshot due.
		intervalPassed := v.nextOffset > last.NextOffset && sn.now().Sub(last.At) >= sn.timing.SnapshotInterval &&
			v.Len(KindOutbox) == 0
		due := applied-appliedAtLast >= int64(sn.cfg.SnapshotEvery) || intervalPassed
		if !due || !sn.owner.Load() {
			continue
		}
		began := time.Now()
		written, err := sn.write(ctx, v)
		if err != nil {
			sn.metrics.snapshots.WithLabelValues("error").Inc()
			sn.log.LogAttrs(ctx, slog.LevelWarn, "cannot write a snapshot of the configuration", slog.Any("error", err))
			_ = wait.For(ctx, sn.timing.WriteTimeout) // the loop checks ctx
			continue
		}
		sn.metrics.snapshots.WithLabelValues("written").Inc()
		sn.log.LogAttrs(ctx, slog.LevelInfo, "wrote a snapshot of the configuration",
			slog.Int64("sequence", v.seq), slog.Duration("took", time.Since(began)))
		last, appliedAtLast = written, applied
		kept = sn.trim(ctx, append(kept, written))
	}
	return nil
}

// trim deletes the records that none of the last keptSnapshots snapshots needs, and returns these snapshots. Before
// that it reads the oldest of them back: so a node can always start from one, even if the newer ones are torn. If it
// cannot be read, trim deletes nothing and returns the others.
func (sn snapshots) trim(ctx context.Context, kept []storedFooter) []storedFooter {
	if len(kept) <= keptSnapshots {
		return kept
	}
	kept = kept[len(kept)-keptSnapshots:]
	if err := sn.readBack(ctx, kept[0]); err != nil {
		sn.metrics.snapshots.WithLabelValues("error").Inc()
		sn.log.LogAttrs(ctx, slog.LevelError, "cannot read a snapshot of the configuration back, keeping the log before it",
			slog.Int64("offset", kept[0].offset), slog.Any("error", err))
		return kept[1:]
	}
	for p, before := range map[stream.Partition]int64{
		snapshotLog: kept[0].Parts[0].Offset, recordLog: kept[0].NextOffset} {
		if err := sn.reader.Trim(ctx, p, before); err != nil {
			sn.log.LogAttrs(ctx, slog.LevelWarn, "cannot trim the configuration log", slog.Any("error", err))
		}
	}
	return kept
}

// readBack returns why a snapshot that was written cannot be read.
func (sn snapshots) readBack(ctx context.Context, f storedFooter) error {
	ctx, cancel := context.WithTimeout(ctx, 6*sn.timing.WriteTimeout)
	defer cancel()
	if err := sn.readParts(ctx, f.snapshotFooter, func(int, []byte) error { return nil }); err != nil {
		return err
	}
	footerErr := fmt.Errorf("%w: its footer does not exist", errTorn)
	err := sn.readRange(ctx, snapshotLog, f.offset, f.offset+1, func(r *stream.Record) error {
		if keys := sn.macKeys.Load(); keys != nil && keys.verify(macSnapshot, r) && sha256.Sum256(r.Value) == f.sum {
			footerErr = nil
		}
		return nil
	})
	return errors.Join(err, footerErr)
}

// write writes a snapshot of a view. The view is immutable, so records are applied meanwhile.
func (sn snapshots) write(ctx context.Context, v *View) (f storedFooter, err error) {
	keys, e := sn.macKeys.Load(), v.FindLiving(KindLog, LogID)
	if keys == nil || e == nil {
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
			keys.sign(macSnapshot, rec)
		}
		return rec, sn.producer.ProduceSync(ctx, stream.ControlSnapshots, 0, rec)
	}
	addPart := func(part string, value []byte) error {
		rec, err := emit(part, value)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(value)
		f.Parts = append(f.Parts, snapshotPart{Offset: rec.Offset, SHA256: sum[:]})
		return nil
	}
	header, err := json.Marshal(snapshotHeader{Ops: [2][]byte{packOps(v.ops[0]), packOps(v.ops[1])}})
	if err != nil {
		return f, fmt.Errorf("encode the header: %w", err)
	}
	if err := addPart(partHeader, header); err != nil {
		return f, err
	}
	if err := sn.chunks(v.state, func(chunk []byte) error { return addPart(partChunk, chunk) }); err != nil {
		return f, err
	}
	footer, err := json.Marshal(f.snapshotFooter)
	if err != nil {
		return f, fmt.Errorf("encode the footer: %w", err)
	}
	rec, err := emit(partFooter, footer)
	if err != nil {
		return f, err
	}
	f.offset, f.sum = rec.Offset, sha256.Sum256(footer)
	return f, nil
}

// packOps encodes the hashes of op_ids as bytes.
func packOps(ops trie.Map[uint64]) []byte {
	b := make([]byte, 0, 8*ops.Len)
	for op := range ops.Ascend() {
		b = binary.BigEndian.AppendUint64(b, op)
	}
	return b
}

// unpackOps is the reverse of packOps.
func unpackOps(b []byte) (ops trie.Map[uint64]) {
	for ; len(b) >= 8; b = b[8:] {
		op := binary.BigEndian.Uint64(b)
		ops = ops.Put(op, op)
	}
	return ops
}

// chunks calls emit for the encoded chunks of a state. Equal states give equal chunks.
func (sn snapshots) chunks(s *state, emit func([]byte) error) error {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("create zstd encoder: %w", err)
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
		for _, t := range []trie.Map[*Entity]{set.bySeq, set.tombstones} {
			for e := range t.Below(math.MaxUint64) {
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

// writeLines writes the two lines of an entity.
func (p *parser) writeLines(w *bytes.Buffer, e *Entity) error {
	at := entityLine{Kind: p.kinds.name(e.Kind), ID: e.ID, Seq: e.Seq, Rev: e.Rev, Pending: e.Pending,
		Deleted: e.deletedAt, Attributes: e.Attributes}
	if e.Hash != [HashLen]byte{} {
		at.Hash = e.Hash[:]
	}
	if e.FormerHash != nil {
		at.Former = e.FormerHash[:]
	}
	line, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("encode the metadata of %s: %w", e.ID, err)
	}
	w.Write(append(line, '\n'))
	if e.Living() {
		w.Write(p.unpack(e.packed))
	}
	w.WriteByte('\n')
	return nil
}

// readLines is the reverse of writeLines, for a whole chunk.
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
		e := &Entity{ID: at.ID, Kind: k, Seq: at.Seq, Rev: at.Rev, Pending: at.Pending, deletedAt: at.Deleted,
			Attributes: at.Attributes}
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

// insertLoaded inserts an entity or tombstone of a snapshot.
func (s *state) insertLoaded(e *Entity) {
	if !e.Living() {
		s.sets[e.Kind].addTombstone(e)
	} else {
		s.sets[e.Kind].insert(e)
	}
}

// errTorn means that a snapshot does not match its footer.
var errTorn = errors.New("snapshot is torn")

// readParts calls each for the parts that a footer names, in order, and skips the records between them.
func (sn snapshots) readParts(ctx context.Context, f snapshotFooter, each func(i int, value []byte) error) error {
	read := 0
	err := sn.readRange(ctx, snapshotLog, f.Parts[0].Offset, f.Parts[len(f.Parts)-1].Offset+1,
		func(r *stream.Record) error {
			p := f.Parts[read]
			if r.Offset < p.Offset {
				return nil // of another snapshot, written at the same time
			}
			if got := sha256.Sum256(r.Value); r.Offset > p.Offset || !bytes.Equal(got[:], p.SHA256) {
				return fmt.Errorf("%w: offset %[4]d does not hold part %[2]d of %[3]d", errTorn, read, len(f.Parts), p.Offset)
			}
			read++
			return each(read-1, r.Value)
		})
	if err == nil && read < len(f.Parts) {
		err = fmt.Errorf("%w: only %d of %d parts exist", errTorn, read, len(f.Parts))
	}
	return err
}

// load reads and verifies a snapshot. Chunks are decoded while the next ones are fetched.
func (sn snapshots) load(ctx context.Context, f snapshotFooter) (*state, error) {
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0))
	if err != nil {
		return nil, fmt.Errorf("create zstd decoder: %w", err)
	}
	defer unzip.Close()
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	var header snapshotHeader
	parts := make([][]*Entity, len(f.Parts)) // the header has none
	err = sn.readParts(ctx, f, func(i int, value []byte) error {
		if i == 0 {
			return json.Unmarshal(value, &header)
		}
		workers.Go(func() error {
			lines, err := unzip.DecodeAll(value, nil)
			if err == nil {
				parts[i], err = sn.readLines(lines)
			}
			return err
		})
		return nil
	})
	if err := errors.Join(err, workers.Wait()); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	s := newState(sn.kinds)
	s.seq, s.level = f.Seq, max(f.Level, baseLevel)
	for i, ops := range header.Ops {
		s.ops[i] = unpackOps(ops)
	}
	for _, entities := range parts {
		for _, e := range entities {
			s.insertLoaded(e)
		}
	}
	return s, nil
}
