// Package wire defines the JSON of /v1. Each member of a resource is declared once: its name and type, its bounds in
// tags, its description in the comment above it. From these types come the schemas of the OpenAPI document ([Schemas]),
// the decoding of requests (api.object.decode), the answers of the API, and what the pages and the tools read of them.
// Lists with members beside data and the bodies of sends and replays stand in api/openapi.
//
// A member is shown in answers and ignored in requests, unless it has the tag in, with words separated by commas:
//
//	in:""           clients may set it, too
//	in:"name"       a name: printable characters only
//	in:"null"       null in a request sets it to its default
//	in:"only"       write-only: no answer has it; null in a request removes what a pointer sets
//	in:"update"     only for a change; the resource decodes it itself
//	in:"own"        the resource decodes it itself
//	in:"required"   required when the resource is created; the resource checks it
//
// The bounds have the names of JSON Schema: minLength, maxLength, minimum, maximum, minItems, maxItems, pattern, enum,
// const, format; those that begin with "items." are about the items of a list. Of what clients may set, the bounds of
// texts are those of requests. enum is what a request may have and what answers have today: it may grow, so
// answers have x-extensible-enum; that of a table of another package is "@" and its name in [Words], and so is a
// pattern that several members have. ref names a component of api/openapi in place of a type, inref one for requests
// only, or one for what creates and, after a comma, one for changes. A pointer may be null, a time with
// nullable:"true"; omitempty says that a member may be missing.
package wire

import "github.com/eventrelay/relay/pkg/web"

// List is a page of a list, newest first.
type List[T any] struct {
	Data       []T    `json:"data" maxItems:"100"`
	NextCursor string `json:"next_cursor,omitempty" ref:"NextCursor"`
}

// Warning says that a member of the request was ignored, or that a setting will not work as it is.
type Warning struct {
	// The member, as a dotted path with indexes.
	Param string `json:"param"`
	// What is wrong with it.
	Message string `json:"message"`
}

// Deleted is the answer to DELETE.
type Deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object" enum:"endpoint,destination,drain,domain,tripwire,dsn,fixture"`
	Deleted bool   `json:"deleted" const:"true"`
}

// Meta are the last members of what people create.
type Meta struct {
	CreatedBy string    `json:"created_by"`
	CreatedAt web.Time  `json:"created_at"`
	UpdatedAt web.Time  `json:"updated_at"`
	Warnings  []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// SetWarnings adds the warnings about the request to its answer.
func (m *Meta) SetWarnings(all []Warning) { m.Warnings = all }
