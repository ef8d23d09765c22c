package frame

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

// HandlerFunc answers an authenticated request.
type HandlerFunc func(w http.ResponseWriter, r *http.Request, key *config.Key) error

// Methods maps the methods of one path to their handlers.
type Methods map[string]HandlerFunc

// SendPath is the busiest path; see Router.Match.
const SendPath = "/v1/endpoints/{endpoint}/events"

// Route is one path with its handlers and what the router must know of them. It is one route of mux, so that a wrong
// method can be told from an unknown path. The answer of its POST is remembered under the Idempotency-Key, unless it
// sends or computes.
type Route struct {
	Path string
	Methods
	// Endless: the response of its GET never ends, and masks each of its events itself.
	Endless bool
	// Sends: its POST sends events. It has a rate limit of its own, in which a batch counts as one request, remembers its
	// Idempotency-Key in Redis, and changes no configuration.
	Sends bool
	// Computes: its POST changes nothing. It counts as a read against the rate limit and remembers no Idempotency-Key.
	Computes bool
	// Readable: read access is enough for its POST, which must compute.
	Readable bool
	// Resumable: a repeat may continue the POST of a node that has died, because this cannot do the work twice. Otherwise
	// the effect of the first call is unknown, and the repeat gets a 400 conflict.
	Resumable bool
	// Leases: its GET changes something, so that it needs write access.
	Leases bool
	// BodySelects: the body of its POST says what is sent or ended. A parameter in the URL is refused: if it were ignored,
	// more would be sent or ended than the client meant.
	BodySelects bool
	// KeyOptional: its POST is processed without remembering the key when there is no room for it.
	KeyOptional bool
	// InPath looks up the id in the path of its POST before an Idempotency-Key is claimed, because a 404 comes before
	// errors of the body; nil: there is no id in the path, or no key is remembered. The handler looks it up once more. Of
	// an event only the id is checked: the store is read by the handler.
	InPath PathCheck
	// Recheck returns an error if a remembered answer must not be sent any more; nil: it always may.
	Recheck func(ctx context.Context, key *config.Key, answer []byte) error
}

// needsWriteAccess reports whether a method is for keys and people that may change something.
func (x *Route) needsWriteAccess(method string) bool {
	return (method != http.MethodGet || x.Leases) && !(method == http.MethodPost && x.Readable)
}

// PathCheck returns the 404 of a request whose path names what does not exist.
type PathCheck func(r *http.Request, key *config.Key) error

// Finds makes a check of a function that looks up what a path names.
func Finds[T any](lookUp func(*http.Request, *config.Key) (T, error)) PathCheck {
	return func(r *http.Request, key *config.Key) error {
		_, err := lookUp(r, key)
		return err
	}
}

// RouterConfig says who may use the routes, and what is not theirs.
type RouterConfig struct {
	Uses     KeyUses
	Refusals Refusals // may be nil
	Tenants  TenantOperations
	// PortalOperations are what a token of the portal may call.
	PortalOperations map[string]PortalOperation
	Rates            [classes]int // read, write and send: requests a second of one key, on all nodes; 0 = no limit
	Hosts            web.Hosts
	// Public answers every path outside of /v1, announce sets the headers of a deprecated call.
	Public   func(w http.ResponseWriter, r *http.Request) error
	Announce func(h http.Header, r *http.Request, method, path string)
}

// Router finds the handler of a request and checks who may use it. mux only matches paths, because handlers here
// return errors.
type Router struct {
	*Core
	RouterConfig
	Bodies *bodyBudget
	mux    *mux.Router
	Routes map[string]Route // by path, which is also the name of the mux route

	beforeEndpoint, afterEndpoint string // the parts of SendPath around its variable
}

// NewRouter builds the routes. Paths are matched as they were sent: an escaped slash does not separate segments, and
// no path is cleaned by a redirect.
func NewRouter(cfg RouterConfig, routes []Route, repeats *IdempotentCalls) *Router {
	rt := &Router{
		Core: repeats.Core, RouterConfig: cfg, Bodies: newBodyBudget(), Routes: map[string]Route{},
		mux: mux.NewRouter().SkipClean(true).UseEncodedPath(),
	}
	for _, x := range routes {
		if post := x.Methods["POST"]; post != nil && !x.Sends && !x.Computes {
			x.Methods["POST"] = repeats.WithIdempotency(&x, post)
		}
		if x.BodySelects { // before a key is claimed, so that the request without the parameter may have the same key
			x.Methods["POST"] = refuseParameters(x.InPath, x.Methods["POST"])
		}
		rt.mux.Path(x.Path).Name(x.Path)
		rt.Routes[x.Path] = x
	}
	rt.beforeEndpoint, rt.afterEndpoint, _ = strings.Cut(SendPath, "{endpoint}")
	return rt
}

