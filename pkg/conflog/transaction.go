package conflog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

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
