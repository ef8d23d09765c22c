package api

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/jobs"
	"github.com/eventrelay/relay/features/catalogue"
	fixtures "github.com/eventrelay/relay/features/fixtures/routes"
	issues "github.com/eventrelay/relay/features/issues/routes"
	"github.com/eventrelay/relay/features/leaks/routes"
	portals "github.com/eventrelay/relay/features/portal/routes"
	"github.com/eventrelay/relay/features/reconcile"
	"github.com/eventrelay/relay/features/reference"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// What tests put in place of dependencies.
type (
	Answers     = frame.Answers
	EventReader = frame.EventReader
	Runs        = jobs.Runs
)

// newTestResources returns the routes of an API that cannot be used.
func newTestResources() (*areas, error) {
	ofLeaks := func(c *frame.Core) frame.Area {
		return frame.Area{Routes: routes.New(c, &routes.Deps{}).Routes(), Document: routes.Document()}
	}
	ofCatalogue := func(c *frame.Core) frame.Area { return catalogue.Area(c, nil, nil) }
	ofFixtures := func(c *frame.Core) frame.Area {
		return frame.Area{Routes: fixtures.Routes(c, nil), Document: fixtures.Document()}
	}
	ofPortal := func(c *frame.Core) frame.Area { return portals.Area(c, nil) }
	return newAreas(&Config{}, &Deps{Areas: []func(*frame.Core) frame.Area{reference.Area, ofCatalogue, ofLeaks,
		reconcile.API, ofFixtures, issues.Area, ofPortal}}, &frame.Core{Clock: time.Now, Version: "0.3.0-dev+1234567"})
}

// DrawnPages returns all public pages, drawn.
func DrawnPages() (map[string]*frame.Page, error) {
	x, err := newTestResources()
	if err != nil {
		return nil, err
	}
	deprecated, err := newDeprecationTable(deprecations, joinTestParts)
	if err != nil {
		return nil, err
	}
	pages, err := publicPages(deprecated, x.pages)
	for path, p := range pages {
		if err == nil && p.Draw != nil {
			pages[path], err = p.Draw(httptest.NewRequest(http.MethodGet, path, nil))
		}
	}
	return pages, err
}

// joinTestParts joins the parts of the document with those routes.
func joinTestParts() (*yaml.Node, error) {
	x, err := newTestResources()
	if err != nil {
		return nil, err
	}
	return joinParts(x.routes, x.parts)
}

// OpenAPIDocument returns the merged document as it is served.
func OpenAPIDocument() ([]byte, error) {
	deprecated, err := newDeprecationTable(deprecations, joinTestParts)
	if err != nil {
		return nil, err
	}
	document, err := deprecated.document()
	if err != nil {
		return nil, err
	}
	return writeYAML(document)
}

// Routes returns the methods of each path of /v1.
func Routes(a *API) map[string][]string {
	routes := map[string][]string{}
	for path, route := range a.router.Routes {
		routes[path] = slices.Sorted(maps.Keys(route.Methods))
	}
	return routes
}

// RememberedAnswer wraps a test route like all POST routes.
func RememberedAnswer(a *API, account, path string, answer func() []byte) func(key string) (int, error) {
	call := func(w http.ResponseWriter, _ *http.Request, _ *config.Key) error {
		_, err := w.Write(answer())
		return err
	}
	handle := a.idempotent.WithIdempotency(&frame.Route{Path: path}, call)
	return func(key string) (int, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond) // the client's time limit
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader("{}"))
		r.Header.Set(frame.IdempotencyHeader, key)
		w := httptest.NewRecorder()
		err := handle(w, r, &config.Key{Account: account})
		if err != nil {
			return web.FromError(err).Status, err
		}
		return w.Code, nil
	}
}

// Remembered is RememberedAnswer for a call whose answer does not matter.
func Remembered(a *API, account, path string, work func() error) func(key string) error {
	handle := RememberedAnswer(a, account, path, func() []byte { _ = work(); return nil })
	return func(key string) error { _, err := handle(key); return err }
}

// BoundBodies sets how many bytes the bodies of all requests hold, and those of one key. It returns how many they hold.
func BoundBodies(a *API, all, ofKey int64) (held func() int64) {
	a.router.Bodies.Bound(all, ofKey)
	return a.router.Bodies.Held
}

// PortalOperations are the operations that a token of the portal may use.
func PortalOperations() map[string]frame.PortalOperation { return portalOperations }

// TenantOperations returns a copy of the operations that a key of a tenant may use.
func TenantOperations() frame.TenantOperations { return maps.Clone(tenantOperations) }