// refuseParameters answers a request with parameters in its URL 400, or with the 404 of inPath, which may be nil.
func refuseParameters(inPath PathCheck, next HandlerFunc) HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, key *config.Key) error {
		if r.URL.RawQuery == "" {
			return next(w, r, key)
		}
		if inPath != nil {
			if err := inPath(r, key); err != nil {
				return err
			}
		}
		name := ""
		if names := slices.Sorted(maps.Keys(r.URL.Query())); len(names) > 0 {
			name = names[0]
		}
		return web.Invalid(name, "this request takes no parameters in its URL; send what it selects in the body")
	}
}

// Match returns the route of a request and the values in its path. The route has an empty path if none matches.
func (rt *Router) Match(r *http.Request) (Route, map[string]string) {
	// The busiest route is matched without mux, which compares with regular expressions.
	rest, begins := strings.CutPrefix(r.URL.Path, rt.beforeEndpoint)
	endpoint, ends := strings.CutSuffix(rest, rt.afterEndpoint)
	if begins && ends && endpoint != "" && !strings.Contains(endpoint, "/") && r.URL.RawPath == "" {
		return rt.Routes[SendPath], map[string]string{"endpoint": endpoint}
	}
	var match mux.RouteMatch
	if !rt.mux.Match(r, &match) {
		return Route{}, nil
	}
	for name, value := range match.Vars { // a client may escape any character of an id, "_" for example
		if plain, err := url.PathUnescape(value); err == nil {
			match.Vars[name] = plain
		}
	}
	return rt.Routes[match.Route.GetName()], match.Vars
}

// Serve answers a request from the network: public pages, 401 for an invalid key, and everything else as ServeFor does.
func (rt *Router) Serve(w http.ResponseWriter, r *http.Request) error {
	if path := r.URL.Path; path != "/v1" && !strings.HasPrefix(path, "/v1/") {
		return rt.Public(w, r)
	}
	if answered, err := rt.answerPages(w, r); answered {
		return err
	}
	if text, ok := web.Bearer(r); ok && hasPortalToken(r) {
		s, err := rt.Config.PortalToken(text)
		if !errors.Is(err, config.ErrSessionEnded) { // an API key may begin as a token does
			if err != nil {
				return ToWebError(err)
			}
			return rt.servePortal(w, r, text, s)
		}
	}
	key, err := rt.authenticate(r)
	if err != nil {
		return err
	}
	rt.Uses.RecordUse(key.Account, key.ID, key.Name, web.InfoOf(r).Client)
	if isFromScript(r) {
		rt.Config.MarkUsedFromBrowser(key)
	}
	return rt.ServeFor(w, r, key)
}

// ServeFor calls the handler of a request from key, an API key or a person (see API.Call), after these checks: 429 for
// its rate, 404 for an unknown route or method, 403 for its scope, 400 for headers and host. The handler checks the ids
// in the path (404) before the body (400).
func (rt *Router) ServeFor(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	info := web.InfoOf(r)
	found, vars := rt.Match(r)
	method := r.Method
	if method == http.MethodHead { // net/http omits the body
		method = http.MethodGet
	}
	if err := rt.limitRate(w.Header(), key, found.rateClass(method)); err != nil {
		return err
	}
	handle, ok := found.Methods[method]
	switch {
	case found.Path == "":
		return web.Missing("there is no such route")
	case !ok:
		w.Header().Set("Allow", found.allowHeader())
		return web.Missing("%s is not allowed here; use %s", r.Method, found.allowHeader())
	}
	info.Route, info.Vars = found.Path, vars // only now: a method that the client invented must not become a metric label
	rt.Announce(w.Header(), r, method, found.Path)
	if err := rt.Tenants.check(key, method, found.Path); err != nil {
		return err
	}
	if err := rt.checkPortal(r, method+" "+found.Path); err != nil {
		return err
	}
	if found.needsWriteAccess(method) {
		if err := AuthorizeChange(key); err != nil {
			return err
		}
	}
	if err := web.CheckHeader(r); err != nil {
		return web.Invalid("", "%v", err)
	}
	if !rt.Hosts.Knows(r.Host) {
		return web.Invalid("host", "unknown host name; use the base URL, or ask the operator to add the name to "+
			"RELAY_ALLOWED_HOSTS")
	}
	if method != http.MethodGet && (r.ContentLength < 0 || r.ContentLength > uncountedBody) {
		var release func()
		info.KeepBody, release = rt.Bodies.track(key.ID)
		defer release()
	}
	if err := rt.checkMembers(r, method+" "+found.Path); err != nil {
		return err
	}
	if method != http.MethodGet && !found.Sends {
		related := config.OriginOf(r.Context()).Related // of a call inside the process; see package confirm
		r = r.WithContext(config.WithOrigin(r.Context(), config.Origin{Actor: key.ID, RequestID: info.ID,
			RemoteIP: info.Client, Related: related}))
	}
	if found.Path != SendPath { // single sends do not read the store
		r = r.WithContext(event.WithCaller(r.Context(), key.ID, key.Tenant))
	}
	by := ViewerOf(key)
	if by.Capabilities || found.Endless {
		return ToWebError(handle(w, r, key))
	}
	by.isToken = rt.isToken
	masker := &tokenMasker{ResponseWriter: w, by: by}
	if err := ToWebError(handle(masker, r, key)); err != nil {
		return err
	}
	masker.finish()
	return nil
}

