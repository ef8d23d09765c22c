package api

import (
	"embed"
	"fmt"
	"path"
)

// viewerFiles are the documentation page and its scripts. make build adds the files of the viewer; a program built
// without them serves a page that says so.
//
//go:embed viewer
var viewerFiles embed.FS

// referencePath is the page that shows the OpenAPI document; its files lie below it.
const referencePath = "/docs"

// referencePolicy lets the page load its own files and the document, and nothing else. The sandbox makes its origin
// opaque, so a flaw in the viewer cannot use a visitor's cookies of this host. The viewer sets styles from its
// script, and some of its links open a tab.
const referencePolicy = "sandbox allow-scripts allow-popups; default-src 'none'; script-src 'self'; style-src " +
	"'self' 'unsafe-inline'; " +
	"img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// referenceTypes maps file extensions to media types. The system's table differs between machines, and a browser
// refuses a script with another type.
var referenceTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
}

// addReference adds the page and its files to the public pages.
func addReference(pages map[string]*page) error {
	files, err := viewerFiles.ReadDir("viewer")
	if err != nil {
		return fmt.Errorf("read the reference page: %w", err)
	}
	for _, f := range files {
		kind := referenceTypes[path.Ext(f.Name())]
		if kind == "" {
			continue // licence and version stamp
		}
		body, err := viewerFiles.ReadFile("viewer/" + f.Name())
		if err != nil {
			return fmt.Errorf("read the reference page: %w", err)
		}
		p, at := newPage(kind, body), referencePath+"/"+f.Name()
		if f.Name() == "index.html" {
			p.policy, at = referencePolicy, referencePath
		}
		pages[at] = &p
	}
	return nil
}
