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

// recordVersion is the newest record version that this program applies.
const recordVersion = 1

// Conditions under which a record is applied.
const (
	preAbsent = "absent" // no living entity has the id
	preExists = "exists" // one has
	preRev    = "rev"    // one has, and its revision is Rev
	preNone   = "none"   // for what is about no entity
)

// Operations.
const (
	opPut    = "put"    // Value becomes the value
	opDelete = "delete" // the entity becomes a tombstone
	opForget = "forget" // nothing of it is left: for what ends by age, and whose absence tells all
	opCopied = "copied" // the audit log has the changes up to the sequence Rev: the outbox lets go of them
	opAdopt  = "adopt"  // Value becomes the sole entity of its kind, whatever was before
	opLevel  = "level"  // the log is at Level from here on
)

// record is one conditional change as it stands in the log, as JSON.
type record struct {
	V       int             `json:"v"`
	OpID    string          `json:"op_id"`    // by which the writer finds its result
	SeqSeen int64           `json:"seq_seen"` // sequence of the state that the writer saw
	Node    string          `json:"node"`
	Kind    string          `json:"kind"`
	ID      string          `json:"id"`
	Pre     string          `json:"pre"`
	Rev     int64           `json:"rev,omitempty"`
	Op      string          `json:"op"`
	Value   json.RawMessage `json:"value,omitempty"`
	At      time.Time       `json:"at"`              // the writer's clock
	Level   int             `json:"level,omitempty"` // of the log, in its first record and those that raise it
	// Exempt says that the put takes something away and is to be made also when nothing may grow; see exceeds.
	Exempt bool `json:"exempt,omitempty"`

	// For the audit log; see WithOrigin.
	By        string     `json:"by,omitempty"`
	ByName    string     `json:"by_name,omitempty"` // of the key or the user at the time
	RequestID string     `json:"request_id,omitempty"`
	RemoteIP  netip.Addr `json:"remote_ip,omitzero"`
	Changed   []string   `json:"changed,omitempty"` // names of members, of a put that replaces a value

	replaced *Entity // what the writer replaces

	kind        Kind
	index       Index
	packed      []byte // the value of a put as it is kept
	size        int32  // of its JSON
	outboxEntry []byte // what the audit log will say, as it is kept; nil = nothing
	fault       error  // why the record is no valid one; it is then refused by every node alike

	outboxEntrySize int32 // of the note's JSON
}

// parser reads records and keeps their values small.
//
// In memory a value is its JSON under S2 with a dictionary of the texts that nearly every entity shares: 320 bytes
// instead of 1,100 of an endpoint, in one allocation without pointers, so that the garbage collector does not walk
// through 200,000 of them.
type parser struct {
	kinds    *kinds
	entities Entities
	dict     *s2.Dict
}

// parse never fails: a record that cannot be read is one that apply refuses.
func (p *parser) parse(b []byte) record {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return record{fault: fmt.Errorf("decode record: %w", err)}
	}
	r.fault = p.resolve(&r)
	r.Value = nil // it pins the whole record; what is kept is packed
	return r
}

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
		return fmt.Errorf("no %s of a %s", r.Op, r.Kind)
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
		return errors.New("value has another id than its record")
	}
	var line bytes.Buffer // a value is one line of a snapshot
	if err := json.Compact(&line, r.Value); err != nil {
		return fmt.Errorf("compact value: %w", err)
	}
	r.packed, r.size = p.pack(line.Bytes()), int32(line.Len())
	return nil
}

// pack returns the form of a value's JSON that is kept in memory.
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

// newRecord starts a record for what the writer saw.
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
