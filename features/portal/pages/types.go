package pages

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/dashboard/ui"
)

// eventType is a type of the catalogue as the API returns it.
type eventType struct {
	Name, Description, Group string
	Deprecated               bool
	Schema, Example          json.RawMessage
}

// Path is the page of the type.
func (x eventType) Path() string { return typesPath + "/" + url.PathEscape(x.Name) }

// isSample reports whether a type is that of test events of the account.
func isSample(name string) bool { return name == "sample.created" }

// listTypes shows the types that the tenant may get. The catalogue is in memory: the page needs no store.
func listTypes(v *ui.Visit) error {
	list, err := ui.ReadList[eventType](v, "/v1/event_types", typesPath, nil, nil)
	if err != nil {
		return err
	}
	list.Rows = slices.DeleteFunc(list.Rows, func(x eventType) bool { return isSample(x.Name) })
	slices.SortFunc(list.Rows, func(a, b eventType) int { return strings.Compare(a.Name, b.Name) })
	return v.Page("portal-event-types", list)
}

// maxShown bounds a schema or an example in the page, in bytes.
const maxShown = 16 << 10

// shown is JSON as the page shows it.
type shown struct {
	Text string
	Cut  bool // Text is the beginning
}

// Shown returns JSON as people read it; nil if there is none.
func (x *eventType) Shown(raw json.RawMessage) *shown {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	text := ui.Indented(raw)
	return &shown{strings.ToValidUTF8(text[:min(len(text), maxShown)], ""), len(text) > maxShown}
}

func showType(v *ui.Visit, x *eventType) error { return v.Page("portal-event-type", x) }
