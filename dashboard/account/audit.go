package account

import (
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
)

const auditPath = "/app/audit"

// auditFilters are the filters of the audit log, as the API names them.
var auditFilters = []string{"actor", "action", "entity_id", "since", "until"}

// auditEntry is an entry of the audit log of the API.
type auditEntry struct {
	wire.AuditEntry
	EntityName string `json:"-"` // of an endpoint that there is
}

// maxShownChanges is how many changed members an entry shows in the list.
const maxShownChanges = 8

// Changed are the names of the changed members; More is how many are left out.
func (e *auditEntry) Changed() string { return strings.Join(e.Changes[:e.shown()], ", ") }

// More is the number of changed members that Changed leaves out.
func (e *auditEntry) More() int { return len(e.Changes) - e.shown() }

func (e *auditEntry) shown() int { return min(len(e.Changes), maxShownChanges) }

// EntityPath is the page of the changed entity; empty if it has none of its own.
func (e *auditEntry) EntityPath() string {
	if k := ui.ResourceOf(e.Entity.ID); k == nil || k.Page == ui.EventsPath || k.Page == ui.ReplaysPath {
		return ""
	}
	return ui.PageOf(e.Entity.ID)
}

// auditPage is the data of the list: the filters offer names for the ids that they take.
type auditPage struct {
	*ui.FilteredList[*auditEntry]
	Actors, Endpoints []ui.Option
}

// listAudit shows who changed what, newest first.
func listAudit(v *ui.Visit) error {
	p, err := ui.ListRows[*auditEntry](v, "/v1/audit", auditPath, auditFilters)
	if err != nil {
		return err
	}
	for _, x := range p.Rows {
		x.EntityName = v.EndpointName(x.Entity.ID)
	}
	p.CSV = ui.CSVLink("audit", p.Filters.Values)
	return v.Page("audit", auditPage{p, v.ActorChoices(), ui.NewEndpointChoices(v, "").Endpoints})
}