// isFromScript reports whether a script of a web page has sent a request: then everybody who opens the page has the
// key. Node.js sends Sec-Fetch-Mode too, browsers never without Sec-Fetch-Site.
func isFromScript(r *http.Request) bool {
	return r.Header.Get("Origin") != "" ||
		r.Header.Get("Sec-Fetch-Mode") == "cors" && r.Header.Get("Sec-Fetch-Site") != ""
}

// isPerson reports whether a key stands for a signed-in person; see API.Call.
func isPerson(key *config.Key) bool {
	return strings.HasPrefix(key.ID, id.User) || strings.HasPrefix(key.ID, id.PortalSession)
}

func (m Methods) allowHeader() string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// authenticate returns the API key of a request, or the 401.
func (rt *Router) authenticate(r *http.Request) (*config.Key, error) {
	if values := r.Header["Authorization"]; len(values) == 0 || values[0] == "" {
		return nil, &web.Error{Status: http.StatusUnauthorized, Type: web.AuthenticationRequired,
			Message: "send an API key: Authorization: Bearer <API_KEY>"}
	}
	if text, ok := web.Bearer(r); ok {
		key, err := rt.Config.Authenticate(text)
		if !errors.Is(err, config.ErrInvalidKey) {
			return key, ToWebError(err)
		}
		if rt.Refusals != nil {
			rt.Refusals.CheckKey(text, r)
		}
	}
	return nil, errInvalidKey()
}

func errInvalidKey() error {
	return &web.Error{
		Status: http.StatusUnauthorized, Type: web.InvalidAPIKey, Message: "the API key is unknown, expired or revoked",
	}
}

// AuthorizeChange returns the 403 of a key or person that may only read. Its caller knows the route alone: no id has
// been looked up.
func AuthorizeChange(key *config.Key) error {
	switch {
	case key.Agent:
		return &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope,
			Message: "an agent key cannot make changes through the API; a person approves them in the dashboard"}
	case key.Scope != config.ReadWrite && isPerson(key):
		return &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope,
			Message: "you may only read; ask a person with the scope read_write to make this change or to change your scope"}
	case key.Scope != config.ReadWrite:
		return &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope,
			Message: "the key may only read; use a key with the scope read_write"}
	}
	return nil
}

