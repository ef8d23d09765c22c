package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// view is the answer about an entity.
type view interface{ SetWarnings([]wire.Warning) }

// resource serves one kind of the configuration at /v1/NAMEs and /v1/NAMEs/{NAME}. A nil function means that the kind
// does not support the operation, or uses the default. Handlers in own replace the defaults.
type resource[E any, P config.Entity[E], V view] struct {
	*core
	config  config.Access
	object  string // NAME, in paths and answers
	missing string // message of the 404; empty: "there is no such NAME"

	// fresh returns a new entity with its defaults. merge reads the members of a request into it, or into one that is
	// changed. Its input collects errors and warnings.
	fresh func(r *http.Request, by *config.Key) P
	merge func(in *input, o *object, x P)
	// fixed says that it cannot be changed, kept that it cannot be deleted.
	fixed, kept bool
	// insert writes a new entity; nil: config.Create.
	insert func(ctx context.Context, x P) (P, error)
	// removable returns why an entity cannot be deleted.
	removable func(x P) error
	// rotate gives an entity a new secret, and remembers the call that did so (see rotatedBy), unless it is empty.
	rotate func(x P, call string)
	// keep reads the filters of the list.
	keep func(q *query) func(x P) bool

	views func(ctx context.Context, by *config.Key, all ...P) ([]V, error)
	own   methods // replaces handlers: POST, and "one GET" and "one PATCH" of /{NAME}
}

// routes returns the routes of the resource, more for its actions. Each POST is resumable: ids and new secrets name the
// call that made them, so a repeat changes nothing twice.
func (a *resource[E, P, V]) routes(more ...route) []route {
	all, one := methods{"GET": a.list}, methods{"GET": a.read}
	if a.fresh != nil {
		all["POST"] = a.post
	}
	if a.fresh != nil && !a.fixed {
		one["PATCH"] = a.patch
	}
	if !a.kept {
		one["DELETE"] = a.remove
	}
	if x := a.own["POST"]; x != nil {
		all["POST"] = x
	}
	for _, method := range []string{"GET", "PATCH"} {
		if x := a.own["one "+method]; x != nil {
			one[method] = x
		}
	}
	routes := []route{{path: a.path(), methods: all, resumable: true}, {path: a.pathOfOne(), methods: one}}
	if a.rotate != nil {
		routes = append(routes, a.action("rotate", a.postRotate))
	}
	return append(routes, more...)
}

// path is that of the list, such as /v1/drains, pathOfOne that of an entity: /v1/drains/{drain}.
func (a *resource[E, P, V]) path() string { return "/v1/" + a.object + "s" }

func (a *resource[E, P, V]) pathOfOne() string { return a.path() + "/{" + a.object + "}" }

// action returns the route of a POST about one entity.
func (a *resource[E, P, V]) action(name string, handle handlerFunc) route {
	return route{path: a.pathOfOne() + "/" + name, methods: methods{"POST": handle}, inPath: finds(a.inPath),
		resumable: true}
}

// newMeta returns the id and the owner of what a request creates.
func (c *core) newMeta(r *http.Request, prefix string, by *config.Key) config.Meta {
	return config.Meta{ID: newID(r, prefix), Account: by.Account, CreatedAt: c.now()}
}

// get returns the entity with an id, or the 404 if the account has none.
func (a *resource[E, P, V]) get(ctx context.Context, name, account string) (P, error) {
	if x := find(ctx, a.core, a.stored, name); x != nil {
		if _, owner := x.Owner(); owner == account {
			return x, nil
		}
	}
	return nil, web.Missing("%s", cmp.Or(a.missing, "there is no such "+a.object))
}

// inPath returns the entity that the path names, or the 404.
func (a *resource[E, P, V]) inPath(r *http.Request, key *config.Key) (P, error) {
	return a.get(r.Context(), web.InfoOf(r).Vars[a.object], key.Account)
}

func (a *resource[E, P, V]) answer(w http.ResponseWriter, r *http.Request, key *config.Key, status int, x P,
	warnings []warning) error {
	views, err := a.views(r.Context(), key, x)
	if err != nil {
		return err
	}
	views[0].SetWarnings(warnings)
	web.WriteJSON(w, status, views[0])
	return nil
}

func (a *resource[E, P, V]) list(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := newQuery(r, a.object+"s "+key.Account)
	var keep func(P) bool
	if a.keep != nil {
		keep = a.keep(q)
	}
	p, err := a.configPage(r, q)
	if err != nil {
		return err
	}
	all, more := config.List(a.config, key.Account, p.before, p.limit, keep)
	views, err := a.views(r.Context(), key, all...)
	if err != nil {
		return err
	}
	return writeConfigPage(w, p, all, more, views)
}

func (a *resource[E, P, V]) post(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	x := a.fresh(r, key)
	in, err := a.readNew(r, x)
	if err != nil {
		return err
	}
	created, err := a.once(r.Context(), x)
	if err != nil {
		return err
	}
	return a.answer(w, r, key, http.StatusCreated, created, in.warnings)
}

// readNew reads the members of a new entity.
func (a *resource[E, P, V]) readNew(r *http.Request, x P) (*input, error) {
	body, err := a.body(r)
	if err != nil {
		return nil, err
	}
	in := &input{}
	a.merge(in, in.newObject("", body), x)
	return in, in.err
}

// once creates x, or returns what the first call with the Idempotency-Key has created; see createOnce.
func (a *resource[E, P, V]) once(ctx context.Context, x P) (P, error) {
	insert := a.insert
	if insert == nil {
		insert = func(ctx context.Context, x P) (P, error) { return config.Create(ctx, a.config, x) }
	}
	name, _ := x.Owner()
	return createOnce(ctx, insert, x, a.stored, name)
}

func (a *resource[E, P, V]) stored(id string) (P, config.Presence) {
	x, presence := config.Get[E, P](a.config, id)
	return x, presence
}

func (a *resource[E, P, V]) read(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.catchUp(r.Context())
	x, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	return a.answer(w, r, key, http.StatusOK, x, nil)
}

func (a *resource[E, P, V]) patch(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	return a.change(w, r, key, config.Update[E, P], a.merge)
}

// postRotate gives an entity a new secret. The previous one ends at once. A repeat with the same Idempotency-Key
// rotates nothing.
func (a *resource[E, P, V]) postRotate(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	call := rotatedBy(r)
	return a.change(w, r, key, config.UpdateEverywhere[E, P], func(_ *input, o *object, x P) {
		o.warnUnknown()
		a.rotate(x, call)
	})
}

// change applies the body of a request, once for each attempt of the update: an error in its input changes nothing.
func (a *resource[E, P, V]) change(w http.ResponseWriter, r *http.Request, key *config.Key,
	update func(ctx context.Context, in config.Access, id string, change func(P) error) (P, error),
	merge func(in *input, o *object, x P)) error {
	x, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.body(r)
	if err != nil {
		return err
	}
	name, _ := x.Owner()
	var in *input
	after, err := update(r.Context(), a.config, name, func(x P) error {
		in = &input{}
		merge(in, in.newObject("", body), x)
		return in.err
	})
	if err != nil {
		return err
	}
	return a.answer(w, r, key, http.StatusOK, after, in.warnings)
}

func (a *resource[E, P, V]) remove(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	x, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	if a.removable != nil {
		if err := a.removable(x); err != nil {
			return err
		}
	}
	name, _ := x.Owner()
	if err := config.Delete[E, P](r.Context(), a.config, name); err != nil {
		return err
	}
	writeDeleted(w, name, a.object)
	return nil
}
