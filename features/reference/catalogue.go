package reference

import (
	"slices"

	"go.yaml.in/yaml/v3"

	api "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/features"
)

// catalogueView is what the template catalogue draws.
type catalogueView struct {
	*view
	Title  string
	Groups []*eventGroup
}

type eventGroup struct {
	Name  string
	Types []eventEntry
}

type eventEntry struct {
	features.EventType
	Body *schema // nil: its fields cannot be shown
}

// Catalogue draws the page of event types, which are sorted by group.
func Catalogue(title string, types []features.EventType) (*api.Page, error) {
	style, _, err := look()
	if err != nil {
		return nil, err
	}
	c := &catalogueView{view: &view{spec: &spec{}, Style: style}, Title: title}
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
	return c.page("catalogue", c)
}
