package events

import (
	"net/url"
	"slices"
	"strconv"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// replayTicked delivers the ticked events again to the destinations that do not have them.
func replayTicked(v *ui.Visit, f *ui.Form) error {
	queued := 0
	n, refused, err := v.EachTicked(f, func(id string, one *ui.Form) error {
		var x wire.ReplayResult
		err := v.Do("POST /v1/events/"+id+"/replay", one, ui.Object{"only_undelivered": true}, &x)
		queued += x.Queued
		return err
	})
	if err != nil {
		return err
	}
	message := "Queued " + ui.Plural(queued, "delivery", "deliveries") + " of " + ui.Plural(n, "event", "events") + "."
	if queued == 0 {
		message = "Nothing was queued: the enabled destinations have these events."
	}
	return v.BackToList(f, ui.EventsPath, message+refused)
}

// erasePage is the data of the page that asks before payloads are erased.
type erasePage struct {
	Form *ui.Form
	Rows []string
}

// eraseTicked erases the payloads of the ticked events, once the form confirms it.
func eraseTicked(v *ui.Visit, f *ui.Form) error {
	rows, err := f.Ticked()
	if err != nil {
		return err
	}
	if f.Value("confirm") != "erase" {
		if f.Values.Has("confirm") {
			x, _ := ui.BadRequest(ui.Fault("confirm", "type the word erase to confirm"))
			f.Refused, v.Status = "Nothing was erased", f.SetError(x)
		}
		return v.Page("events-erase", erasePage{f, rows})
	}
	n, refused, err := v.EachTicked(f, func(id string, one *ui.Form) error {
		return v.Do("DELETE /v1/events/"+id+"/payload", one, nil, nil)
	})
	if err != nil {
		return err
	}
	return v.BackToList(f, ui.EventsPath, "Erased the payloads of "+ui.Plural(n, "event", "events")+"."+refused)
}

// savedView is a set of filters with a name.
type savedView struct{ Name, Query string }

// listChoices are what a person has chosen for the list of events, in this browser.
type listChoices struct {
	User   string
	HTTP   bool // show the column of response statuses
	Views  []savedView
	Active string `json:"-"` // query of the present list
}

// The cookie of the choices is never longer than browsers accept.
const (
	choicesCookie = "-events"
	maxViews      = 8
	maxViewName   = 40
	maxViewQuery  = 200
)

// readChoices reads the choices of the person; none if another person of this browser has made them.
func readChoices(v *ui.Visit) (c listChoices, err error) {
	if _, err = v.Choices(choicesCookie, &c); err != nil || c.User != v.Person.ID {
		c = listChoices{User: v.Person.ID}
	}
	c.Active = ui.FiltersOf(v.R.URL.Query(), viewFilters()).Encode()
	return c, err
}

// viewFilters are the parameters of the page that a view has.
func viewFilters() []string {
	return append(filters(), "body_path", "body_value", "header_path", "header_value")
}

// Path is the list that a view shows.
func (x savedView) Path() string { return ui.EventsPath + "?" + x.Query }

// Of reports whether a view shows the present list.
func (c listChoices) Of(x savedView) bool { return c.Active == x.Query }

// CanSave reports whether the present list has filters that are no view yet.
func (c listChoices) CanSave() bool {
	return c.Active != "" && len(c.Active) <= maxViewQuery && !slices.ContainsFunc(c.Views, c.Of)
}

// saveChoices adds a view, removes one, or changes the columns.
func saveChoices(v *ui.Visit, f *ui.Form) error {
	c, err := readChoices(v)
	if err != nil {
		return err
	}
	message := "Saved for you in this browser."
	switch f.Value("do") {
	case "columns":
		c.HTTP = f.Value("http") == "true"
	case "remove":
		message = "Removed."
		c.Views = slices.DeleteFunc(c.Views, func(x savedView) bool { return x.Query == f.Value("query") })
	default:
		asked, err := url.ParseQuery(f.Value("query"))
		query := ui.FiltersOf(asked, viewFilters()).Encode()
		name := ui.Truncate(f.Value("name"), maxViewName)
		switch {
		case err != nil || query == "" || len(query) > maxViewQuery || name == "":
			return web.Invalid("", "Nothing was saved: a view has a name and one filter or more, of at most %d characters.",
				maxViewQuery)
		case len(c.Views) >= maxViews:
			return web.Invalid("", "Nothing was saved: there are at most %d views. Remove one first.", maxViews)
		}
		c.Views = slices.DeleteFunc(c.Views, func(x savedView) bool { return x.Query == query })
		c.Views = append(c.Views, savedView{name, query})
	}
	if err := v.SetChoices(choicesCookie, c); err != nil {
		return err
	}
	return v.BackToList(f, ui.EventsPath, message)
}

// httpStatus is what the destination answered last at which the event failed, otherwise at any; empty: none answered.
func httpStatus(deliveries []wire.DeliveryState) (text string) {
	for _, d := range deliveries {
		if d.LastResponseStatus != nil {
			if text = strconv.Itoa(*d.LastResponseStatus); d.Status != event.Delivered {
				break
			}
		}
	}
	return text
}
