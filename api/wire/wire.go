// Package wire defines the JSON of /v1. Each field of a resource is declared once: its name and type, its bounds in
// tags, its description in the comment above it. These types are the source of the schemas in the OpenAPI document
// ([Schemas]) and of the decoding of requests (frame.Object.Decode). The API encodes its answers from them, and pages
// and tools decode answers into them. The schemas of lists with fields other than data, and of the bodies of sends and
// replays, are in api/openapi.
//
// A field is shown in answers and ignored in requests, unless it has the tag in, with words separated by commas:
//
//	in:""           clients may set it
//	in:"name"       a name: printable characters only
//	in:"null"       null in a request sets it to its default
//	in:"only"       write-only: no answer has it; null in a request unsets a pointer
//	in:"update"     only for a change; the resource decodes it itself
//	in:"own"        the resource decodes it itself
//	in:"required"   required when the resource is created; the resource checks it
//
// Bounds are tags with the names of JSON Schema: minLength, maxLength, minimum, maximum, minItems, maxItems, pattern,
// enum, const, format. With the prefix "items." they apply to the items of a list. Bounds of texts that clients may set
// apply to requests only.
//
// enum lists the values of requests and of answers. New values may be added, so schemas of answers have
// x-extensible-enum instead. enum:"@NAME" takes the list from [Words], and pattern:"@NAME" a pattern that several
// fields share.
//
// ref names a component of api/openapi that replaces the schema of the type. inref does so for requests only; with two
// names, the first is for creating and the second for changes. "-" leaves the field to api/openapi. A pointer may be
// null, a time only with nullable:"true". A field with omitempty may be missing.
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
	Object  string `json:"object" enum:"endpoint,destination,drain,domain,tripwire,dsn,fixture,tenant,key,event_type,portal_link"`
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
