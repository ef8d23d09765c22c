package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"math"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// A snapshot is a run of records in control.snapshots that share a key: a head, chunks and a foot. A
// chunk is zstd over pairs of lines, the place of an entity and its value. The foot says where the head
// is, and the SHA-256 of head and chunks, and has a MAC; a snapshot that does not agree with its foot, or has none, does
// not count.
const (
	snapshotVersion = 2
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

// snapshotHead says which state follows.
type snapshotHead struct {
	Node    string    `json:"node"`
	Cluster string    `json:"cluster"` // whose offsets Next is one of
	Log     string    `json:"log"`     // id of the topic; empty where the brokers give topics none
	Seq     int64     `json:"sequence"`
	Level   int       `json:"level"` // of the log
	Next    int64     `json:"next"`  // offset in control of the first record that is not in it
	At      time.Time `json:"at"`
	// Ops are the hashes of state.ops, 8 bytes each.
	Ops [2][]byte `json:"ops"`
}

// snapshotFoot makes a snapshot whole.
type snapshotFoot struct {
	V      int    `json:"v"`      // of the whole
	First  int64  `json:"first"`  // offset of the head
	SHA256 []byte `json:"sha256"` // of the head and the chunks; see addPart
	Secret Sealed `json:"secret"` // of the log, by which the foot is authenticated
}

// addPart adds the head or a chunk to the sum of a snapshot, with its length.
func addPart(sum hash.Hash, value []byte) {
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(value))))
	sum.Write(value)
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

// snapshotPlace is where a snapshot and the log after it begin.
type snapshotPlace struct {
	first, next int64
	seq         int64
	at          time.Time
}

// snapshots writes one whenever this node owns partition 0 of events and enough has changed.
func (c *Control) snapshots(ctx context.Context, last snapshotPlace) error {
	kept := []snapshotPlace{last}
	if last.seq == 0 {
		kept = nil
		last.at = c.now()
	}
	for pause(ctx, c.timing.look) == nil {
		v := c.view.Load()
		news := v.seq - last.seq
		// By the clock, not before the audit log was told: the record that says so would ask for one more.
		old := news > 0 && c.now().Sub(last.at) >= c.timing.snapshot && v.sets[kindTrail].bySeq.len == 0
		due := news >= int64(c.cfg.SnapshotEvery) || old
		if !due || !c.owner.Load() {
			continue
		}
		began := time.Now()
		written, err := c.writeSnapshot(ctx, v)
		if err != nil {
			c.metrics.snapshots.WithLabelValues("error").Inc()
			c.log.LogAttrs(ctx, slog.LevelWarn, "write a snapshot of the configuration", slog.Any("error", err))
			_ = pause(ctx, c.timing.write) // the loop looks at ctx
			continue
		}
		c.metrics.snapshots.WithLabelValues("written").Inc()
		c.log.LogAttrs(ctx, slog.LevelInfo, "snapshot of the configuration written",
			slog.Int64("sequence", v.seq), slog.Duration("took", time.Since(began)))
		last = written
		kept = c.trim(ctx, append(kept, written))
	}
	return nil
}

// trim deletes what no kept snapshot needs, and returns the kept ones.
func (c *Control) trim(ctx context.Context, kept []snapshotPlace) []snapshotPlace {
	if len(kept) <= keptSnapshots {
		return kept
	}
	kept = kept[len(kept)-keptSnapshots:]
	for p, before := range map[stream.Partition]int64{snapshotLog: kept[0].first, controlLog: kept[0].next} {
		if err := c.reader.Trim(ctx, p, before); err != nil {
			c.log.LogAttrs(ctx, slog.LevelWarn, "trim the configuration log", slog.Any("error", err))
		}
	}
	return kept
}

// writeSnapshot writes the state of a view. The view is immutable, so records go on being applied.
func (c *Control) writeSnapshot(ctx context.Context, v *view) (snapshotPlace, error) {
	own, e := c.auth.Load(), v.sets[kindLog].living(logID)
	if own == nil || e == nil {
		return snapshotPlace{}, errors.New("the log has no first record yet")
	}
	cluster, topic, err := c.reader.TopicID(ctx, stream.Control)
	if err != nil {
		return snapshotPlace{}, err
	}
	at := c.now().UTC()
	key := []byte(id.Random("snap_"))
	foot := snapshotFoot{V: snapshotVersion, Secret: c.codec.value(e).(*LogSecret).Secret}
	sum := sha256.New()
	emit := func(part string, value []byte) error {
		ctx, cancel := context.WithTimeout(ctx, c.timing.write)
		defer cancel()
		rec := &stream.Record{Key: key, Value: value, Headers: []stream.Header{{Key: "part", Value: []byte(part)}}}
		if part == partFoot {
			own.sign(macSnapshot, rec)
		}
		if err := c.producer.ProduceSync(ctx, stream.ControlSnapshots, 0, rec); err != nil {
			return err
		}
		if part == partHead {
			foot.First = rec.Offset
		}
		addPart(sum, value)
		return nil
	}
	head, err := json.Marshal(snapshotHead{
		Node: c.cfg.Node, Cluster: cluster, Log: topic, Seq: v.seq, Level: v.level, Next: v.next, At: at,
		Ops: [2][]byte{packOps(v.ops[0]), packOps(v.ops[1])},
	})
	if err != nil {
		return snapshotPlace{}, fmt.Errorf("encode the head: %w", err)
	}
	if err := emit(partHead, head); err != nil {
		return snapshotPlace{}, err
	}
	if err := c.chunks(v.state, func(chunk []byte) error { return emit(partChunk, chunk) }); err != nil {
		return snapshotPlace{}, err
	}
	foot.SHA256 = sum.Sum(nil)
	tail, err := json.Marshal(foot)
	if err != nil {
		return snapshotPlace{}, fmt.Errorf("encode the foot: %w", err)
	}
	return snapshotPlace{first: foot.First, next: v.next, seq: v.seq, at: at}, emit(partFoot, tail)
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
