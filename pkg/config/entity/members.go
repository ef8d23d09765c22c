package entity

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/eventrelay/relay/pkg/conflog"
)

// When a node changes an entity, it keeps the members that it does not know: a newer version has written them, and they
// must not be lost while both versions run. The stored JSON has them. Decoding skips them, so they cost nothing until
// the entity is changed.

// Encode returns the JSON of a value that replaces the entity old, with the members of old that this version does not
// know; nil: the entity is new.
func (c *Core) Encode(old *conflog.Entity, next Value) ([]byte, error) {
	is, err := EncodeValue(next)
	if err != nil || old == nil {
		return is, err
	}
	known, err := EncodeValue(c.Decoded(old))
	if err != nil {
		return nil, err
	}
	stored := c.Value(old)
	if bytes.Equal(known, stored) { // the usual case: no unknown members
		return is, nil
	}
	return merge(stored, known, is), nil
}

// merge returns next with the members of stored that known lacks, object by object. known is stored as this version
// decodes and encodes it.
func merge(stored, known, next json.RawMessage) json.RawMessage {
	if bytes.Equal(known, next) {
		return stored
	}
	if from, ok := object(stored); ok {
		is, ok := object(next)
		if !ok {
			return next
		}
		was, _ := object(known)
		for name, unknown := range from {
			switch now, there := is[name]; {
			case there:
				is[name] = merge(unknown, was[name], now)
			case was[name] == nil:
				is[name] = unknown
			}
		}
		return marshalled(is)
	}
	from, ok := array(stored)
	if !ok {
		return next
	}
	is, ok := array(next)
	was, _ := array(known)
	if !ok || len(was) != len(from) {
		return next
	}
	for i, now := range is {
		if j := origin(was, is, i); j >= 0 {
			is[i] = merge(from[j], was[j], now)
		}
	}
	return marshalled(is)
}

// origin returns the index in was of the element that is[i] comes from, or -1: the one with the same identity, or an
// equal one, or, for a secret that was sealed again, the one at the same index.
func origin(was, is []json.RawMessage, i int) int {
	id, member := identity(is[i])
	for j := range was {
		if other, _ := identity(was[j]); id != "" && other == id || bytes.Equal(was[j], is[i]) {
			return j
		}
	}
	if len(was) != len(is) || member == "id" || member == "kind" {
		return -1
	}
	before, _ := identity(was[i])
	for j := range is {
		if other, _ := identity(is[j]); before != "" && other == before {
			return -1 // the old element is at another index
		}
	}
	return i
}

// identity returns what distinguishes an element of a list from the others: its id, kind or secret, and the name of
// that member.
func identity(element json.RawMessage) (id, member string) {
	o, _ := object(element)
	for _, name := range []string{"id", "kind", "secret"} {
		if o[name] != nil {
			return string(o[name]), name
		}
	}
	return "", ""
}

func object(b json.RawMessage) (o map[string]json.RawMessage, ok bool) {
	return o, bytes.HasPrefix(b, []byte("{")) && json.Unmarshal(b, &o) == nil
}

func array(b json.RawMessage) (a []json.RawMessage, ok bool) {
	return a, bytes.HasPrefix(b, []byte("[")) && json.Unmarshal(b, &a) == nil
}

func marshalled(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("BUG: encode what was JSON: %v", err))
	}
	return b
}
