// Package apply creates, updates and deletes endpoints to match a YAML file, over the API: configuration as code.
//
// Endpoints are recognised by their tenants and names, destinations by their names or URLs, so that applying a file
// twice changes nothing. A member that the file does not name stays as it is. Nothing is deleted without Options.Prune.
// Each change is conditional: if somebody else has changed the endpoint since it was compared, the service refuses it.
//
// Secrets stand in the file as references, env:NAME or file:PATH, and are never shown. The service does not show
// secrets either, so a difference is seen only in their last four characters. Run therefore sends them with each run,
// and the service, which can compare them, writes nothing if they are the same.
//
// Begin reading at Run. file.go reads the file, plan.go compares, client.go calls the API.
package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
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
	// Endpoints of tenants stay, unless the file names the tenant or the key is the tenant's.
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
	if validating && slices.ContainsFunc(changes, func(x *Change) bool { return x.ofNewTenant }) {
		o.Warn("tenants that are not there yet, and their endpoints, are not validated")
	}
	faults := []error{err}
	for _, change := range changes {
		if validating {
			if _, err := change.send(ctx, c, true); err != nil {
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
	own, err := c.tenant(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := c.list(ctx, "endpoints")
	if err != nil {
		return nil, err
	}
	changes, created, err := planTenants(ctx, c, f)
	if err != nil {
		return nil, err
	}
	tenants := map[string]bool{own: true} // those that the file is about
	seen := map[target]bool{}
	var faults []error
	for i, e := range f.endpoints {
		of := target{cmp.Or(e.text("tenant"), own), e.text("name")}
		found := ids[of]
		delete(ids, of)
		tenants[of.tenant] = true
		if seen[of] { // one names the tenant of the key, the other one does not
			faults = append(faults, fmt.Errorf("%s:%d:%d: a second endpoint has the name %q", o.FileName, e.at.line, e.at.column,
				of.name))
			continue
		}
		seen[of] = true
		if len(found) == 0 {
			changes = append(changes, create(i, e))
			changes[len(changes)-1].warnOfOthers(of, ids)
			changes[len(changes)-1].ofNewTenant = created[of.tenant]
			continue
		}
		have, tag, err := c.endpoint(ctx, found[0])
		if err != nil {
			return nil, err
		}
		change, err := update(i, e, have, tag, o.Prune)
		if len(found) > 1 {
			err = fmt.Errorf("%d endpoints of the service have the name %q: %s; rename or delete all but one", len(found),
				of.name, strings.Join(found, ", "))
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s:%d:%d: %w", o.FileName, e.at.line, e.at.column, err))
			continue
		}
		changes = append(changes, change)
	}
	maps.DeleteFunc(ids, func(of target, _ []string) bool { return !o.Prune || !tenants[of.tenant] })
	for _, of := range slices.SortedFunc(maps.Keys(ids), target.compare) {
		for _, id := range ids[of] {
			_, tag, err := c.endpoint(ctx, id)
			if err != nil {
				return nil, err
			}
			changes = append(changes, &Change{
				Action: Delete, Name: of.name, Tenant: of.tenant, ID: id, Fields: []Field{}, tag: tag, index: -1})
		}
	}
	return changes, errors.Join(faults...)
}

// planTenants returns the tenants of the file that the service does not have. Others stay as they are: the API replaces
// all of a tenant's settings at once.
func planTenants(ctx context.Context, c *client, f *file) (changes []*Change, created map[string]bool, err error) {
	created = map[string]bool{}
	if len(f.tenants) == 0 {
		return nil, created, nil
	}
	all, err := c.list(ctx, "tenants")
	have := map[string]bool{}
	for of := range all {
		have[of.tenant] = true
	}
	for _, members := range f.tenants {
		name := textOf(members, "tenant")
		if have[name] {
			continue
		}
		have[name], created[name] = true, true
		body := maps.Clone(members)
		delete(body, "tenant")
		changes = append(changes, &Change{Action: Create, Tenant: name, Fields: []Field{}, body: body, index: -1})
	}
	return changes, created, err
}

// warnOfOthers names the endpoints of other tenants with the name of a new one: an endpoint never changes its tenant.
func (x *Change) warnOfOthers(of target, ids map[target][]string) {
	for _, other := range slices.SortedFunc(maps.Keys(ids), target.compare) {
		if other.name == of.name {
			x.Warnings = append(x.Warnings, fmt.Sprintf("it is a new endpoint: %s has the name in %s", ids[other][0],
				cmp.Or(other.tenant, "the account")))
		}
	}
}

// make carries a change out.
func (x *Change) make(ctx context.Context, c *client) error {
	a, err := x.send(ctx, c, false)
	if r, ok := errors.AsType[*refusal](err); ok && x.Action == Delete && r.Status == http.StatusNotFound {
		err = nil // by the try before, whose answer was lost, or by somebody else
	}
	if err != nil {
		return err
	}
	x.Done, x.ID = true, cmp.Or(x.ID, a.ID)
	if x.Action == Unchanged && x.hidden && a.tag != x.tag {
		x.Action = Update
		x.Fields = []Field{{"secrets", "(others, which the service does not show)", "(as the file refers to them)"}}
	}
	return nil
}

// send sends the request of a change, or with dryRun the one that validates it, if there is one.
func (x *Change) send(ctx context.Context, c *client, dryRun bool) (answer, error) {
	method, path := http.MethodPatch, "/v1/endpoints/"+x.ID
	switch {
	case x.Action == Unchanged && !x.hidden, (x.Action == Delete || x.isTenant() || x.ofNewTenant) && dryRun:
		return answer{}, nil
	case x.isTenant():
		method, path = http.MethodPut, "/v1/tenants/"+url.PathEscape(x.Tenant)
	case x.Action == Create:
		method, path = http.MethodPost, "/v1/endpoints"
	case x.Action == Delete:
		method = http.MethodDelete
	}
	if dryRun {
		method, path = http.MethodPost, path+"/validate"
	}
	var body any // none of a deletion
	if x.body != nil {
		body = x.body
	}
	a, err := c.do(ctx, method, path, body, x.tag)
	for _, w := range a.Warnings {
		x.Warnings = append(x.Warnings, w.Param+" "+w.Message)
	}
	if r, ok := errors.AsType[*refusal](err); ok && r.Type == "conflict" && r.Param == "if-match" {
		err = errors.New("somebody else has changed this endpoint since it was compared; run the command again to see " +
			"what differs now")
	}
	return a, err
}

// place returns where in the file a refused value stands, and the endpoint.
func (f *file) place(name string, x *Change, err error) string {
	target := strings.TrimSuffix(fmt.Sprintf("%s %s (%s)", x.Action, x.thing(), x.ID), " ()")
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
