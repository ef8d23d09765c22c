package dashboard

import (
	"encoding/json"
	"fmt"
)

// What the API says of transformations, their versions and previews.

// transformationData is the transformation of an endpoint as the API returns it.
type transformationData struct {
	Ops []json.RawMessage `json:"ops"`
}

// transformationVersionData says when and by whom a version was made.
type transformationVersionData struct {
	Version   int    `json:"version"`
	CreatedAt string `json:"created_at"`
	CreatedBy struct {
		Type string  `json:"type"`
		ID   *string `json:"id"`
		Name *string `json:"name"`
	} `json:"created_by"`
	Operations     int                 `json:"operations"`
	Transformation *transformationData `json:"transformation"` // nil: it had none, or they are not kept
	Restorable     bool                `json:"restorable"`     // its operations are known
}

// Text is the operations of a version, one a line; empty without any.
func (x *transformationVersionData) Text() string { return operationLines(x.Transformation) }

// Who names the person or key that made a version.
func (x *transformationVersionData) Who() string {
	by := &x.CreatedBy
	switch {
	case by.Name != nil && *by.Name != "":
		return *by.Name
	case by.ID != nil:
		return *by.ID
	}
	return by.Type
}

// OperationsText says how many operations a version has.
func (x *transformationVersionData) OperationsText() string {
	if x.Operations == 0 {
		return "none: bodies are delivered as they are stored"
	}
	return plural(x.Operations, "operation", "operations")
}

// previewData is a preview as the API returns it.
type previewData struct {
	OK         bool          `json:"ok"`
	OutputText *string       `json:"output_text"`
	Steps      []stepData    `json:"steps"`
	Error      *failureData  `json:"error"`
	BytesIn    int           `json:"bytes_in"`
	BytesOut   int           `json:"bytes_out"`
	Masked     int           `json:"masked"`
	Warnings   []warningData `json:"warnings"`
}

// stepData is what one operation did.
type stepData struct {
	Index        int          `json:"index"`
	Op           string       `json:"op"`
	Changed      []changeData `json:"changed"`
	ChangedTotal int          `json:"changed_total"`
	Warnings     []string     `json:"warnings"`
	Failure      *failureData `json:"-"` // of this operation
}

// changeData is one place that an operation changed.
type changeData struct {
	Change  string  `json:"change"`
	Pointer string  `json:"pointer"`
	From    *string `json:"from"`
	Before  *string `json:"before"`
	After   *string `json:"after"`
}

type failureData struct {
	Index   *int   `json:"index"`
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// Number counts operations from 1, as the page does.
func (s *stepData) Number() int { return s.Index + 1 }

// Text says how much an operation changed.
func (s *stepData) Text() string {
	switch {
	case s.Failure != nil:
		return "failed"
	case s.ChangedTotal == 0:
		return "no change"
	case s.ChangedTotal > len(s.Changed):
		return fmt.Sprintf("%d changes, the first %d below", s.ChangedTotal, len(s.Changed))
	}
	return plural(s.ChangedTotal, "change", "changes")
}

// Place is the pointer to the place that changed, with the one where it was if it moved.
func (c *changeData) Place() string {
	if c.From != nil {
		return placeText(*c.From) + " → " + placeText(c.Pointer)
	}
	return placeText(c.Pointer)
}

// Where is the place of a failure.
func (f *failureData) Where() string { return placeText(f.Pointer) }

func placeText(pointer string) string {
	if pointer == "" {
		return "the whole document"
	}
	return pointer
}
