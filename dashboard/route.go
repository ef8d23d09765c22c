package dashboard

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// access says who may use a route.
type access int

const (
	public access = iota // everybody: no session is needed
	reader               // everybody who is signed in
	writer               // people with the scope read_write
)

// route is one page, or one action of a page.
type route struct {
	method string // GET or POST
	path   string // with variables such as {endpoint}
	access access
	handle func(v *visit) error
}

// methods are the routes of one path by method.
type methods map[string]route

// Serves reports whether a path belongs to the dashboard, or leads to it: whoever types the bare address means it.
func Serves(path string) bool {
	return path == "/" || path == "/app" || strings.HasPrefix(path, "/app/") || strings.HasPrefix(path, staticPath)
}

// visit is one request to the dashboard and what is known of it.
type visit struct {
	*Dashboard
	w       http.ResponseWriter
	r       *http.Request
	person  *config.User      // who is signed in; nil = nobody
	session session           // of person
	vars    map[string]string // variables of the path, as they were sent: escaped, to be used in paths of the API
	values  url.Values        // of the form in a POST
	status  int               // of the page; 200 if no handler sets another
	// selfReloading says that the page reloads by itself in a browser without scripts.
	selfReloading bool
	asOf          string // Relay-Data-As-Of of the calls; empty: the data is current
	// acting says that the handler of an action has been called: before, nothing can have been done.
	acting bool
	// replayed says that the API has answered a call as it did before: the form was sent twice. Its secrets have been
	// shown.
	replayed bool
	keyNames map[string]string // of nameOf, by the id of the key
}

type visitKey struct{}

func withVisit(ctx context.Context, v *visit) context.Context {
	return context.WithValue(ctx, visitKey{}, v)
}

func visitOf(r *http.Request) *visit {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	return v
}

// serve checks a request in this order: the host (400), the origin of what is not GET (403), the path (404), the
// session (303 to the sign-in page, 503 if this node cannot confirm it), the scope (403), the form (400). Then it calls
// the handler.
func (d *Dashboard) serve(w http.ResponseWriter, r *http.Request) error {
	v := visitOf(r)
	v.w, v.r = w, r
	v.setHeaders()
	if err := d.hosts.check(r); err != nil {
		return err
	}
	method := r.Method
	if method == http.MethodHead { // net/http omits the body
		method = http.MethodGet
	}
	if method != http.MethodGet {
		if err := d.hosts.checkOrigin(r); err != nil {
			return err
		}
	}
	if strings.HasPrefix(r.URL.Path, staticPath) {
		web.InfoOf(r).Route = staticPath + "{hash}/{file}"
		return d.assets.serve(w, r, method)
	}
	if err := web.CheckHeader(r); err != nil {
		return web.Invalid("", "%v", err)
	}
	found, match := d.match(r)
	x, ok := found[method]
	if ok {
		web.InfoOf(r).Route = x.path // never the path: that of a one-time link holds its token
		v.vars = match.Vars
	}
	sessionErr := v.openSession()
	switch {
	case found == nil:
		return web.Missing("There is no such page.")
	case !ok:
		w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(found)), ", "))
		return web.Missing("This page cannot be used with %s.", cleanMethod(r.Method))
	}
	if x.access != public {
		if admitted, err := v.admit(x, sessionErr); err != nil || !admitted {
			return err
		}
	}
	if method != http.MethodGet {
		if x.access != public && (r.ContentLength < 0 || r.ContentLength > uncountedForm) {
			leave, err := d.forms.enter(v.person.ID)
			if err != nil {
				return err
			}
			defer leave()
		}
		if err := v.readForm(x.access); err != nil {
			return err
		}
		v.setOrigin(x.access)
		v.acting = x.path != signInPath
	}
	return v.webError(x.handle(v))
}

func (d *Dashboard) addRoute(x route) {
	if d.routes[x.path] == nil {
		d.routes[x.path] = methods{}
		d.mux.Path(x.path).Name(x.path)
	}
	d.routes[x.path][x.method] = x
}

// match returns the routes of a path by method; nil if there are none.
func (d *Dashboard) match(r *http.Request) (methods, mux.RouteMatch) {
	var m mux.RouteMatch
	if !d.mux.Match(r, &m) {
		return nil, m
	}
	return d.routes[m.Route.GetName()], m
}

// cleanMethod returns a method for a message.
func cleanMethod(method string) string { return web.SanitizeLine(method[:min(len(method), 20)]) }

// setOrigin names the person as the author of changes for the audit log. Who signs in is named by pkg/config.
func (v *visit) setOrigin(a access) {
	info := web.InfoOf(v.r)
	from := config.Origin{RequestID: info.ID, RemoteIP: info.Client}
	if a != public {
		from.Actor = v.person.ID
	}
	v.r = v.r.WithContext(config.WithOrigin(v.r.Context(), from))
}

