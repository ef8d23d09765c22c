package catalogue

import (
	"fmt"
	"net/http"
	"sync"

	api "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/features/catalogue/routes"
	"github.com/eventrelay/relay/pkg/web"
)

// pagePath is the page of event types for everybody, and documentPath the same as an OpenAPI document.
const pagePath, documentPath = "/catalogue", "/catalogue/openapi.json"

// publicPages draws both pages when the catalogue has changed since the last request.
type publicPages struct {
	of       *routes.Catalogue
	drawPage drawPage

	mu      sync.Mutex // guards what follows; a page is drawn once, however many ask for it
	version string
	pages   map[string]*api.Page
}

func (c *publicPages) serve(w http.ResponseWriter, r *http.Request) error {
	p, err := c.page(r.URL.Path)
	if err != nil {
		return err
	}
	web.InfoOf(r).Route = r.URL.Path
	p.Serve(w, r)
	return nil
}

// page returns one of the pages, or the 404 unless the account publishes them.
func (c *publicPages) page(path string) (*api.Page, error) {
	version, public := c.of.Version()
	if !public {
		return nil, web.Missing("the catalogue is not public; PATCH /v1/settings/catalogue publishes it")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != version {
		pages, err := c.draw()
		if err != nil {
			return nil, err
		}
		c.version, c.pages = version, pages
	}
	return c.pages[path], nil
}

func (c *publicPages) draw() (map[string]*api.Page, error) {
	if c.drawPage == nil { // a build without the reference
		return nil, nil
	}
	title, types, document, err := c.of.Published()
	if err != nil {
		return nil, fmt.Errorf("write the catalogue: %w", err)
	}
	page, err := c.drawPage(title, types)
	if err != nil {
		return nil, fmt.Errorf("draw the catalogue: %w", err)
	}
	return map[string]*api.Page{pagePath: page, documentPath: api.NewPage("application/json", document)}, nil
}
