package conflog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/eventrelay/relay/pkg/id"
)

// recordVersion is the newest version of records that this program can apply.
const recordVersion = 1

// Preconditions of a record (member pre). A record whose precondition does not hold is not applied.
const (
	preAbsent = "absent" // no living entity has the id
	preExists = "exists" // a living entity has the id
	preRev    = "rev"    // a living entity has the id, and its revision is Rev
	preNone   = "none"   // no precondition
)

// Operations of a record (member op).
const (
	opPut    = "put"    // creates the entity, or replaces its value
	opDelete = "delete" // the entity becomes a tombstone
	opForget = "forget" // removes the entity without a tombstone: for expired entities
	opCopied = "copied" // removes outbox entries up to the sequence Rev: the audit log has them
	opAdopt  = "adopt"  // replaces the only entity of a singleton kind, whatever its id
	opLevel  = "level"  // raises the level of the log to Level
)

// record is one conditional change, as JSON in the log.
type record struct {
	V       int             `json:"v"`
	OpID    string          `json:"op_id"`    // random; the writer recognises its own record by it
	SeqSeen int64           `json:"seq_seen"` // sequence of the writer's state when it wrote the record
	Node    string          `json:"node"`
	Kind    string          `json:"kind"`
	ID      string          `json:"id"`
	Pre     string          `json:"pre"`
	Rev     int64           `json:"rev,omitempty"`
	Op      string          `json:"op"`
	Value   json.RawMessage `json:"value,omitempty"`
	At      time.Time       `json:"at"`              // by the writer's clock
	Level   int             `json:"level,omitempty"` // level of the log; in the first record, and in those that raise it
	// Exempt marks a put that must be applied even when a bound is reached, such as a revocation; see checkBounds.
	Exempt bool `json:"exempt,omitempty"`

	// For the audit log; see WithOrigin.
	By        string     `json:"by,omitempty"`
	ByName    string     `json:"by_name,omitempty"` // name of the key or user when the record was written
	RequestID string     `json:"request_id,omitempty"`
	RemoteIP  netip.Addr `json:"remote_ip,omitzero"`
	Changed   []string   `json:"changed,omitempty"` // names of the changed members, of a put that replaces a value
	Related   string     `json:"related,omitempty"`

	// Second makes the record a transaction: it changes another entity too, or neither is changed. See applySecond.
	Second *second `json:"second,omitempty"`

	replaced *Entity // the entity that the writer replaces

	kind        Kind
	index       Index
	packed      []byte // the value of a put, compressed
	size        int32  // bytes of the value's JSON
	outboxEntry []byte // the compressed outbox entry; nil = not audited
	fault       error  // why the record is invalid; every node refuses it

	outboxEntrySize int32 // bytes of the entry's JSON
}

// parser decodes records and compresses their values.
//
// In memory a value is its JSON, compressed with S2 and a dictionary of the text that most entities share. An endpoint
// takes 320 bytes instead of 1,100, in one allocation without pointers, so that the garbage collector does not have to
// scan 200,000 of them.
type parser struct {
	kinds    *kinds
	entities Entities
	dict     *s2.Dict
}

// parse decodes a record. It returns no error: it sets fault, and apply refuses the record.
func (p *parser) parse(b []byte) record {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return record{fault: fmt.Errorf("decode record: %w", err)}
	}
	if r.fault = p.resolve(&r); r.fault == nil && r.Second != nil {
		r.fault = p.resolveSecond(&r)
	}
	r.Value = nil // it would keep the whole record in memory; packed has the value
	return r
}

// resolve sets the derived fields of a record. It returns why the record is invalid.
func (p *parser) resolve(r *record) error {
	var ok bool
	if r.kind, ok = p.kinds.byName[r.Kind]; !ok {
		return fmt.Errorf("unknown kind %q", r.Kind)
	}
	if r.ID == "" {
		return errors.New("record without an id")
	}
	if r.Op == opLevel {
		return nil
	}
	if (r.kind == KindOutbox) != (r.Op == opCopied) || r.Op == opAdopt && !p.kinds.infos[r.kind].Singleton {
		return fmt.Errorf("operation %q is not allowed for kind %q", r.Op, r.Kind)
	}
	r.outboxEntry, r.outboxEntrySize = p.packOutboxEntry(r)
	if r.Op != opPut && r.Op != opAdopt {
		return nil
	}
	var err error
	if r.index, err = p.index(r.kind, r.Value); err != nil {
		return err
	}
	if r.index.ID != r.ID {
		return errors.New("the id in the value differs from that of the record")
	}
	var line bytes.Buffer // a snapshot has one line for each value
	if err := json.Compact(&line, r.Value); err != nil {
		return fmt.Errorf("compact value: %w", err)
	}
	r.packed, r.size = p.pack(line.Bytes()), int32(line.Len())
	return nil
}

// pack compresses the JSON of a value.
func (p *parser) pack(raw []byte) []byte {
	return bytes.Clone(p.dict.Encode(make([]byte, s2.MaxEncodedLen(len(raw))), raw))
}

