// Package apply creates, updates and deletes endpoints to match a YAML file, over the API: configuration as code.
//
// Endpoints are recognised by their names, destinations by their names or URLs, so that applying a file twice changes
// nothing. A member that the file does not name stays as it is. Nothing is deleted without Options.Prune. Each change
// is conditional: if somebody else has changed the endpoint since it was compared, the service refuses it.
//
// Secrets stand in the file as references, env:NAME or file:PATH, and are never shown. The service does not show
// secrets either, so a difference is seen only in their last four characters. Run therefore sends them with each run,
// and the service, which can compare them, writes nothing if they are the same.
//
// Begin reading at Run. file.go reads the file, plan.go compares, client.go calls the API.
package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Options say what to apply, and where.
type Options struct {
	BaseURL, Key string // of the relay; the key may write
	File         io.Reader
	FileName     string // for messages
	DryRun       bool   // compare, have the service validate, and change nothing
	// Prune deletes endpoints that the file does not name, and destinations, headers and metadata of those that it names.
	Prune   bool
	Sources Sources
	// Show is called with each change, with Done after it was made. An endpoint that stays as it is counts as one.
	Show func(*Change)
	// Warn is called when the service cannot validate for DryRun, with the cause.
	Warn func(text string)
}

// Sources are where references to secrets lead.
type Sources struct {
	Getenv     func(string) string
	ReadSecret func(path string) (string, error)
}

// ErrFile is the error of a file that cannot be applied. Nothing was changed.
var ErrFile = errors.New("the file cannot be applied")

// Run applies a file and returns all changes in their order. When one of them fails, those before it are made (Done),
// the others are not, and the same file may be applied again to make them.
func Run(ctx context.Context, o Options) ([]*Change, error) {
	f, err := read(o.File, o.FileName, o.Sources)
	if err != nil {
		return nil, fmt.Errorf("%w:\n%w", ErrFile, err)
	}
	c, err := newClient(o.BaseURL, o.Key)
	if err != nil {
		return nil, err
	}
	changes, err := plan(ctx, c, f, o)
	if err != nil {
		return nil, err
	}
	if o.DryRun {
		return changes, validate(ctx, c, f, o, changes)
	}
	for _, change := range changes {
		if err := change.make(ctx, c); err != nil {
			return changes, fmt.Errorf("%s: %w", f.place(o.FileName, change, err), err)
		}
		o.Show(change)
	}
	return changes, nil
}

// validate has the service validate all changes, and returns what it refuses. It ends with another error, such as that
// of a service that is not reached; all changes are shown nevertheless.
func validate(ctx context.Context, c *client, f *file, o Options, changes []*Change) error {
	without, err := c.withoutValidation(ctx)
	if without != "" {
		o.Warn(without)
	}
	validating := err == nil && without == ""
	faults := []error{err}
	for _, change := range changes {
		if validating {
			if err := change.validate(ctx, c); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", f.place(o.FileName, change, err), err))
				r, _ := errors.AsType[*refusal](err)
				validating = r != nil && r.Status < http.StatusInternalServerError && r.Status != http.StatusTooManyRequests
			}
		}
		o.Show(change)
	}
	return errors.Join(faults...)
}

