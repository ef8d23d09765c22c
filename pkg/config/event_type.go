package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/schema"
)

// EventType is an entry of the catalogue: a type of events with its description and the schema of their data.
type EventType struct {
	entity.Meta
	Name        string `json:"name"` // the type of the events
	Description string `json:"description,omitempty"`
	Group       string `json:"group,omitempty"`
	Deprecated  bool   `json:"deprecated,omitempty"`
	// Internal: it is in no catalogue that other people see.
	Internal bool `json:"internal,omitempty"`
	// Versions of the schema, oldest first. Events are checked against the newest.
	Versions []SchemaVersion `json:"versions,omitempty"`
	// CreatedBy is Answer.IDSeed of the call that created it, if it had an Idempotency-Key.
	CreatedBy string `json:"by,omitempty"`
}

// SchemaVersion is a version of the schema of a type.
type SchemaVersion struct {
	Version   int             `json:"version"`
	Schema    json.RawMessage `json:"schema"`
	Example   json.RawMessage `json:"example,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
}

// Bounds of the catalogue.
const (
	// MaxEventTypes and MaxEventTypesBytes bound all types.
	MaxEventTypes      = 1000
	MaxEventTypesBytes = 32 << 20
	// MaxSchemaVersions and maxVersionsBytes bound the versions of a type: the oldest are dropped.
	MaxSchemaVersions = 10
	maxVersionsBytes  = 240 << 10
	// maxCompiledBytes bounds the memory of the compiled schemas, as schema.Size has it.
	maxCompiledBytes = 128 << 20
	// MaxEventExample is the length of an example.
	MaxEventExample = 32 << 10
	// MaxVersion is the largest number of a version.
	MaxVersion = 1 << 30
	// MaxTypeDescription is the length of a description in characters, MaxTypeGroup that of a group.
	MaxTypeDescription = 2000
	MaxTypeGroup       = 100
)

// Errors of these bounds.
var (
	ErrTooManyEventTypes = entity.TooMany(MaxEventTypes, "event types")
	ErrEventTypesFull    = fmt.Errorf("the room of %d MiB for event types is full", MaxEventTypesBytes>>20)
)

// EventTypeID returns the id of a type's entity.
func EventTypeID(account, name string) string {
	return derivedID("etp_", "event type "+account+" "+name)
}

// Newest returns the newest version of the schema, or nil.
func (x *EventType) Newest() *SchemaVersion {
	if len(x.Versions) == 0 {
		return nil
	}
	return &x.Versions[len(x.Versions)-1]
}

// SetSchema makes schema the newest version, unless it is already, with an example. Both are in the form of
// schema.Canonical. Without a schema the newest version stays, or the first one takes everything.
func (x *EventType) SetSchema(schema, example json.RawMessage, now time.Time) {
	newest := x.Newest()
	switch {
	case schema == nil && newest != nil:
		schema = newest.Schema
	case schema == nil:
		schema = json.RawMessage("{}")
	}
	versions := slices.Clone(x.Versions)
	if newest == nil || string(newest.Schema) != string(schema) {
		n := 1
		if newest != nil {
			n = newest.Version + 1
		}
		versions = append(versions, SchemaVersion{Version: n, CreatedAt: now})
	}
	last := &versions[len(versions)-1]
	last.Schema, last.Example = schema, example
	x.Versions = boundVersions(versions)
}

// boundVersions drops the oldest versions that there is no room for.
func boundVersions(all []SchemaVersion) []SchemaVersion {
	size := 0
	for i := len(all) - 1; i >= 0; i-- {
		size += len(all[i].Schema) + len(all[i].Example)
		if i < len(all)-1 && (size > maxVersionsBytes || len(all)-i > MaxSchemaVersions) {
			return all[i+1:]
		}
	}
	return all
}

// Validate validates a type of an import.
func (x *EventType) Validate() error {
	if !event.ValidType(x.Name) || x.ID != EventTypeID(x.Account, x.Name) {
		return errors.New("name is not an event type, or not that of its id")
	}
	errs := []error{require.Text("description", x.Description, 0, MaxTypeDescription),
		require.Text("group", x.Group, 0, MaxTypeGroup), require.Range("versions", len(x.Versions), 0, MaxSchemaVersions)}
	before := 0
	for i, v := range x.Versions {
		// Earlier versions of the relay have saved larger patterns: events are not checked against them.
		if _, err := schema.Compile(v.Schema); err != nil && !errors.Is(err, schema.ErrLargePatterns) {
			errs = append(errs, fmt.Errorf("versions[%d].schema %w", i, err))
		}
		errs = append(errs, require.Range("version", v.Version, before+1, MaxVersion),
			require.Range("example", len(v.Example), 0, MaxEventExample))
		before = v.Version
	}
	return errors.Join(errs...)
}

// Restricts: no node has to know of a change before it is answered.
func (x *EventType) Restricts(entity.Value) bool { return false }

// catalogue are the methods about event types.
type catalogue struct {
	*core
	compiled *compiledSchemas
}

// compiledSchemas keeps the newest schema of each type compiled, by the id of the type, as far as there is room.
type compiledSchemas struct {
	mu sync.RWMutex // guards of
	of map[string]compiledSchema
}

type compiledSchema struct {
	rev    int64
	schema *schema.Schema // nil: err says why it does not compile
	err    error
}

func (c compiledSchema) size() int {
	if c.schema == nil {
		return 0
	}
	return c.schema.Size()
}

// EventType returns the type with a name, or nil.
func (c catalogue) EventType(account, name string) *EventType {
	x, _ := entity.Get[EventType](c, EventTypeID(account, name))
	return x
}

// EventTypes returns all types by group and name.
func (c catalogue) EventTypes(account string) []*EventType {
	all, _ := entity.List[EventType](c, account, 0, entity.Unlimited, nil)
	slices.SortFunc(all, func(a, b *EventType) int { return slices.Compare(a.order(), b.order()) })
	return all
}

func (x *EventType) order() []string { return []string{x.Group, x.Name} }

// PutEventType creates a type, or changes it. change may be called several times; its error is returned as it is.
func (c catalogue) PutEventType(ctx context.Context, account, name string, change func(*EventType) error) (
	x *EventType, created bool, err error) {
	id := EventTypeID(account, name)
	for {
		x, err = entity.Update(ctx, c, id, change)
		if !errors.Is(err, ErrNotFound) {
			return x, false, err
		}
		x = &EventType{Meta: entity.Meta{ID: id, Account: account}, Name: name}
		if err = change(x); err != nil {
			return nil, false, err
		}
		if x, err = entity.Create(ctx, c, x); !errors.Is(err, ErrConflict) { // else another node has created it
			return x, true, err
		}
	}
}

// What an endpoint does with events that do not match the schema of their type.
const (
	ValidateOff    = ""
	ValidateWarn   = "warn"
	ValidateReject = "reject"
)

// EventTypeAt returns the type with a name as the owner of an endpoint knows it: tenants know no internal ones.
func (c catalogue) EventTypeAt(ep *Endpoint, name string) *EventType {
	x := c.EventType(ep.Account, name)
	if x != nil && x.Internal && ep.Tenant != "" {
		return nil
	}
	return x
}

// Mismatch returns where the data of an event does not match the newest schema of its type; nil if it matches, or the
// catalogue has no schema of the type. data must be valid JSON, unless it comes from a provider. spent is the work for
// the request so far, see schema.Schema.Check.
func (c catalogue) Mismatch(ep *Endpoint, kind string, data []byte, spent *int) *event.Mismatch {
	x := c.EventTypeAt(ep, kind)
	if x == nil || x.Newest() == nil {
		return nil
	}
	s, err := c.schemaOf(x)
	if err != nil { // it was saved by another version of the relay
		return nil
	}
	fault, err := s.Check(data, spent)
	switch {
	case err != nil:
		fault = &schema.Fault{Message: "not checked: " + err.Error()}
	case fault == nil:
		return nil
	}
	return &event.Mismatch{Version: x.Newest().Version, Pointer: fault.Pointer(), Message: fault.Message, Path: fault.Path}
}

func (c catalogue) schemaOf(x *EventType) (*schema.Schema, error) {
	cache := c.compiled
	cache.mu.RLock()
	have, ok := cache.of[x.ID]
	cache.mu.RUnlock()
	if ok && have.rev == x.Rev {
		return have.schema, have.err
	}
	have = compiledSchema{rev: x.Rev}
	have.schema, have.err = schema.Compile(x.Newest().Schema)
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if cache.of == nil {
		cache.of = map[string]compiledSchema{}
	}
	now, room := c.View(), maxCompiledBytes-have.size()
	maps.DeleteFunc(cache.of, func(id string, other compiledSchema) bool {
		e := now.Find(entity.KindEventType, id)
		if e == nil || e.Rev != other.rev || !e.Living() || room < other.size() {
			return true
		}
		room -= other.size()
		return false
	})
	cache.of[x.ID] = have
	return have.schema, have.err
}
