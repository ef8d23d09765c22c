package frame

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/web"
)

// view is the answer about an entity.
type view interface{ SetWarnings([]wire.Warning) }

// Resource serves one kind of the configuration at /v1/NAMEs and /v1/NAMEs/{NAME}. A nil function means that the kind
// does not support the operation, or uses the default. Handlers in own replace the defaults.
type Resource[E any, P entity.Entity[E], V view] struct {
	*Core
	Object  string // NAME, in paths and answers
	Missing string // message of the 404; empty: "there is no such NAME"

	// Fresh returns a new entity with its defaults. merge reads the members of a request into it, or into one that is
	// changed. Its input collects errors and warnings.
	Fresh func(r *http.Request, by *config.Key) P
	Merge func(in *Input, o *Object, x P)
	// Fixed says that it cannot be changed, kept that it cannot be deleted.
	Fixed, Kept bool
	// Insert writes a new entity; nil: config.Create.
	Insert func(ctx context.Context, x P) (P, error)
	// Removable returns why an entity cannot be deleted.
	Removable func(x P) error
	// Rotate gives an entity a new secret, and remembers the call that did so (see RotatedBy), unless it is empty.
	Rotate func(x P, call string)
	// Keep reads the filters of the list.
	Keep func(q *Query) func(x P) bool

	Views func(ctx context.Context, by *config.Key, all ...P) ([]V, error)
	Own   Methods // replaces handlers: POST, and "one GET" and "one PATCH" of /{NAME}
}

// Routes returns the routes of the resource, more for its actions. Each POST is resumable: ids and new secrets name the
// call that made them, so a repeat changes nothing twice.
func (a *Resource[E, P, V]) Routes(more ...Route) []Route {
	all, one := Methods{"GET": a.List}, Methods{"GET": a.read}
	if a.Fresh != nil {
		all["POST"] = a.post
	}
	if a.Fresh != nil && !a.Fixed {
		one["PATCH"] = a.patch
	}
	if !a.Kept {
		one["DELETE"] = a.remove
	}
	if x := a.Own["POST"]; x != nil {
		all["POST"] = x
	}
	for _, method := range []string{"GET", "PATCH"} {
		if x := a.Own["one "+method]; x != nil {
			one[method] = x
		}
	}
	routes := []Route{{Path: a.path(), Methods: all, Resumable: true}, {Path: a.pathOfOne(), Methods: one}}
	if a.Rotate != nil {
		routes = append(routes, a.Action("rotate", a.postRotate))
	}
	return append(routes, more...)
}

// path is that of the list, such as /v1/drains, pathOfOne that of an entity: /v1/drains/{drain}.
func (a *Resource[E, P, V]) path() string { return "/v1/" + a.Object + "s" }

func (a *Resource[E, P, V]) pathOfOne() string { return a.path() + "/{" + a.Object + "}" }

// Action returns the route of a POST about one entity.
func (a *Resource[E, P, V]) Action(name string, handle HandlerFunc) Route {
	return Route{Path: a.pathOfOne() + "/" + name, Methods: Methods{"POST": handle}, InPath: Finds(a.InPath),
		Resumable: true}
}

// NewMeta returns the id and the owner of what a request creates.
func (c *Core) NewMeta(r *http.Request, prefix string, by *config.Key) entity.Meta {
	return entity.Meta{ID: NewID(r, prefix), Account: by.Account, CreatedAt: c.Now()}
}

// Get returns the entity with an id, or the 404 if the account has none.
func (a *Resource[E, P, V]) Get(ctx context.Context, name, account string) (P, error) {
	x, err := Find(ctx, a.Core, a.stored, name)
	if err != nil {
		return nil, err
	}
	if x != nil {
		if _, owner := x.Owner(); owner == account {
			return x, nil
		}
	}
	return nil, web.Missing("%s", cmp.Or(a.Missing, "there is no such "+a.Object))
}

// InPath returns the entity that the path names, or the 404.
func (a *Resource[E, P, V]) InPath(r *http.Request, key *config.Key) (P, error) {
	return a.Get(r.Context(), web.InfoOf(r).Vars[a.Object], key.Account)
}

// Answer writes an entity.
func (a *Resource[E, P, V]) Answer(w http.ResponseWriter, r *http.Request, key *config.Key, status int, x P,
	warnings []Warning) error {
	views, err := a.Views(r.Context(), key, x)
	if err != nil {
		return err
	}
	views[0].SetWarnings(warnings)
	return web.Answer(w, status, views[0])
}