// plan compares all endpoints. Faults are reported together, before anything is changed.
func plan(ctx context.Context, c *client, f *file, o Options) ([]*Change, error) {
	ids, err := c.endpointIDs(ctx)
	if err != nil {
		return nil, err
	}
	var changes []*Change
	var faults []error
	for i, e := range f.endpoints {
		name := e.text("name")
		found := ids[name]
		delete(ids, name)
		switch {
		case len(found) > 1:
			faults = append(faults, fmt.Errorf("%s:%d:%d: %d endpoints of the service have the name %q: %s; rename or delete "+
				"all but one", o.FileName, e.at.line, e.at.column, len(found), name, strings.Join(found, ", ")))
		case len(found) == 0:
			changes = append(changes, create(i, e))
		default:
			a, err := c.do(ctx, http.MethodGet, "/v1/endpoints/"+found[0], nil, "")
			if err != nil {
				return nil, err
			}
			change, err := update(i, e, a.body, a.tag, o.Prune)
			if err != nil {
				faults = append(faults, fmt.Errorf("%s:%d:%d: %w", o.FileName, e.at.line, e.at.column, err))
				continue
			}
			changes = append(changes, change)
		}
	}
	if !o.Prune {
		ids = nil
	}
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		for _, id := range ids[name] {
			a, err := c.do(ctx, http.MethodGet, "/v1/endpoints/"+id, nil, "")
			if err != nil {
				return nil, err
			}
			changes = append(changes, &Change{Action: Delete, Name: name, ID: id, Fields: []Field{}, tag: a.tag, index: -1})
		}
	}
	return changes, errors.Join(faults...)
}

// make carries a change out.
func (x *Change) make(ctx context.Context, c *client) error {
	var a answer
	var err error
	target := "/v1/endpoints/" + x.ID
	switch {
	case x.Action == Create:
		if a, err = c.do(ctx, http.MethodPost, "/v1/endpoints", x.body, ""); err == nil {
			x.ID = textOf(a.body, "id")
		}
	case x.Action == Delete:
		_, err = c.do(ctx, http.MethodDelete, target, nil, x.tag)
		if r, ok := errors.AsType[*refusal](err); ok && r.Status == http.StatusNotFound {
			err = nil // by the try before, whose answer was lost, or by somebody else
		}
	case x.Action == Unchanged && !x.hidden:
		x.Done = true
		return nil
	default:
		a, err = c.do(ctx, http.MethodPatch, target, x.body, x.tag)
	}
	if err != nil {
		return explainConflict(err)
	}
	x.Done = true
	if x.Action == Unchanged && a.tag != x.tag {
		x.Action = Update
		x.Fields = []Field{{"secrets", "(a secret with the same last four characters)", "(as the file refers to it)"}}
	}
	x.warn(a.body)
	return nil
}

// validate has the service validate a change.
func (x *Change) validate(ctx context.Context, c *client) error {
	target := "/v1/endpoints/" + x.ID + "/validate"
	switch {
	case x.Action == Delete, x.Action == Unchanged && !x.hidden:
		return nil
	case x.Action == Create:
		target = validatePath
	}
	a, err := c.do(ctx, http.MethodPost, target, x.body, x.tag)
	if err != nil {
		return explainConflict(err)
	}
	x.warn(a.body)
	return nil
}

// explainConflict replaces the error of a failed If-Match by one that says what to do.
func explainConflict(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok && r.Type == "conflict" && r.Param == "if-match" {
		return errors.New("somebody else has changed this endpoint since it was compared; run the command again to see " +
			"what differs now")
	}
	return err
}

// warn keeps the warnings of an answer.
func (x *Change) warn(body map[string]any) {
	list, _ := body["warnings"].([]any)
	for _, w := range list {
		warning, _ := w.(map[string]any)
		x.Warnings = append(x.Warnings, textOf(warning, "param")+" "+textOf(warning, "message"))
	}
}

// place returns where in the file a refused value stands, and the endpoint.
func (f *file) place(name string, x *Change, err error) string {
	target := strings.TrimSuffix(fmt.Sprintf("%s endpoint %s (%s)", x.Action, x.Name, x.ID), " ()")
	if x.index < 0 {
		return target
	}
	at := f.endpoints[x.index].at
	if r, ok := errors.AsType[*refusal](err); ok {
		for path := r.Param; path != ""; {
			if p, ok := f.positions[fmt.Sprintf("%d.%s", x.index, path)]; ok {
				at = p
				break
			}
			path = path[:max(strings.LastIndexAny(path, ".["), 0)]
		}
	}
	return fmt.Sprintf("%s:%d:%d: %s", name, at.line, at.column, target)
}
