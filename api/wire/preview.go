package wire

import (
	"encoding/json"
)

// Change is one path that changed.
type Change struct {
	Change string `json:"change" enum:"added,removed,moved,replaced"`
	// JSON Pointer to where it is now or was removed.
	Pointer string `json:"pointer"`
	// JSON Pointer before the value moved, also when it replaced another value (`replaced`).
	From *string `json:"from"`
	// The first 200 bytes of the value as JSON.
	Before *string `json:"before"`
	// The first 200 bytes of the value as JSON.
	After *string `json:"after"`
}

// TransformationStep is what one operation did.
type TransformationStep struct {
	Index        int      `json:"index" minimum:"0" maximum:"31"`
	Op           string   `json:"op" enum:"rename,pick,drop,wrap,add"`
	Changed      []Change `json:"changed" maxItems:"50"`
	ChangedTotal int      `json:"changed_total" minimum:"0"`
	// Paths that the document does not have.
	Warnings []string `json:"warnings" maxItems:"20"`
}

// Failure says which operation failed and where; index is null if the sample or the result is at fault.
type Failure struct {
	// The operation that failed; `null`: the sample or the result is at fault.
	Index *int `json:"index" minimum:"0" maximum:"31"`
	// JSON Pointer to the place; empty for the whole document.
	Pointer string `json:"pointer" maxLength:"1024"`
	Message string `json:"message"`
}

// TransformationPreview is what operations make of a sample.
type TransformationPreview struct {
	OK bool `json:"ok"`
	// The result; `null` if the operations fail, or if it has a number that JSON parsers cannot read, such as 1e400.
	Output json.RawMessage `json:"output"`
	// The bytes that a destination would get. They keep numbers that your JSON parser may change.
	OutputText *string `json:"output_text"`
	// What each operation did, up to one that failed.
	Steps    []TransformationStep `json:"steps" maxItems:"32"`
	Error    *Failure             `json:"error,omitempty"`
	BytesIn  int                  `json:"bytes_in" minimum:"0"`
	BytesOut int                  `json:"bytes_out" minimum:"0"`
	// How many credentials in the body of an event were masked before.
	Masked   int       `json:"masked" minimum:"0"`
	Warnings []Warning `json:"warnings,omitempty" ref:"Warnings"`
}
