package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// entity is what a resource shows: a pointer to a kind of the configuration.
type entity[E any] interface {
	*E
	Owner() (id, account string)
	CreationSeq() int64
}

// view is the answer about an entity.
type view interface{ SetWarnings([]wire.Warning) }

// resource serves a kind of the configuration: /v1/NAMEs and /v1/NAMEs/{NAME}. What a kind cannot do is nil.
type resource[E any, P entity[E], V view] struct {
	*core
	object string // its name in paths and answers
	noun   string // its name in messages; empty: object

	stored store[E]
	// create returns a new entity with its defaults, merge reads a request into an entity: the input collects errors and
	// warnings. by is the key that asks.
	create func(r *http.Request, by *config.Key) P
	merge  func(in *input, body []byte, x P)
	// rotate gives an entity a new secret, and remembers that by has done so, unless it is empty.
	rotate func(x P, by string)
	views  func(ctx context.Context, by *config.Key, all ...P) ([]V, error)
}

// store is where the entities of a resource are; see package config.
type store[E any] struct {
	create func(context.Context, *E) (*E, error)
	read   func(id string) (*E, config.Presence)
	list   func(account string, beforeSeq int64, limit int) ([]*E, bool)
	update func(ctx context.Context, id string, change func(*E) error) (*E, error)
	delete func(ctx context.Context, id string) error
}

// routes returns the routes of the resource. A repeated POST changes nothing twice: ids and new secrets name the call.
func (a *resource[E, P, V]) routes() []route {
	one := "/v1/" + a.object + "s/{" + a.object + "}"
	all := []route{
		{path: "/v1/" + a.object + "s", methods: methods{"GET": a.list, "POST": a.post}, resumable: true},
		{path: one, methods: methods{"GET": a.read, "PATCH": a.patch, "DELETE": a.remove}},
	}
	if a.rotate != nil {
		all = append(all, route{path: one + "/rotate", methods: methods{"POST": a.postRotate}, inPath: finds(a.inPath),
			resumable: true})
	}
	return all
}

// newMeta returns the id and the owner of what a request creates.
func (c *core) newMeta(r *http.Request, prefix string, by *config.Key) config.Meta {
	return config.Meta{ID: newID(r, prefix), Account: by.Account, CreatedAt: c.now()}
}

// inPath returns the entity that the path names, or the 404.
func (a *resource[E, P, V]) inPath(r *http.Request, key *config.Key) (P, error) {
	x := P(find(r.Context(), a.core, a.stored.read, web.InfoOf(r).Vars[a.object]))
	if x != nil {
		if _, account := x.Owner(); account == key.Account {
			return x, nil
		}
	}
	return nil, web.Missing("there is no such %s", cmp.Or(a.noun, a.object))
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
	p, err := a.configPage(r, newQuery(r, a.object+"s "+key.Account))
	if err != nil {
		return err
	}
	found, more := a.stored.list(key.Account, p.before, p.limit)
	all := viewsOf(found, func(x *E) P { return x })
	views, err := a.views(r.Context(), key, all...)
	if err != nil {
		return err
	}
	return writeConfigPage(w, p, all, more, views)
}

func (a *resource[E, P, V]) post(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	body, err := a.body(r)
	if err != nil {
		return err
	}
	x, in := a.create(r, key), &input{}
	if a.merge(in, body, x); in.err != nil {
		return in.err
	}
	name, _ := x.Owner()
	created, err := createOnce(r.Context(), a.stored.create, x, a.stored.read, name)
	if err != nil {
		return err
	}
	return a.answer(w, r, key, http.StatusCreated, created, in.warnings)
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
	return a.change(w, r, key, a.merge)
}

// postRotate gives an entity a new secret. The previous one ends at once. A repeat with the same Idempotency-Key
// rotates nothing.
func (a *resource[E, P, V]) postRotate(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	by := rotatedBy(r)
	return a.change(w, r, key, func(in *input, body []byte, x P) {
		in.newObject("", body).warnUnknown()
		a.rotate(x, by)
	})
}

func (a *resource[E, P, V]) change(w http.ResponseWriter, r *http.Request, key *config.Key,
	merge func(in *input, body []byte, x P)) error {
	x, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	name, _ := x.Owner()
	after, in, err := updateWithBody(a.core, r, a.stored.update, name, func(in *input, body []byte, x *E) {
		merge(in, body, x)
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
	name, _ := x.Owner()
	if err := a.stored.delete(r.Context(), name); err != nil {
		return err
	}
	writeDeleted(w, name, a.object)
	return nil
}

func writeDeleted(w http.ResponseWriter, name, object string) {
	web.WriteJSON(w, http.StatusOK, wire.Deleted{ID: name, Object: object, Deleted: true})
}
