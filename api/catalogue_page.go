package api

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/eventrelay/relay/api/catalogue"
	"github.com/eventrelay/relay/api/reference"
	"github.com/eventrelay/relay/pkg/web"
)

// cataloguePath is the page of event types for everybody, and documentPath the same as an OpenAPI document.
const cataloguePath, documentPath = "/catalogue", "/catalogue/openapi.json"

// cataloguePages draws both pages when the catalogue has changed since the last request.
type cataloguePages struct {
	of    *catalogue.Catalogue
	style func() (string, error) // nil: none

	mu      sync.Mutex // guards what follows; a page is drawn once, however many ask for it
	version string
	pages   map[string]*page
}

func (c *cataloguePages) serve(w http.ResponseWriter, r *http.Request) error {
	p, err := c.page(r.URL.Path)
	if err != nil {
		return err
	}
	web.InfoOf(r).Route = r.URL.Path
	p.serve(w, r)
	return nil
}

// page returns one of the pages, or the 404 unless the account publishes them.
func (c *cataloguePages) page(path string) (*page, error) {
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

func (c *cataloguePages) draw() (map[string]*page, error) {
	title, types, document, err := c.of.Published()
	if err != nil {
		return nil, fmt.Errorf("write the catalogue: %w", err)
	}
	style := ""
	if c.style != nil {
		if style, err = c.style(); err != nil {
			return nil, fmt.Errorf("read the look of the catalogue: %w", err)
		}
	}
	drawn := make([]reference.EventType, len(types))
	for i, x := range types {
		drawn[i] = reference.EventType(x)
	}
	html, policy, err := reference.Catalogue(title, style, drawn)
	if err != nil {
		return nil, fmt.Errorf("draw the catalogue: %w", err)
	}
	shown, text := newPage("text/html; charset=utf-8", html), newPage("application/json", document)
	shown.policy = policy
	return map[string]*page{cataloguePath: &shown, documentPath: &text}, nil
}
