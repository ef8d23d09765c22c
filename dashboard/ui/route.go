package ui

import (
	"bytes"
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
	"github.com/eventrelay/relay/pkg/config/argon"
	"github.com/eventrelay/relay/pkg/web"
)

// Access says who may use a route.
type Access int

// Who may use a route.
const (
	Public Access = iota // no session needed
	Reader               // all signed-in users
	Writer               // people with the scope read_write
	// People of a tenant who came by a link to the portal, with the right of that name.
	PortalView
	PortalDestinations
	PortalSecrets
	PortalReplay
	PortalTest
)

// rights are those that routes of the portal need.
var rights = map[Access]config.PortalRight{PortalView: config.PortalView, PortalSecrets: config.PortalSecrets,
	PortalDestinations: config.PortalDestinations, PortalReplay: config.PortalReplay, PortalTest: config.PortalTest}

// Route is one page, or one action of a page. It is an alias of an unnamed struct, because go vet lets other packages
// write those without field names.
type Route = struct {
	Method string // GET or POST
	Path   string // with variables such as {endpoint}
	Access Access
	Handle func(v *Visit) error
}

// methods are the routes of one path by method.
type methods map[string]Route

// Serves reports whether a path belongs to the dashboard, or leads to it: whoever types the bare address means it.
func Serves(path string) bool {
	return path == "/" || path == "/app" || strings.HasPrefix(path, "/app/") || strings.HasPrefix(path, staticPath) ||
		isOfPortal(path)
}

// Visit is one request to the dashboard and what is known of it.
type Visit struct {
	*Dashboard
	W       http.ResponseWriter
	R       *http.Request
	hosts   *hosts            // that may be named in the request
	Person  *config.User      // the signed-in user, or the visitor of the portal; nil = none
	Session session           // of person; see unconfirmed
	Portal  *PortalVisit      // a page of the portal; nil: of the dashboard
	Vars    map[string]string // variables of the path, as they were sent: escaped, to be used in paths of the API
	Values  url.Values        // of the form in a POST
	Status  int               // of the page; 200 if no handler sets another
	// SelfReloading says that the page reloads by itself in a browser without scripts.
	SelfReloading bool
	AsOf          string // Relay-Data-As-Of of the calls; empty: the data is current
	// unconfirmed says that the session waits for its issuer: it belongs to nobody yet.
	unconfirmed bool
	// acting says that the handler of an action has been called: before, nothing can have been done.
	acting bool
	// replayed says that the API has answered a call as it did before: the form was sent twice. Its secrets have been
	// shown.
	Replayed bool
	keyNames map[string]string // of nameOf, by the id of the key
}

type visitKey struct{}

func visitOf(r *http.Request) *Visit {
	v, _ := r.Context().Value(visitKey{}).(*Visit)
	return v
}

// serve checks a request in this order: the host (400), the origin of what is not GET (403), the path (404), the
// session (303 to the sign-in page, 503 if this node cannot confirm it), the scope (403), the form (400). Then it calls
// the handler.
func (d *Dashboard) serve(w http.ResponseWriter, r *http.Request) error {
	v := visitOf(r)
	v.W, v.R = w, r
	v.chooseHosts()
	v.setHeaders()
	if err := v.hosts.check(r); err != nil {
		return err
	}
	if r.URL.Path == "/" && v.Portal != nil {
		v.SendTo(PortalPath)
		return nil
	}
	method := r.Method
	if method == http.MethodHead { // net/http omits the body
		method = http.MethodGet
	}
	if method != http.MethodGet {
		if err := v.hosts.checkOrigin(r); err != nil {
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
	if v.Portal != nil && !isOfPortal(r.URL.Path) { // under the portal's own host name
		found = nil
	}
	x, ok := found[method]
	if ok {
		web.InfoOf(r).Route = x.Path // never the path: that of a one-time link holds its token
		v.Vars = match.Vars
	}
	sessionErr := v.openSession()
	switch {
	case found == nil:
		return web.Missing("There is no such page.")
	case !ok:
		w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(found)), ", "))
		return web.Missing("This page cannot be used with %s.", web.SanitizeLine(r.Method[:min(len(r.Method), 20)]))
	}
	if x.Access != Public {
		if admitted, err := v.admit(x, sessionErr); err != nil || !admitted {
			return err
		}
	}
	v.setOrigin(x.Access) // with GET, too: the answer of an issuer signs somebody in
	if method != http.MethodGet {
		if v.Person != nil && (r.ContentLength < 0 || r.ContentLength > uncountedForm) {
			leave, err := d.forms.enter(v.Person.ID)
			if err != nil {
				return err
			}
			defer leave()
		}
		if err := v.readForm(x.Access); err != nil {
			return err
		}
		v.acting = x.Path != SignInPath
	}
	return v.webError(x.Handle(v))
}

// HasPage reports whether there is a page with a path without variables.
func (d *Dashboard) HasPage(path string) bool { return d.routes[path] != nil }

// match returns the routes of a path by method; nil if there are none.
func (d *Dashboard) match(r *http.Request) (methods, mux.RouteMatch) {
	var m mux.RouteMatch
	if !d.mux.Match(r, &m) {
		return nil, m
	}
	return d.routes[m.Route.GetName()], m
}

// setOrigin names the person as the author of changes for the audit log. Who signs in is named by pkg/config.
func (v *Visit) setOrigin(a Access) {
	info := web.InfoOf(v.R)
	from := config.Origin{RequestID: info.ID, RemoteIP: info.Client}
	if a != Public {
		from.Actor = v.Person.ID
	}
	v.R = v.R.WithContext(config.WithOrigin(v.R.Context(), from))
}