// List answers with a page of entities, newest first.
func (a *Resource[E, P, V]) List(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := NewQuery(r, a.Object+"s "+key.Account)
	var keep func(P) bool
	if a.Keep != nil {
		keep = a.Keep(q)
	}
	p, err := a.ConfigPage(r, q)
	if err != nil {
		return err
	}
	all, more := entity.List(a.Config, key.Account, p.Before, p.Limit, keep)
	views, err := a.Views(r.Context(), key, all...)
	if err != nil {
		return err
	}
	return WriteConfigPage(w, p, all, more, views)
}

func (a *Resource[E, P, V]) post(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	x := a.Fresh(r, key)
	in, err := a.ReadNew(r, x)
	if err != nil {
		return err
	}
	created, err := a.Once(r.Context(), x)
	if err != nil {
		return err
	}
	return a.Answer(w, r, key, http.StatusCreated, created, in.Warnings)
}

// ReadNew reads the members of a new entity.
func (a *Resource[E, P, V]) ReadNew(r *http.Request, x P) (*Input, error) {
	body, err := a.Body(r)
	if err != nil {
		return nil, err
	}
	in := &Input{}
	a.Merge(in, in.NewObject("", body), x)
	return in, in.Err
}

// Once creates x, or returns what the first call with the Idempotency-Key has created; see CreateOnce.
func (a *Resource[E, P, V]) Once(ctx context.Context, x P) (P, error) {
	insert := a.Insert
	if insert == nil {
		insert = func(ctx context.Context, x P) (P, error) { return entity.Create(ctx, a.Config, x) }
	}
	name, _ := x.Owner()
	return CreateOnce(ctx, insert, x, a.stored, name)
}

func (a *Resource[E, P, V]) stored(id string) (P, entity.Presence) {
	x, presence := entity.Get[E, P](a.Config, id)
	return x, presence
}

func (a *Resource[E, P, V]) read(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.CatchUp(r.Context())
	x, err := a.InPath(r, key)
	if err != nil {
		return err
	}
	return a.Answer(w, r, key, http.StatusOK, x, nil)
}

func (a *Resource[E, P, V]) patch(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	return a.change(w, r, key, entity.Update[E, P], a.Merge)
}

// postRotate gives an entity a new secret. The previous one ends at once. A repeat with the same Idempotency-Key
// rotates nothing.
func (a *Resource[E, P, V]) postRotate(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	call := RotatedBy(r)
	return a.change(w, r, key, entity.UpdateEverywhere[E, P], func(_ *Input, o *Object, x P) {
		o.WarnUnknown()
		a.Rotate(x, call)
	})
}

// change applies the body of a request, once for each attempt of the update: an error in its input changes nothing.
func (a *Resource[E, P, V]) change(w http.ResponseWriter, r *http.Request, key *config.Key,
	update func(ctx context.Context, in entity.Access, id string, change func(P) error) (P, error),
	merge func(in *Input, o *Object, x P)) error {
	x, err := a.InPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	name, _ := x.Owner()
	var in *Input
	after, err := update(r.Context(), a.Config, name, func(x P) error {
		in = &Input{}
		merge(in, in.NewObject("", body), x)
		return in.Err
	})
	if err != nil {
		return err
	}
	return a.Answer(w, r, key, http.StatusOK, after, in.Warnings)
}

func (a *Resource[E, P, V]) remove(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	x, err := a.InPath(r, key)
	if err != nil {
		return err
	}
	if a.Removable != nil {
		if err := a.Removable(x); err != nil {
			return err
		}
	}
	name, _ := x.Owner()
	if err := entity.Delete[E, P](r.Context(), a.Config, name); err != nil {
		return err
	}
	return WriteDeleted(w, name, a.Object)
}

// IfMatch is the header of a change that is made only if the endpoint is the one that the client has read. A change of
// a destination is one of its endpoint.
const IfMatch = "If-Match"

// ErrRevision is the answer when it is another one. Statuses of the API have no 412, so it is a plain conflict.
var ErrRevision = &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: strings.ToLower(IfMatch),
	Message: "is not the ETag of the endpoint, which has been changed since it was read; read it and try again"}

// RevisionTag returns the ETag of an endpoint. It stands for the stored configuration: the state of a circuit breaker,
// which an answer also shows, does not change it.
func RevisionTag(e *config.Endpoint) string { return `"` + strconv.FormatInt(e.Rev, 10) + `"` }

// CheckRevision implements If-Match of RFC 9110, 13.1.1.
func CheckRevision(r *http.Request, e *config.Endpoint) error {
	given := r.Header.Values(IfMatch)
	if len(given) == 0 {
		return nil
	}
	for tag := range strings.SplitSeq(strings.Join(given, ","), ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || tag == RevisionTag(e) {
			return nil
		}
	}
	return ErrRevision
}
