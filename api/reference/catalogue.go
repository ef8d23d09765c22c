package reference

import (
	"html/template"
	"slices"

	"go.yaml.in/yaml/v3"
)

// EventType is a type of events on the page of the catalogue.
type EventType struct {
	Name, Description, Group string
	Deprecated               bool
	Version                  int
	Schema                   []byte // JSON without references; empty: none, or too long for that
	Raw, Example             string // the schema as it was written, and an example
}

// catalogueView is what the template catalogue draws.
type catalogueView struct {
	Title  string
	Style  template.CSS
	Groups []*eventGroup
}

type eventGroup struct {
	Name  string
	Types []eventEntry
}

type eventEntry struct {
	EventType
	Body *schema // nil: its fields cannot be shown
}

// Catalogue draws the page of event types, which are sorted by group, and returns it with its content security policy.
func Catalogue(title, style string, types []EventType) (page []byte, policy string, err error) {
	css, err := files.ReadFile("page.css")
	if err != nil {
		return nil, "", err
	}
	v := &view{spec: &spec{}, Style: template.CSS(style + string(css))} //nolint:gosec // our own files
	c := &catalogueView{Title: title, Style: v.Style}
	for _, x := range types {
		i := slices.IndexFunc(c.Groups, func(g *eventGroup) bool { return g.Name == x.Group })
		if i < 0 {
			c.Groups = append(c.Groups, &eventGroup{Name: x.Group})
			i = len(c.Groups) - 1
		}
		e := eventEntry{EventType: x}
		var s schema
		if len(x.Schema) > 0 && yaml.Unmarshal(x.Schema, &s) == nil { // else it has what this page does not know
			e.Body = &s
		}
		c.Groups[i].Types = append(c.Groups[i].Types, e)
	}
	page, err = v.draw("catalogue", c)
	return page, v.policy(), err
}
