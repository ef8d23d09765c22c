package endpoints

import (
	"errors"
	"net/http"
	"slices"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
)

// rulesPage edits the filter of a destination, beside what it says of the newest events of the endpoint. A preview
// stores nothing, so a read person may use it.
type rulesPage struct {
	*destinationPage
	Preview *wire.FilterPreview // nil: there is none, because of the filter or because the store does not answer
	Fault   string              // why
}

// filterTable are all fields of a filter.
var filterTable = slices.Concat(filterFields, ruleFields)

// shownPassing is how many events of a preview the page shows of each kind.
const shownPassing = 20

func newRulesPage(at place, f *ui.Form) *rulesPage {
	p := &rulesPage{destinationPage: newDestinationPage(at.e, at.d, f)}
	p.Tab = p.Rules()
	return p
}

// Rules is the path of the page.
func (p *destinationPage) Rules() string { return p.Self() + "/rules" }

// Workbench is the page of the destination's transformation.
func (p *destinationPage) Workbench() string {
	return ui.WithQuery(p.Path()+"/workbench", nil, "of", p.Destination.ID)
}

// Shown are the first events of the preview, at most shownPassing that pass and as many that do not.
func (p *rulesPage) Shown() (events []wire.FilteredEvent) {
	count := map[bool]int{}
	for _, x := range p.Preview.Data {
		if count[x.Passes]++; count[x.Passes] <= shownPassing {
			events = append(events, x)
		}
	}
	return events
}

// ask asks the API for a preview of the form and shows its errors at their field.
func (p *rulesPage) ask(v *ui.Visit) error {
	p.Form.ReadOnly = true
	preview := &wire.FilterPreview{}
	err := v.Send("POST", endpointAPI+"/filter/preview", filterTable.All(p.Form), "", preview)
	if x, ok := errors.AsType[*ui.APIError](err); ok {
		if p.Fault = x.Message; x.Status >= http.StatusInternalServerError || x.Status == http.StatusTooManyRequests {
			return nil // the filter can be changed without it
		}
	}
	nothing := func() error { return nil }
	return v.Answer(p.Form, err, nothing, func() error {
		p.Preview = preview
		return nil
	})
}

func showRules(v *ui.Visit, at place) error {
	return previewRules(v, ui.EditForm(filterTable.Values(at.d)), at)
}

// previewRules previews what is entered and keeps it in the form.
func previewRules(v *ui.Visit, f *ui.Form, at place) error {
	p := newRulesPage(at, f)
	if err := p.ask(v); err != nil {
		return err
	}
	return v.Page("destination-rules", p)
}

func saveRules(v *ui.Visit, f *ui.Form, at place) error {
	stored, p := filterTable.Values(at.d), newRulesPage(at, f)
	x := ui.NewEdit(f, stored)
	setFilter(x)
	return v.Save(ui.Saving{Form: f, Stored: stored, Body: x.Body, Call: "PATCH " + destinationAPI,
		Out: &model.Destination{}, Back: p.Rules(), Again: func() error { return v.Page("destination-rules", p) },
		Then: func() error { return v.Redirect(p.Rules(), "Saved. It applies to every attempt from now on.") }})
}
