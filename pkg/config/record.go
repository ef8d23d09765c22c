package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// recordVersion is the newest record version that this program applies.
const recordVersion = 2

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
	opTold   = "told"   // the audit log has the changes up to the sequence Rev
	opAdopt  = "adopt"  // Value becomes the account, whatever the account was before
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
	// Exempt says that the put takes something away and is to be made also when nothing may grow; see exempt.
	Exempt bool `json:"exempt,omitempty"`

	// For the audit log; see WithOrigin.
	By        string     `json:"by,omitempty"`
	ByName    string     `json:"by_name,omitempty"` // of the key or the user at the time
	RequestID string     `json:"request_id,omitempty"`
	RemoteIP  netip.Addr `json:"remote_ip,omitzero"`
	Changed   []string   `json:"changed,omitempty"` // names of members, of a put that replaces a value

	before *entity // what the writer replaces

	kind   kind
	hash   [hashLen]byte  // of the value's secret; zero = none
	former *[hashLen]byte // see entity.former
	packed []byte         // the value of a put as it is kept
	size   int32          // of its JSON
	open   bool           // see entity.open
	note   []byte         // what the audit log will say, as it is kept; nil = nothing
	fault  error          // why the record is no valid one; it is then refused by every node alike

	noteSize int32  // of the note's JSON
	begins   Sealed // the secret of the log that the record begins, or seals anew
}

// parse never fails: a record that cannot be read is one that apply refuses.
func (c *codec) parse(b []byte) record {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return record{fault: fmt.Errorf("decode record: %w", err)}
	}
	r.fault = c.resolve(&r)
	r.Value = nil // it pins the whole record; what is kept is packed
	return r
}

func (c *codec) resolve(r *record) error {
	var ok bool
	if r.kind, ok = kindNamed(r.Kind); !ok {
		return fmt.Errorf("unknown kind %q", r.Kind)
	}
	if r.ID == "" {
		return errors.New("record without an id")
	}
	if r.Op == opLevel {
		return nil
	}
	if (r.kind == kindTrail) != (r.Op == opTold) {
		return fmt.Errorf("no %s of a %s", r.Op, r.kind)
	}
	if r.Op == opAdopt && r.kind != kindAccount {
		return fmt.Errorf("no %s of a %s", r.Op, r.kind)
	}
	r.note, r.noteSize = c.note(r)
	if r.Op != opPut && r.Op != opAdopt {
		return nil
	}
	v, err := decodeValue(r.kind, r.Value)
	if err != nil {
		return err
	}
	if v.entityID() != r.ID {
		return errors.New("value has another id than its record")
	}
	if l, ok := v.(*LogSecret); ok {
		r.begins = l.Secret
	}
	copy(r.hash[:], v.secretHash())
	r.former = formerHash(v)
	var line bytes.Buffer // a value is one line of a snapshot
	if err := json.Compact(&line, r.Value); err != nil {
		return fmt.Errorf("compact value: %w", err)
	}
	r.packed, r.size, r.open = c.pack(line.Bytes()), int32(line.Len()), openValue(v)
	return nil
}

// newRecord starts a record for what the writer saw.
func (c *Control) newRecord(s *state, k kind, entity, pre, op string) record {
	r := record{
		V: recordVersion, OpID: id.Random("op_"), SeqSeen: s.seq, Node: c.cfg.Node,
		Kind: k.String(), ID: entity, Pre: pre, Op: op, At: c.now().UTC(),
	}
	if s.seq == 0 {
		r.Level = newestLevel
	}
	return r
}
