package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

// handlerFunc answers an authenticated request.
type handlerFunc func(w http.ResponseWriter, r *http.Request, key *config.Key) error

// methods are the handlers of one path.
type methods map[string]handlerFunc

// sendPath is the route that has a rate of its own.
const sendPath = "/v1/endpoints/{endpoint}/events"

// batchPath shares that rate: one request counts as one, whatever it carries.
const batchPath = sendPath + "/batch"

// route is one path with what it answers to. A path is one route of mux, so a wrong method is known to be one.
type route struct {
	path string
	methods
}

// router finds the route of a request, and who may use it. It asks mux for the match only: handlers here return errors.
type router struct {
	keys   Keys
	uses   KeyUses
	limits Limits
	rates  [classes]int
	hosts  map[string]bool // see checkHost
	public *public
	mux    *mux.Router
	routes map[string]route // by path, which is the name of mux's route

	beforeEndpoint, afterEndpoint string // of sendPath
}

// newRouter builds the tree. Paths are matched as they were sent: an escaped slash is no separator, and no
// redirect cleans a path.
func newRouter(cfg *Config, deps *Deps, routes []route, repeats *idempotentCalls) *router {
	rt := &router{
		keys: deps.Config, uses: deps.KeyUses, limits: deps.Limits,
		rates: [classes]int{cfg.RateRead, cfg.RateWrite, cfg.RateSend},
		hosts: hostsOf(cfg), public: &public{ready: deps.Ready, pages: sync.OnceValues(publicPages)},
		mux: mux.NewRouter().SkipClean(true).UseEncodedPath(), routes: map[string]route{},
	}
	for _, x := range routes {
		if post := x.methods["POST"]; post != nil && x.path != sendPath && x.path != batchPath {
			x.methods["POST"] = repeats.withIdempotency(x.path, post)
		}
		rt.mux.Path(x.path).Name(x.path)
		rt.routes[x.path] = x
	}
	rt.beforeEndpoint, rt.afterEndpoint, _ = strings.Cut(sendPath, "{endpoint}")
	return rt
}

// find returns the route of a request, with an empty path when there is none, and the values in its path.
func (rt *router) match(r *http.Request) (route, map[string]string) {
	// The route that takes the load is found without mux, which compares with regular expressions.
	rest, begins := strings.CutPrefix(r.URL.Path, rt.beforeEndpoint)
	endpoint, ends := strings.CutSuffix(rest, rt.afterEndpoint)
	if begins && ends && endpoint != "" && !strings.Contains(endpoint, "/") && r.URL.RawPath == "" {
		return rt.routes[sendPath], map[string]string{"endpoint": endpoint}
	}
	var match mux.RouteMatch
	if !rt.mux.Match(r, &match) {
		return route{}, nil
	}
	return rt.routes[match.Route.GetName()], match.Vars
}

// serve answers a request in the order of the contract: 401, 429, 403, 404, 400.
func (rt *router) serve(w http.ResponseWriter, r *http.Request) error {
	if path := r.URL.Path; path != "/v1" && !strings.HasPrefix(path, "/v1/") {
		return rt.public.servePublic(w, r)
	}
	key, err := rt.authenticate(r)
	if err != nil {
		return err
	}
	info := web.InfoOf(r)
	rt.uses.RecordUse(key.Account, key.ID, key.Name, info.Client)
	found, vars := rt.match(r)
	method := r.Method
	if method == http.MethodHead { // net/http leaves out the body
		method = http.MethodGet
	}
	if err := rt.limitRate(w.Header(), key.ID, classOf(method, found.path)); err != nil {
		return err
	}
	handle, ok := found.methods[method]
	switch {
	case found.path == "":
		return web.Missing("there is no such route")
	case !ok:
		w.Header().Set("Allow", found.allowHeader())
		return web.Missing("%s is not allowed here; use %s", r.Method, found.allowHeader())
	}
	info.Route, info.Vars = found.path, vars // not before: a method of the client's choice must not become a label
	if err := authorize(key, method); err != nil {
		return err
	}
	if err := web.CheckHeader(r); err != nil {
		return web.Invalid("", "%v", err)
	}
	if err := rt.checkHost(r.Host); err != nil {
		return err
	}
	if method != http.MethodGet && found.path != sendPath && found.path != batchPath { // sending changes no configuration
		r = r.WithContext(config.WithOrigin(
			r.Context(), config.Origin{Actor: key.ID, RequestID: info.ID, RemoteIP: info.Client}))
	}
	if found.path != sendPath { // nor does it ask the store
		r = r.WithContext(event.WithCaller(r.Context(), key.ID))
	}
	return toWebError(handle(w, r, key))
}

