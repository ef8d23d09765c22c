package api

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/reference"
	"github.com/eventrelay/relay/pkg/web"
)

// referencePath is the page that shows the OpenAPI document.
const referencePath = "/docs"

// addReference adds the page of the operations and that of the types of errors to the public pages.
func addReference(pages map[string]*page, document *yaml.Node, cfg *Config) (err error) {
	style := ""
	if cfg.Style != nil {
		if style, err = cfg.Style(); err != nil {
			return fmt.Errorf("read the look of the reference: %w", err)
		}
	}
	var types []*reference.ErrorType
	for _, d := range errorDocs {
		types = append(types, &reference.ErrorType{Kind: d.kind, Text: d.text})
	}
	drawn, err := reference.New(document, cfg.BaseURL, style, types)
	if err != nil {
		return fmt.Errorf("draw the reference: %w", err)
	}
	for path, body := range map[string][]byte{referencePath: drawn.Operations, web.DocsPath: drawn.Errors} {
		p := newPage("text/html; charset=utf-8", body)
		p.policy = drawn.Policy
		pages[path] = &p
	}
	return nil
}
