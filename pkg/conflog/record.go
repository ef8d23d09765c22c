package conflog

import (
	"bytes"
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

	// Second makes the record a transaction: it changes another entity too, or neither is changed. See transaction.go.
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
