// Package transform changes events on their way to a destination by declared operations: rename, pick, drop, wrap, add
// and set change the JSON document, header, path and method the request, and cancel ends the delivery.
//
// Operations are data, never code; set and those of the request have expressions (package expr), which are total and
// bounded. Compile validates all once; a Program then changes any number of events. The order of members, the text of
// numbers and the escapes of strings stay as they are: 1e400, -0 and é are written as they were read. White space
// between values is left out.
//
// A document is refused when parsers could read it in different ways: duplicate members, invalid UTF-8, surrogates
// without their other half. An operation that fails ends the whole change: there is no partly changed document.
//
// Begin reading at Op, then Program.Apply.
package transform

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/eventrelay/relay/pkg/event"
)

// Bounds of operations and documents.
const (
	MaxOps      = 32       // operations
	MaxOpsBytes = 64 << 10 // of their JSON together
	MaxPaths    = 64       // paths of one operation
	MaxPath     = 1024     // bytes of one path
	MaxSteps    = 64       // names and indexes in one path
	MaxName     = 256      // bytes of a name in a path, and of the key of wrap
	MaxValue    = 4 << 10  // bytes of the value that add adds
	MaxDepth    = 64       // nesting of a document
	// MaxVisits bounds the work on one document, whatever the operations and the document are: how many members and
	// elements are compared or passed. Names are decoded once, and those of paths have at most MaxName bytes, so a visit
	// costs as much for a long name as for a short one.
	MaxVisits = 10_000_000
	// MaxPointer bounds a JSON Pointer in a failure or a preview, in bytes; a longer one is cut and ends with …
	MaxPointer = 1024
)

// Kinds of operations.
const (
	Rename = "rename"
	Pick   = "pick"
	Drop   = "drop"
	Wrap   = "wrap"
	Add    = "add"
	Set    = "set"
	Header = "header"
	Path   = "path"
	Method = "method"
	Cancel = "cancel"
)

// Kinds returns the kinds of operations, in the order in which documents name them.
func Kinds() []string {
	return []string{Rename, Pick, Drop, Wrap, Add, Set, Header, Path, Method, Cancel}
}

// What happens if there is something at the target of rename or add.
const (
	ConflictError   = "error"   // the operation fails; this is the default
	ConflictReplace = "replace" // the new value takes its place
)

// Sources of a value that add adds.
const (
	EventID         = "event.id"
	EventType       = "event.type" // null if the event has no type
	EventReceivedAt = "event.received_at"
	EndpointID      = "endpoint.id"
	AttemptNumber   = "attempt.number" // from 1, within the first delivery, a replay or a recovery job
)

// Sources returns the sources of values.
func Sources() []string {
	return []string{EventID, EventType, EventReceivedAt, EndpointID, AttemptNumber}
}

// Op is one operation. Each kind has its members:
//
//	rename  from, to, on_conflict, required
//	pick    paths, required
//	drop    paths, required
//	wrap    key, at, required
//	add     path, value or from, on_conflict, required
//	set     path, expr, required
//	header  name, expr, required
//	path    expr, required
//	method  expr, required
//	cancel  when
//
// expr and when are expressions over the event as it is stored, whatever the operations before have changed. If one
// reads what the event does not have, its operation does nothing, unless it is required.
//
// A path that begins with / is a JSON Pointer (RFC 6901), any other is dotted: data.items.0.sku. A step * matches each
// element of an array, and in an object the member of that name. The last step of the path of add, and of to of
// rename, may be -, the place after the last element.
type Op struct {
	Op         string          `json:"op"`
	Path       string          `json:"path,omitempty"`
	From       string          `json:"from,omitempty"`
	To         string          `json:"to,omitempty"`
	Paths      []string        `json:"paths,omitempty"`
	Key        string          `json:"key,omitempty"`
	At         string          `json:"at,omitempty"`
	Value      json.RawMessage `json:"value,omitempty"`
	OnConflict string          `json:"on_conflict,omitempty"`
	Required   bool            `json:"required,omitempty"`
	Expr       string          `json:"expr,omitempty"`
	Name       string          `json:"name,omitempty"`
	When       string          `json:"when,omitempty"`
}

// Members returns the names of the members that operations of a kind may have; nil for an unknown kind.
func Members(kind string) []string {
	switch kind {
	case Rename:
		return []string{"op", "from", "to", "on_conflict", "required"}
	case Pick, Drop:
		return []string{"op", "paths", "required"}
	case Wrap:
		return []string{"op", "key", "at", "required"}
	case Add:
		return []string{"op", "path", "value", "from", "on_conflict", "required"}
	case Set:
		return []string{"op", "path", "expr", "required"}
	case Header:
		return []string{"op", "name", "expr", "required"}
	case Path, Method:
		return []string{"op", "expr", "required"}
	case Cancel:
		return []string{"op", "when"}
	}
	return nil
}

// Clone returns a copy that shares nothing with o.
func (o Op) Clone() Op {
	o.Paths, o.Value = slices.Clone(o.Paths), slices.Clone(o.Value)
	return o
}

// Input is an event, whose body is the document, with what else operations may read.
type Input struct {
	Event   *event.Event
	Tenant  string // of the endpoint; empty: it is the account's own
	Attempt int    // from 1
}

// Result is what operations make of an event.
type Result struct {
	Body []byte
	// Changed: Body was made by operations and shares no bytes with the input. Otherwise it is the stored one.
	Changed   bool
	Header    []event.Field // canonical names, each once
	Path      string        // escaped, begins with /; to append to the path of the URL. Empty: nothing
	Method    string        // empty: as without operations
	Cancelled bool          // nothing is sent
}

// Failure says why a document cannot be changed.
type Failure struct {
	Op      int    // index of the operation; NoOp if the document or the result is at fault
	Pointer string // JSON Pointer to the place, at most MaxPointer bytes; empty for the whole document
	Message string
}

// NoOp is Failure.Op of a document that no operation can change.
const NoOp = -1

func (f *Failure) Error() string {
	text := f.Message
	if f.Pointer != "" {
		text = f.Pointer + ": " + text
	}
	if f.Op == NoOp {
		return text
	}
	return fmt.Sprintf("operation %d: %s", f.Op, text)
}

// Apply changes an event. The body of the result has at most maxOutput bytes. Errors are a [*Failure], or that of ctx.
// Operations never wait and use no clock. Memory beside the result: up to about 32 times the body.
func (p *Program) Apply(ctx context.Context, in Input, maxOutput int) (Result, error) {
	r := run{in: in, stopped: ctx.Err, maxOutput: maxOutput}
	if err := r.apply(p); err != nil {
		return Result{}, err
	}
	return r.result, nil
}