// admit checks the session and the scope. admitted is false if it has sent the person to another page: to sign in, or
// to choose a password.
func (v *visit) admit(x route, sessionErr error) (admitted bool, err error) {
	changes := x.method != http.MethodGet
	switch {
	case sessionErr != nil:
		return false, sessionErr
	case v.person == nil && changes:
		return false, &web.Error{Status: http.StatusUnauthorized, Type: web.AuthenticationRequired,
			Message: "You are signed out. Nothing was done: sign in and send the form again."}
	case v.person == nil:
		v.sendTo(signInPath + "?" + url.Values{"next": {v.r.URL.RequestURI()}}.Encode())
		return false, nil
	case v.person.ChoosePassword && x.path != passwordPath && x.path != signOutPath:
		v.sendTo(passwordPath) // nothing of an action has been done
		return false, nil
	case x.access == writer && !v.canWrite():
		return false, &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope,
			Message: "You may only read. Ask a person with the scope read_write to do this or to change your scope."}
	}
	return true, nil
}

// Largest form in bytes: of people who are signed in, and of others.
const (
	maxForm       = 1 << 20
	maxPublicForm = 16 << 10
)

// maxForms bounds the forms of a person in memory: one may take a while to arrive, and a connection of HTTP/2 has many.
// Forms up to uncountedForm bytes are not counted, so that a stolen session cannot keep its owner from ending it.
const maxForms, uncountedForm = 16, 4 << 10

// openForms counts the larger forms of people that have not been answered.
type openForms struct {
	mu sync.Mutex
	of map[string]int // by person
}

// enter counts a form of a person, or returns the 429. Call leave once.
func (o *openForms) enter(person string) (leave func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[person] >= maxForms {
		return nil, &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
			Message: "Too many of your forms have not been answered yet. Nothing was done."}
	}
	o.of[person]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.of[person]--; o.of[person] == 0 {
			delete(o.of, person)
		}
	}, nil
}

// readForm reads the body of a POST into v.values.
func (v *visit) readForm(a access) error {
	limit := int64(maxForm)
	if a == public {
		limit = maxPublicForm
	}
	kind, _, err := mime.ParseMediaType(v.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return web.Invalid("", "The form was not sent as application/x-www-form-urlencoded.")
	}
	var body bytes.Buffer
	if err := web.ReadBody(v.r, &body, limit); err != nil {
		return err
	}
	if v.values, err = url.ParseQuery(body.String()); err != nil {
		return web.Invalid("", "The form could not be read. Open the page again and send it once more.")
	}
	return nil
}

// canWrite reports whether the person may change anything.
func (v *visit) canWrite() bool { return v.person != nil && v.person.Scope == config.ReadWrite }

// redirect answers an action: the browser opens path, which shows message once. path is one of ours, with ids in it
// escaped.
func (v *visit) redirect(path, message string) error {
	if message != "" {
		if err := v.setToast(message); err != nil {
			return err
		}
	}
	v.sendTo(path)
	return nil
}

// sendTo makes the browser open path with GET, htmx by a header: it would follow a redirect and show its page as a
// part.
func (v *visit) sendTo(path string) {
	if v.isFragment() {
		v.w.Header().Set("HX-Redirect", path)
		v.w.WriteHeader(http.StatusOK)
		return
	}
	v.w.Header().Set("Location", path)
	v.w.WriteHeader(http.StatusSeeOther)
}

// toWebError translates errors of pkg/config that reach a page.
func toWebError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, config.ErrLease):
		return web.ServiceUnavailable(nil, "This node cannot confirm sign-ins at the moment: it does not reach the log.")
	case errors.Is(err, config.ErrSignInBusy):
		return web.ServiceUnavailable(nil, "Too many people sign in at the moment. Try again in some seconds.")
	case errors.Is(err, config.ErrNotFound):
		return web.Missing("It does not exist any more.")
	case errors.Is(err, config.ErrConflict):
		return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict,
			Message: "Somebody else changed it at the same time. Open the page again and repeat the change."}
	case errors.Is(err, config.ErrTooManyUsers):
		return web.WrongState("", "There are %d people, which is as many as there may be. Remove one first.",
			config.MaxUsers)
	case errors.Is(err, config.ErrStateFull):
		return web.WrongState("", "The configuration is full. Delete endpoints that are not used, or shorten headers and "+
			"metadata.")
	case errors.Is(err, config.ErrUnavailable):
		return web.ServiceUnavailable(err, "The configuration log does not answer at the moment.")
	}
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.webError()
	}
	return err
}

// webError translates the error of a handler. If the thing in the path does not exist, it says so in the words of its
// kind. It asks again: what the API has not found may be another thing, such as one that a form names.
func (v *visit) webError(err error) error {
	if statusOf(err) != http.StatusNotFound {
		return toWebError(err)
	}
	if v.vars["destination"] != "" {
		_, again := readDestination(v)
		if missing, ok := errors.AsType[*web.Error](again); ok {
			return missing
		}
	}
	for i := range kinds {
		k := &kinds[i]
		if v.vars[k.variable] == "" {
			continue
		}
		if again := v.get(k.api+"/{"+k.variable+"}", nil, nil); statusOf(again) == http.StatusNotFound {
			return web.Missing("%s", k.missing)
		}
	}
	return toWebError(err)
}
