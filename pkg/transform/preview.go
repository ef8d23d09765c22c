package transform

import (
	"context"
	"errors"
)

// Kinds of changes.
const (
	Added    = "added"
	Removed  = "removed"
	Moved    = "moved"
	Replaced = "replaced"
)

// Bounds of what a preview says of one operation.
const (
	MaxChanges  = 50
	MaxWarnings = 20
)

// Change is one place that an operation changed.
type Change struct {
	Kind    string
	Pointer string // where it is now, or was removed; at most MaxPointer bytes, as From
	From    string // where it was, for Moved and, if it took the place of another value, for Replaced
	// Before and After are the beginning of the values as JSON, 200 bytes each. Empty: there was or is none, or it only
	// moved.
	Before, After string
}

// Step is what one operation did.
type Step struct {
	Index    int
	Op       string
	Changed  []Change // the first MaxChanges
	Total    int      // of all changes
	Warnings []string // about places that are not there, the first MaxWarnings
}

// Preview is what Apply does to a document, step by step.
type Preview struct {
	Result         // its Body is nil if Failure is set
	Steps   []Step // up to the operation that failed
	Failure *Failure
}

// Preview is Apply with a record of what each operation did. Its body has the bytes that Apply returns. Its error is
// that of ctx.
func (p *Program) Preview(ctx context.Context, in Input, maxOutput int) (Preview, error) {
	r := run{in: in, stopped: ctx.Err, maxOutput: maxOutput, steps: make([]Step, 0, len(p.ops))}
	err := r.apply(p)
	preview := Preview{Result: r.result, Steps: r.steps}
	if err == nil {
		return preview, nil
	}
	if preview.Result = (Result{}); !errors.As(err, &preview.Failure) {
		return Preview{}, err
	}
	return preview, nil
}

// record adds a change to the running step of a preview.
func (r *run) record(c Change, before, after *value) {
	if r.steps == nil {
		return
	}
	s := &r.steps[len(r.steps)-1]
	if s.Total++; len(s.Changed) == MaxChanges {
		return
	}
	c.Before, c.After = excerptOf(before), excerptOf(after)
	s.Changed = append(s.Changed, c)
}

// warnMissing adds a warning to the running step of a preview: there is nothing at a path.
func (r *run) warnMissing(rest []step) {
	r.warn(func() string { return "there is nothing at " + r.pointer(rest) })
}

// warn adds a warning to the running step of a preview.
func (r *run) warn(text func() string) {
	if r.steps == nil {
		return
	}
	s := &r.steps[len(r.steps)-1]
	if len(s.Warnings) < MaxWarnings {
		s.Warnings = append(s.Warnings, text())
	}
}

// pointerIfRecorded is the pointer to the value that is looked at; empty if record does not keep it, for millions of
// pointers would cost more than the operations.
func (r *run) pointerIfRecorded() string {
	if r.steps == nil || len(r.steps[len(r.steps)-1].Changed) == MaxChanges {
		return ""
	}
	return r.pointer(nil)
}

func excerptOf(v *value) string {
	if v == nil {
		return ""
	}
	return excerpt(string(v.appendTo(nil, maxExcerpt, true)))
}
