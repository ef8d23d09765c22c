package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// recordVersion is the newest record version that this program applies.
const recordVersion = 1

// kind names what an entity is. New kinds go to the end.
type kind uint8

const (
	kindAccount kind = iota
	kindEndpoint
	kindKey
	kinds // how many there are
)

var kindNames = [kinds]string{"account", "endpoint", "key"}

func (k kind) String() string { return kindNames[k] }

func kindNamed(name string) (kind, bool) {
	for k, n := range kindNames {
		if n == name {
			return kind(k), true
		}
	}
	return 0, false
}

// value is what an entity holds: *Account, *Endpoint or *Key. Values are immutable.
type value interface {
	entityID() string
	// secretHash is the SHA-256 by which the entity is looked up, unique among its kind; nil = none.
	secretHash() []byte
	// placed returns the value as it is read: with its revision and its place among its kind.
	placed(rev, seq int64) value
}

func (a *Account) entityID() string        { return a.ID }
func (a *Account) secretHash() []byte      { return nil }
func (a *Account) placed(_, _ int64) value { return a }
func (k *Key) entityID() string            { return k.ID }
func (k *Key) secretHash() []byte          { return k.Hash }
func (k *Key) placed(_, _ int64) value     { return k }
func (e *Endpoint) entityID() string       { return e.ID }
func (e *Endpoint) secretHash() []byte     { return e.TokenHash }
func (e *Endpoint) placed(rev, seq int64) value {
	out := *e
	out.Rev, out.Seq = rev, seq
	return &out
}

// Conditions under which a record is applied.
const (
	preAbsent = "absent" // no living entity has the id
	preExists = "exists" // one has
	preRev    = "rev"    // one has, and its revision is Rev
)

// Operations.
const (
	opPut    = "put"    // Value becomes the value
	opDelete = "delete" // the entity becomes a tombstone
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
	At      time.Time       `json:"at"` // the writer's clock

	kind  kind
	value value // of a put
	fault error // why the record is no valid one; it is then refused by every node alike
}

// parseRecord never fails: a record that cannot be read is one that apply refuses.
func parseRecord(b []byte) record {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return record{fault: fmt.Errorf("decode record: %w", err)}
	}
	r.fault = r.resolve()
	r.Value = nil // the decoded value is all that is kept
	return r
}

func (r *record) resolve() error {
	var ok bool
	if r.kind, ok = kindNamed(r.Kind); !ok {
		return fmt.Errorf("unknown kind %q", r.Kind)
	}
	if r.ID == "" {
		return errors.New("record without an id")
	}
	if r.Op != opPut {
		return nil
	}
	v, err := decodeValue(r.kind, r.Value)
	if err != nil {
		return err
	}
	if v.entityID() != r.ID {
		return errors.New("value has another id than its record")
	}
	r.value = v
	return nil
}

// decodeValue reads the JSON of a value and judges what apply relies on.
func decodeValue(k kind, b []byte) (value, error) {
	var v value
	switch k {
	case kindAccount:
		v = &Account{}
	case kindEndpoint:
		v = &Endpoint{}
	case kindKey:
		v = &Key{}
	}
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("decode %s: %w", k, err)
	}
	if h := v.secretHash(); k != kindAccount && len(h) != 32 {
		return nil, fmt.Errorf("decode %s: hash of %d bytes", k, len(h))
	}
	return v, nil
}

// newRecord starts a record for what the writer saw.
func (c *Control) newRecord(s *state, k kind, entity, pre, op string) record {
	return record{
		V: recordVersion, OpID: id.Random("op_"), SeqSeen: s.seq, Node: c.cfg.Node,
		Kind: k.String(), ID: entity, Pre: pre, Op: op, At: c.now().UTC(),
	}
}
