// Package audit defines the entries of the audit log: who changed what, and when which API key was used.
//
// Every node counts the uses of each key in one entry per hour here, and writes a changed entry at most once a minute.
// The configuration log writes the entries of its own changes. Both go to the topic audit, from which the store writer
// copies them into the store for queries. The id of an entry is derived from its content, so an entry that is written
// twice is stored once. Entries hold the names of changed members, never their values.
//
// Begin reading at Entry and Uses.
package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Prefix is the prefix of the ids of entries.
const Prefix = "aud_"

// ActorType is the kind of an actor.
type ActorType string

// Types of actors.
const (
	ByKey      ActorType = "key"      // a request with an API key
	ByUser     ActorType = "user"     // a user who signed in
	ByPortal   ActorType = "portal"   // a person of a tenant in the portal
	ByOperator ActorType = "operator" // a command on the machine of a node
	BySystem   ActorType = "system"   // the service itself
)

// Actor is who made a change. ID is empty for operators and the system. Name is the name of the key, the user or the
// part of the service, and may be empty.
type Actor struct {
	Type ActorType `json:"type"`
	ID   string    `json:"id,omitempty"`
	Name string    `json:"name,omitempty"`
}

// Operator is the actor of commands on the machine of a node.
const Operator = "operator"

// ActorOf returns the actor with an id. An id that is neither of a key nor of a user nor Operator names a part of the
// service.
func ActorOf(actor, name string) Actor {
	switch {
	case strings.HasPrefix(actor, id.Key):
		return Actor{ByKey, actor, name}
	case strings.HasPrefix(actor, id.PortalSession):
		return Actor{ByPortal, actor, name}
	case strings.HasPrefix(actor, id.User):
		return Actor{ByUser, actor, name}
	case actor == Operator:
		return Actor{Type: ByOperator}
	default:
		return Actor{Type: BySystem, Name: actor}
	}
}

// KeyUsed is the action of entries about the use of an API key. There is one entry per key, hour and process of a node.
const KeyUsed = "key.used"

// ToolCalled is the action of entries about calls of the agent server's tools. The entity is the tool, and the changes
// are the names of its arguments.
const ToolCalled = "tool.called"

// Entry is one line of the audit log.
type Entry struct {
	ID         id.ID      `json:"-"`
	Account    string     `json:"account"`
	At         time.Time  `json:"at"` // of the change, or of the first use in the hour
	Actor      Actor      `json:"actor"`
	Action     string     `json:"action"` // such as endpoint.updated
	EntityType string     `json:"entity_type"`
	Entity     string     `json:"entity"`
	Changes    []string   `json:"changes,omitempty"` // names of changed members
	Related    string     `json:"related,omitempty"` // id: of an act, what it changes; of that change, the act
	RequestID  string     `json:"request_id,omitempty"`
	RemoteIP   netip.Addr `json:"remote_ip,omitzero"` // of the request, or of the last use
	// For KeyUsed only:
	Node   string    `json:"node,omitempty"`
	Count  uint64    `json:"count,omitempty"` // requests in the hour so far; see Uses.RecordUse
	LastAt time.Time `json:"last_at,omitzero"`
}

// NewID derives the id of an entry from its time, a number that orders entries of the same millisecond, and values that
// identify the entry. Equal arguments give equal ids.
func NewID(at time.Time, order uint32, unique ...string) id.ID {
	d := id.Lowest(at)
	binary.BigEndian.PutUint32(d[6:10], order)
	sum := sha256.Sum256([]byte(strings.Join(unique, "\x00")))
	copy(d[10:], sum[:])
	return d
}

// recordVersion is the version of the records of the topic audit.
const recordVersion = 1

type auditRecord struct {
	V  int    `json:"v"`
	ID string `json:"id"`
	Entry
}

// Record encodes the entry for the topic audit.
func (e *Entry) Record() (*stream.Record, error) {
	value, err := json.Marshal(auditRecord{recordVersion, e.ID.Text(Prefix), *e})
	if err != nil {
		return nil, fmt.Errorf("encode audit entry %s: %w", e.ID.Text(Prefix), err)
	}
	return &stream.Record{Key: []byte(e.Entity), Value: value}, nil
}

// Decode decodes a record of the topic audit.
func Decode(r *stream.Record) (*Entry, error) {
	var w auditRecord
	if err := json.Unmarshal(r.Value, &w); err != nil {
		return nil, fmt.Errorf("decode audit entry: %w", err)
	}
	if w.V != recordVersion || w.Action == "" {
		return nil, fmt.Errorf("decode audit entry: version %d, action %q: not supported by this program", w.V, w.Action)
	}
	var err error
	if w.Entry.ID, err = id.Parse(Prefix, w.ID); err != nil {
		return nil, fmt.Errorf("decode audit entry: %w", err)
	}
	return &w.Entry, nil
}

// Query selects entries, newest first. Values of one filter are alternatives; an empty filter matches all.
type Query struct {
	Account  string
	Actors   []string // ids of actors, or their types
	Actions  []string // such as endpoint.updated, or endpoint.* for all of an entity type
	Entities []string // ids; those to which a change is related count too
	Since    time.Time
	Until    time.Time // exclusive
	Before   id.ID     // id of the last entry of the page before; zero on the first page
	Limit    int
}

// Page is one page of entries. Entries that were written after AsOf may be missing; zero: none is.
type Page struct {
	Rows []Entry
	More bool
	AsOf time.Time
}

// Matches reports whether the query selects an entry.
func (q *Query) Matches(e *Entry) bool {
	one := func(values []string, is func(string) bool) bool {
		for _, v := range values {
			if is(v) {
				return true
			}
		}
		return len(values) == 0
	}
	return e.Account == q.Account &&
		one(q.Actors, func(v string) bool { return v == e.Actor.ID || v == string(e.Actor.Type) }) &&
		one(q.Actions, func(v string) bool {
			group, all := strings.CutSuffix(v, "*")
			return v == e.Action || all && strings.HasPrefix(e.Action, group)
		}) &&
		one(q.Entities, func(v string) bool { return v == e.Entity || v == e.Related }) &&
		!e.At.Before(q.Since) && (q.Until.IsZero() || e.At.Before(q.Until)) &&
		(q.Before.IsZero() || string(e.ID[:]) < string(q.Before[:]))
}

// Use is the last use of an API key.
type Use struct {
	At       time.Time
	Node     string
	RemoteIP netip.Addr
}
