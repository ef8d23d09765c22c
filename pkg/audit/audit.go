// Package audit is what the audit log is made of: entries that say who changed what, and which API key was used
// when.
//
// In flow the uses of keys, which every node gathers here and writes once a minute and key; the configuration log
// writes the entries of its own changes. Both go to the topic audit, from where the store writer copies them into
// the store, which answers queries. An entry's id is derived from what it tells of, so an entry that is written
// twice is the same one. Values never stand in an entry, only the names of the members that changed.
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

// Prefix is that of the ids of entries.
const Prefix = "aud_"

// ActorType says what kind of being acted.
type ActorType string

// Types of actors.
const (
	ByKey      ActorType = "key"      // a request with an API key
	ByUser     ActorType = "user"     // somebody who signed in
	ByOperator ActorType = "operator" // a command on the machine of a node
	BySystem   ActorType = "system"   // the service itself
)

// Actor is who did something. ID is empty for operators and the system; Name is that of the key or the user, or the
// part of the service, and may be empty.
type Actor struct {
	Type ActorType `json:"type"`
	ID   string    `json:"id,omitempty"`
	Name string    `json:"name,omitempty"`
}

// Operator is the actor of the commands on the machine of a node.
const Operator = "operator"

// ActorOf tells from an id who it is; what is no id of a key or a user is a part of the service.
func ActorOf(actor, name string) Actor {
	switch {
	case strings.HasPrefix(actor, id.Key):
		return Actor{ByKey, actor, name}
	case strings.HasPrefix(actor, id.User):
		return Actor{ByUser, actor, name}
	case actor == Operator:
		return Actor{Type: ByOperator}
	default:
		return Actor{Type: BySystem, Name: actor}
	}
}

// KeyUsed is the action of the entries that say that an API key was used; there is one for each key, node and hour.
const KeyUsed = "key.used"

// Entry is one line of the audit log.
type Entry struct {
	ID         id.ID      `json:"-"`
	Account    string     `json:"account"`
	At         time.Time  `json:"at"` // of the change, or of the first use in the hour
	Actor      Actor      `json:"actor"`
	Action     string     `json:"action"` // such as endpoint.updated
	EntityType string     `json:"entity_type"`
	Entity     string     `json:"entity"`
	Changes    []string   `json:"changes,omitempty"` // names of members
	RequestID  string     `json:"request_id,omitempty"`
	RemoteIP   netip.Addr `json:"remote_ip,omitzero"` // of the request, or of the last use
	// Of a use:
	Node   string    `json:"node,omitempty"`
	Count  uint64    `json:"count,omitempty"` // requests in the hour, so far
	LastAt time.Time `json:"last_at,omitzero"`
}

// NewID derives the id of an entry from its time, a number that orders entries of one millisecond, and whatever makes
// it the one it is.
func NewID(at time.Time, order uint32, unique ...string) id.ID {
	d := id.Lowest(at)
	binary.BigEndian.PutUint32(d[6:10], order)
	sum := sha256.Sum256([]byte(strings.Join(unique, "\x00")))
	copy(d[10:], sum[:])
	return d
}

// recordVersion is that of the records of the topic audit.
const recordVersion = 1

type wire struct {
	V  int    `json:"v"`
	ID string `json:"id"`
	Entry
}

// Record is the entry as it stands in the topic audit.
func (e *Entry) Record() (*stream.Record, error) {
	value, err := json.Marshal(wire{recordVersion, e.ID.Text(Prefix), *e})
	if err != nil {
		return nil, fmt.Errorf("encode audit entry %s: %w", e.ID.Text(Prefix), err)
	}
	return &stream.Record{Key: []byte(e.Entity), Value: value}, nil
}

// Decode is the reverse of Record.
func Decode(r *stream.Record) (*Entry, error) {
	var w wire
	if err := json.Unmarshal(r.Value, &w); err != nil {
		return nil, fmt.Errorf("decode audit entry: %w", err)
	}
	if w.V != recordVersion || w.Action == "" {
		return nil, fmt.Errorf("decode audit entry: version %d, action %q: no entry of this program", w.V, w.Action)
	}
	var err error
	if w.Entry.ID, err = id.Parse(Prefix, w.ID); err != nil {
		return nil, fmt.Errorf("decode audit entry: %w", err)
	}
	return &w.Entry, nil
}

// Query asks for entries, the newest first. Values of one filter are alternatives; an empty filter lets all through.
type Query struct {
	Account  string
	Actors   []string // ids, or types of actors
	Actions  []string // such as endpoint.updated, or endpoint.* for all of them
	Entities []string // ids
	Since    time.Time
	Until    time.Time // exclusive
	Before   id.ID     // zero on the first page
	Limit    int
}

// Page is one page of entries. AsOf says until when it is complete; zero: until now.
type Page struct {
	Rows []Entry
	More bool
	AsOf time.Time
}

// Matches reports whether the query lets an entry through.
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
		one(q.Entities, func(v string) bool { return v == e.Entity }) &&
		!e.At.Before(q.Since) && (q.Until.IsZero() || e.At.Before(q.Until)) &&
		(q.Before.IsZero() || string(e.ID[:]) < string(q.Before[:]))
}

// Use is the last use of an API key.
type Use struct {
	At       time.Time
	Node     string
	RemoteIP netip.Addr
}