// ToWebError translates errors of other packages into API errors. It is the only place that does.
func ToWebError(err error) error {
	if err == nil {
		return nil
	}
	if _, decided := errors.AsType[*web.Error](err); decided {
		return err
	}
	limit, isLimit := errors.AsType[*config.LimitError](err)
	invalid, isInvalid := errors.AsType[*entity.InvalidError](err)
	switch {
	case errors.Is(err, config.ErrConflict):
		return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict,
			Message: "it was changed by other requests at the same time; read it and try again", Err: err}
	case errors.Is(err, config.ErrNotFound):
		return &web.Error{Status: http.StatusNotFound, Type: web.NotFound, Message: "there is nothing with this id", Err: err}
	case errors.Is(err, jobs.ErrEndpointBusy):
		return errBusy()
	case errors.Is(err, jobs.ErrTooManyRuns):
		return errTooManyRuns(err)
	case errors.Is(err, config.ErrTooManyErasures):
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited,
			Message: fmt.Sprintf("the limit of %d erased payloads within the retention is reached, or that of keys of "+
				"tenants (%d for each, half for all); try again when the retention of the oldest erased events has ended",
				config.MaxErasures, config.MaxTenantErasures), Err: err}
	case errors.Is(err, config.ErrRecoveryHistoryFull):
		return &web.Error{
			Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Hour,
			Message: fmt.Sprintf("%v; try again when the oldest are 30 days old", err),
		}
	case isLimit:
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, Param: limit.Name,
			RetryAfter: time.Minute, Err: err,
			Message: fmt.Sprintf("is %d for this tenant; delete what is not used, or raise the limit", limit.Most)}
	case isInvalid:
		return web.Invalid(invalid.Param, "%s", invalid.Message)
	case errors.Is(err, config.ErrEntityTooLarge):
		return web.Invalid("", "the configuration is too large: %v; shorten headers, metadata, filters or operations", err)
	case errors.Is(err, config.ErrTooManyEndpoints), errors.Is(err, leak.ErrTooManyDrains),
		errors.Is(err, leak.ErrTooManyDSNs),
		errors.Is(err, config.ErrTooManyFixtures), errors.Is(err, config.ErrFixturesFull),
		errors.Is(err, config.ErrTooManyPortalSessions), errors.Is(err, config.ErrTooManyTenantSessions):
		return web.WrongState("", "%v; delete some that are not used", err)
	case errors.Is(err, config.ErrStateFull):
		return web.WrongState("", "%v; delete endpoints that are not used, or shorten headers and metadata", err)
	// Only new claims of Idempotency-Keys are refused: a call that holds a claim still gets its answer.
	case errors.Is(err, config.ErrAnswersFull):
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Minute,
			Message: fmt.Sprintf("%v (Idempotency-Key); try again later", err)}
	case errors.Is(err, config.ErrLevel):
		return web.ServiceUnavailable(
			err, "this is possible after the upgrade is finished: when every node runs the new version, run "+
				"relay migrate --finalize")
	case errors.Is(err, config.ErrUnavailable):
		return web.ServiceUnavailable(
			err, "the configuration log is unavailable at the moment; check whether the change took effect "+
				"before you repeat it")
	case errors.Is(err, config.ErrLease):
		// Without a cause, which would log a line for every call while the log is unavailable.
		return web.ServiceUnavailable(nil, "this node cannot confirm API keys at the moment; try again")
	case errors.Is(err, event.ErrNotFound):
		return web.Missing("there is no such event, or its retention has ended")
	case errors.Is(err, event.ErrOverloaded):
		return errTooManyReads()
	case errors.Is(err, event.ErrUnavailable):
		return web.ServiceUnavailable(err, "the event store is unavailable at the moment; no event is lost, try again later")
	case errors.Is(err, stream.ErrNotStored), errors.Is(err, id.ErrClock):
		return web.ServiceUnavailable(err, "the log accepts no events at the moment; nothing was stored, try again later")
	case errors.Is(err, context.DeadlineExceeded):
		return web.ServiceUnavailable(
			err, "the log did not answer in time: the request may or may not have taken effect; check before "+
				"you repeat it")
	}
	return err
}

// errTooManyReads is the 429 for a key or a person that already has its maximum of concurrent event reads.
func errTooManyReads() error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
		Message: "as many event reads are running as one API key or person may have; wait for one to finish"}
}

func errTooManyRuns(err error) error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Minute, Err: err,
		Message: "there is no room for another replay run: the earlier ones still queue, or were cancelled less than 30 " +
			"days ago; try again later"}
}

func errBusy() error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
		Message: "another replay is queueing deliveries of the same endpoint; nothing was queued, send it again"}
}

// class is a kind of request with its own rate limit.
type class uint8

const (
	classRead class = iota
	classWrite
	classSend
	classes // number of classes
)

// classNames are the names of the shared token buckets.
var classNames = [classes]string{"read", "write", "send"}

func (x *Route) rateClass(method string) class {
	switch {
	case method == http.MethodGet, x.Computes:
		return classRead
	case x.Sends:
		return classSend
	default:
		return classWrite
	}
}

// Limits holds a token bucket for each key and class of requests, shared by all nodes, with a burst of one second.
// left is how many requests this node would still allow at once.
type Limits interface {
	TakeSharedToken(class, key string, perSecond float64) (wait time.Duration, left float64)
}

// limitRate takes a token and sets the X-RateLimit headers, or returns the 429. Only valid keys and signed-in people
// get here, so there are at most as many buckets as keys and people.
func (rt *Router) limitRate(h http.Header, key *config.Key, c class) error {
	rate := rt.Rates[c]
	if rate == 0 {
		return nil
	}
	wait, left := rt.Limits.TakeSharedToken(classNames[c], key.ID, float64(rate))
	h.Set("X-RateLimit-Limit", strconv.Itoa(rate))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(int(max(left, 0))))
	// seconds until the bucket is full
	h.Set("X-RateLimit-Reset", strconv.Itoa(int(math.Ceil((float64(rate)-left)/float64(rate)))))
	if wait == 0 {
		return nil
	}
	who := "the API key"
	if isPerson(key) {
		who = "you"
	}
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: max(wait, time.Second),
		Message: who + " may make " + strconv.Itoa(rate) +
			" requests of this kind a second; wait as long as Retry-After says"}
}