// admit checks the session and the scope. admitted is false if it has sent the person to another page: to sign in, or
// to choose a password.
func (v *Visit) admit(x Route, sessionErr error) (admitted bool, err error) {
	changes := x.Method != http.MethodGet
	if v.Portal != nil {
		return v.admitToPortal(x, sessionErr)
	}
	switch {
	case sessionErr != nil:
		return false, sessionErr
	case v.Person == nil && changes:
		return false, &web.Error{Status: http.StatusUnauthorized, Type: web.AuthenticationRequired,
			Message: "You are signed out. Nothing was done: sign in and send the form again."}
	case v.Person == nil:
		path := SignInPath
		if v.unconfirmed && v.Deps.OIDC != nil && v.IsNavigation() {
			path = IssuerPath
		}
		v.SendTo(path + "?" + url.Values{"next": {v.R.URL.RequestURI()}}.Encode())
		return false, nil
	case !v.isConfirmed(v.Person, confirmAgain) && v.IsNavigation():
		v.SendTo(IssuerPath + "?" + url.Values{"next": {v.R.URL.RequestURI()}}.Encode())
		return false, nil
	case v.Person.ChoosePassword && x.Path != PasswordPath && x.Path != SignOutPath:
		v.SendTo(PasswordPath) // nothing of an action has been done
		return false, nil
	case x.Access == Writer && !v.CanWrite():
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
func (v *Visit) readForm(a Access) error {
	limit := int64(maxForm)
	if a == Public {
		limit = maxPublicForm
	}
	kind, _, err := mime.ParseMediaType(v.R.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return web.Invalid("", "The form was not sent as application/x-www-form-urlencoded.")
	}
	var body bytes.Buffer
	if err := web.ReadBody(v.R, &body, limit); err != nil {
		return err
	}
	if v.Values, err = url.ParseQuery(body.String()); err != nil {
		return web.Invalid("", "The form could not be read. Open the page again and send it once more.")
	}
	return nil
}

// CanWrite reports whether the person may change anything.
func (v *Visit) CanWrite() bool { return v.Person != nil && v.Person.Scope == config.ReadWrite }

// Redirect answers an action: the browser opens path, which shows message once. path is one of ours, with ids in it
// escaped.
func (v *Visit) Redirect(path, message string) error {
	if message != "" {
		if err := v.setToast(v.T(message)); err != nil {
			return err
		}
	}
	v.SendTo(path)
	return nil
}

// SendTo makes the browser open path with GET, live.js by a header: it would follow a redirect and look for its part.
func (v *Visit) SendTo(path string) {
	if v.Part() != "" {
		v.W.Header().Set(redirectHeader, path)
		v.W.WriteHeader(http.StatusOK)
		return
	}
	v.W.Header().Set("Location", path)
	v.W.WriteHeader(http.StatusSeeOther)
}

// toWebError translates errors of pkg/config that reach a page.
func toWebError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, config.ErrLease):
		return web.ServiceUnavailable(nil, "This node cannot confirm sign-ins at the moment: it does not reach the log.")
	case errors.Is(err, argon.ErrBusy):
		return web.ServiceUnavailable(nil, "Too many people sign in at the moment. Try again in some seconds.")
	case errors.Is(err, config.ErrNotFound):
		return web.Missing("It does not exist any more.")
	case errors.Is(err, config.ErrConflict):
		return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict,
			Message: "Somebody else changed it at the same time. Open the page again and repeat the change."}
	case errors.Is(err, config.ErrIssued):
		return web.WrongState("", "The OpenID Connect issuer decides what this person may do and how they sign in.")
	case errors.Is(err, config.ErrTooManyUsers):
		return web.WrongState("", "There are %d people, which is as many as there may be. Remove one first.",
			config.MaxUsers)
	case errors.Is(err, config.ErrStateFull):
		return web.WrongState("", "The configuration is full. Delete endpoints that are not used, or shorten headers and "+
			"metadata.")
	case errors.Is(err, config.ErrUnavailable):
		return web.ServiceUnavailable(err, "The configuration log does not answer at the moment.")
	}
	if e, ok := errors.AsType[*APIError](err); ok {
		return e.webError()
	}
	return err
}

// webError translates the error of a handler. If the thing in the path does not exist, it says so in the words of its
// kind. It asks again: what the API has not found may be another thing, such as one that a form names.
func (v *Visit) webError(err error) error {
	if StatusOf(err) != http.StatusNotFound {
		return toWebError(err)
	}
	if d := v.Vars["destination"]; d != "" {
		if e := EndpointOf(v, v.Vars["endpoint"]); e != nil &&
			!slices.ContainsFunc(e.Destinations, func(x config.Destination) bool { return x.ID == d }) {
			return NoDestination(e.Name)
		}
	}
	for i := range resources {
		k := &resources[i]
		if v.Vars[k.variable] == "" {
			continue
		}
		if again := v.Get(k.api+"/{"+k.variable+"}", nil, nil); StatusOf(again) == http.StatusNotFound {
			return web.Missing("%s", k.missing)
		}
	}
	return toWebError(err)
}

// NoDestination is the 404 for a destination that the endpoint in the path does not have.
func NoDestination(endpoint string) error {
	return web.Missing("The endpoint %s has no such destination. If it was removed, in another tab or by "+
		"somebody else, nothing was changed now.", Plain(Truncate(endpoint, 100)))
}