// unpack is the reverse of pack.
func (p *parser) unpack(packed []byte) []byte {
	raw, err := p.dict.Decode(nil, packed)
	if err != nil {
		panic(fmt.Sprintf("BUG: unpack a value: %v", err))
	}
	return raw
}

// newRecord returns a record without a value, based on the writer's state s.
func (l *Log) newRecord(s *state, k Kind, entity, pre, op string) record {
	r := record{
		V: recordVersion, OpID: id.Random("op_"), SeqSeen: s.seq, Node: l.cfg.Node,
		Kind: l.kinds.name(k), ID: entity, Pre: pre, Op: op, At: l.now().UTC(), kind: k,
	}
	if s.seq == 0 {
		r.Level = l.kinds.newestLevel
	}
	return r
}

// A transaction is one record that changes two entities of different kinds, or neither of them: each has a precondition
// of its own. So what became of an entity, and the notice about it, cannot be separated by a crash or another writer.

// second is the second change of a transaction: a put.
type second struct {
	Kind   string          `json:"kind"`
	ID     string          `json:"id"`
	Pre    string          `json:"pre"` // preAbsent or preRev
	Rev    int64           `json:"rev,omitempty"`
	Value  json.RawMessage `json:"value"`
	Exempt bool            `json:"exempt,omitempty"`

	kind   Kind
	index  Index
	packed []byte
	size   int32
}

// errTransaction is why a record is no valid transaction.
var errTransaction = errors.New(
	"a transaction creates or replaces two entities of different kinds, and the second is not audited")

// resolveSecond sets the derived fields of the second change of a record. It returns why the record is invalid.
func (p *parser) resolveSecond(r *record) error {
	s := r.Second
	var known bool
	if s.kind, known = p.kinds.byName[s.Kind]; !known {
		return fmt.Errorf("unknown kind %q", s.Kind)
	}
	// Both entities get the sequence of the record, by which each is found in its kind; and a record has one outbox entry.
	if r.Op != opPut || s.kind < FirstCallerKind || s.kind == r.kind || s.ID == "" ||
		p.kinds.infos[s.kind].Audited != AuditNone {
		return errTransaction
	}
	var err error
	if s.index, err = p.index(s.kind, s.Value); err != nil {
		return err
	}
	if s.index.ID != s.ID {
		return errors.New("the id in the second value differs from that of the record")
	}
	var line bytes.Buffer
	if err := json.Compact(&line, s.Value); err != nil {
		return fmt.Errorf("compact value: %w", err)
	}
	s.packed, s.size = p.pack(line.Bytes()), int32(line.Len())
	s.Value = nil
	return nil
}

// record returns the second change as a record of its own.
func (s *second) record(r record) record {
	return record{Kind: s.Kind, ID: s.ID, Pre: s.Pre, Rev: s.Rev, Op: opPut, Exempt: s.Exempt, At: r.At, kind: s.kind,
		index: s.index, packed: s.packed, size: s.size}
}

// applySecond applies the second change of a transaction to the state after the first one. The sets must be the
// state's own.
func (s *state) applySecond(r record) result {
	second := r.Second.record(r)
	if s.kinds.infos[second.kind].Level > s.level {
		return early
	}
	old := s.sets[second.kind].findLiving(second.ID)
	if !preconditionHolds(second, old) {
		return conflict
	}
	if s.checkBounds(second.kind, old, second.put()) != nil {
		return full
	}
	return s.applyOp(second, old)
}

// SecondValue is a new value of an entity, within a transaction.
type SecondValue struct {
	Kind Kind
	ID   string
	NewValue
}

// Transact changes or creates one entity, and in the same record another one. next gets the entity, nil if there is
// none, and returns the new values. A nil Value leaves that entity unchanged; if both are nil, nothing is written. The
// second entity must be of another kind, which is not audited. When another writer wins, next is called again,
// MaxWriteTries times in all; then Transact returns ErrConflict. before is the entity before, nil = none.
func (l *Log) Transact(ctx context.Context, k Kind, id string,
	next func(v *View, old *Entity) (first NewValue, second SecondValue, err error)) (
	before *Entity, res WriteResult, err error,
) {
	return (writer{l}).change(ctx, k, id, func(v *View, old *Entity) (*record, error) {
		first, other, err := next(v, old)
		if err != nil || first.Value == nil {
			return nil, err
		}
		r := (writer{l}).newTransaction(v.state, k, id, old, first, other)
		return &r, nil
	})
}

// newTransaction returns the record of Transact. Without a second value it is an ordinary one.
func (l writer) newTransaction(s *state, k Kind, id string, old *Entity, first NewValue, other SecondValue) record {
	r := l.newRecord(s, k, id, preAbsent, opPut)
	r.Value, r.Exempt, r.replaced = first.Value, first.Exempt, old
	if old != nil {
		r.Pre, r.Rev = preRev, old.Rev
	}
	if other.Value == nil {
		return r
	}
	r.Second = &second{Kind: l.kinds.name(other.Kind), ID: other.ID, Pre: preAbsent, Value: other.Value,
		Exempt: other.Exempt}
	if e := s.sets[other.Kind].findLiving(other.ID); e != nil {
		r.Second.Pre, r.Second.Rev = preRev, e.Rev
	}
	return r
}