func (m methods) allowHeader() string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// authenticate finds the key of a request.
func (rt *router) authenticate(r *http.Request) (*config.Key, error) {
	if values := r.Header["Authorization"]; len(values) == 0 || values[0] == "" {
		return nil, &web.Error{Status: http.StatusUnauthorized, Type: web.AuthenticationRequired,
			Message: "send an API key: Authorization: Bearer <API_KEY>"}
	}
	if text, ok := bearer(r); ok {
		key, err := rt.keys.Authenticate(text)
		if !errors.Is(err, config.ErrInvalidKey) {
			return key, toWebError(err)
		}
	}
	return nil, errInvalidKey()
}

func errInvalidKey() error {
	return &web.Error{
		Status: http.StatusUnauthorized, Type: web.InvalidAPIKey, Message: "the API key is unknown, expired or revoked",
	}
}

// bearer is the API key that a request carries.
func bearer(r *http.Request) (string, bool) {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	return strings.TrimSpace(text), strings.EqualFold(scheme, "bearer") // RFC 9110, 11.1: schemes do not distinguish case
}

// authorize judges the scope by the method alone, before any id is looked at.
func authorize(key *config.Key, method string) error {
	switch {
	case method == http.MethodGet:
		return nil
	case key.Agent:
		return &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope,
			Message: "an agent's key cannot make changes here; they are confirmed in the dashboard"}
	case key.Scope != config.ReadWrite:
		return &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope,
			Message: "the key may read only; this needs a key with the scope read_write"}
	}
	return nil
}

// fault is the one place where errors of other packages become answers.
func toWebError(err error) error {
	if err == nil {
		return nil
	}
	if _, decided := errors.AsType[*web.Error](err); decided {
		return err
	}
	switch {
	case errors.Is(err, config.ErrConflict):
		return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict,
			Message: "others changed it at the same time, again and again; read it and try once more", Err: err}
	case errors.Is(err, config.ErrNotFound):
		return &web.Error{Status: http.StatusNotFound, Type: web.NotFound, Message: "there is nothing with this id", Err: err}
	case errors.Is(err, config.ErrEndpointBusy):
		return errBusy()
	case errors.Is(err, config.ErrTooManyErasures):
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited,
			Message: fmt.Sprintf("%d payloads were erased within the retention, which is as many as can be; those of the "+
				"oldest events make room when they end", config.MaxErasures), Err: err}
	case errors.Is(err, config.ErrRecoveryHistoryFull):
		return &web.Error{
			Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Hour,
			Message: fmt.Sprintf("%v, which is as many as can be; the oldest make room when their 30 days are over", err),
		}
	case errors.Is(err, config.ErrEntityTooLarge):
		return web.Invalid("", "is too large with everything in it: %v; shorten headers, metadata or filters", err)
	case errors.Is(err, config.ErrTooManyEndpoints):
		return web.State("", "%v, which is as many as can be; delete some that are not used", err)
	case errors.Is(err, config.ErrStateFull):
		return web.State("", "%v; delete endpoints that are not used, or shorten headers and metadata", err)
	case errors.Is(err, config.ErrAnswersFull): // a call whose claim it was has its answer all the same
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Minute,
			Message: err.Error()}
	case errors.Is(err, config.ErrLevel):
		return web.Away(err, "this waits for the end of an upgrade: when every node runs the new version, run relay "+
			"migrate --finalize")
	case errors.Is(err, config.ErrUnavailable):
		return web.Away(err, "the configuration log is away at the moment; check whether the change took effect before "+
			"you repeat it")
	case errors.Is(err, config.ErrLease):
		// Without a cause: it would be one log line for every call while the log is away.
		return web.Away(nil, "this node cannot confirm API keys at the moment")
	case errors.Is(err, event.ErrNotFound):
		return web.Missing("there is no such event, or its retention has ended")
	case errors.Is(err, event.ErrOverloaded):
		return errTooManyReads()
	case errors.Is(err, event.ErrUnavailable):
		return web.Away(err, "the event store is away at the moment; nothing is lost")
	case errors.Is(err, stream.ErrBufferFull), errors.Is(err, id.ErrClock):
		return web.Away(err, "the log does not take events at the moment; nothing was stored")
	case errors.Is(err, context.DeadlineExceeded):
		return web.Away(err, "the log did not answer in time: it may or may not have taken this; check before you repeat it")
	}
	return err
}
