package account

import (
	"net/http"
	"regexp"
	"slices"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

func auditViewOf(e *audit.Entry) wire.AuditEntry {
	v := wire.AuditEntry{
		ID: e.ID.Text(audit.Prefix), Object: "audit_entry", At: e.At.UTC().Format(web.TimeFormat),
		Actor:  wire.AuditActor{Type: e.Actor.Type, ID: frame.OrNull(e.Actor.ID), Name: frame.OrNull(e.Actor.Name)},
		Action: e.Action,
		Entity: wire.Entity{Type: e.EntityType, ID: e.Entity}, Changes: e.Changes, RequestID: frame.OrNull(e.RequestID),
		RelatedID: frame.OrNull(e.Related),
	}
	if v.Changes == nil {
		v.Changes = []string{}
	}
	if e.RemoteIP.IsValid() {
		v.RemoteIP = frame.OrNull(e.RemoteIP.String())
	}
	if e.Action == audit.KeyUsed {
		v.Use = &wire.KeyUse{Count: e.Count, LastAt: e.LastAt.UTC().Format(web.TimeFormat), Node: e.Node}
	}
	return v
}

// auditAction matches an action or a prefix of actions: endpoint.updated, endpoint.*.
var auditAction = regexp.MustCompile(`^[a-z_]{1,64}\.([a-z_]{1,64}|\*)$`)

// auditLog serves the audit log.
type auditLog struct{ *area }

// listAudit lists who changed what. Entries that the store does not have yet come from the outbox in memory, so an
// entry is visible as soon as its change was answered.
func (a *auditLog) listAudit(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	params := frame.NewQuery(r, "audit "+key.Account)
	q := a.auditQuery(params, key)
	limit, last := params.Page()
	if params.Err != nil {
		return params.Err
	}
	q.Limit, q.Before = limit, id.ID(last)
	// The outbox is read before the store: an entry that leaves the outbox in between is then in the store.
	outbox := a.Audit.Outbox(q)
	page, err := a.Audit.Audit(r.Context(), q)
	if err != nil {
		return err
	}
	rows := mergeAudit(outbox, page.Rows)
	out := frame.List[wire.AuditEntry]{Data: make([]wire.AuditEntry, min(len(rows), limit))}
	for i := range out.Data {
		out.Data[i] = auditViewOf(&rows[i])
	}
	if page.More || len(rows) > limit {
		out.NextCursor = params.Hash.Cursor(frame.RowKey(rows[len(out.Data)-1].ID))
	}
	frame.SetAsOf(w, page.AsOf)
	return web.Answer(w, http.StatusOK, out)
}

// mergeAudit merges the outbox into the rows of the store: each entry once, newest first.
func mergeAudit(outbox, rows []audit.Entry) []audit.Entry {
	rows = append(rows, outbox...)
	slices.SortStableFunc(rows, func(a, b audit.Entry) int { return b.ID.Compare(a.ID) })
	return slices.CompactFunc(rows, func(a, b audit.Entry) bool { return a.ID == b.ID })
}

// auditQuery reads the filters of the audit log.
func (a *auditLog) auditQuery(q *frame.Query, key *config.Key) audit.Query {
	out := audit.Query{Account: key.Account, Actors: q.List("actor"), Actions: q.List("action"),
		Entities: q.List("entity_id")}
	for _, action := range out.Actions {
		if !auditAction.MatchString(action) {
			const text = "has %q, which is not an action; use one such as endpoint.updated, or a prefix such as endpoint.*"
			q.Fail("action", text, action)
		}
	}
	if of, restricted := a.entitiesOf(q, key); restricted {
		out.Entities = slices.DeleteFunc(of, func(name string) bool {
			return len(out.Entities) > 0 && !slices.Contains(out.Entities, name)
		})
		if len(out.Entities) == 0 {
			out.Entities = []string{frame.NoEndpoint}
		}
	}
	span := a.PastWindow(q, frame.SinceNames[:1], frame.UntilNames[:1])
	out.Since, out.Until = span.Since, span.Until
	q.RefuseUnknown()
	return out
}

// entitiesOf reads the filter tenant, and returns the ids of what belongs to those tenants: themselves, their endpoints
// and the destinations of these.
func (a *auditLog) entitiesOf(q *frame.Query, key *config.Key) (all []string, restricted bool) {
	endpoints, restricted := a.TenantEndpoints(q, key)
	for _, name := range q.List("tenant") {
		all = append(all, config.TenantID(key.Account, name))
	}
	for _, name := range endpoints {
		all = append(all, name)
		if e, _ := a.Config.Endpoint(name); e != nil {
			for i := range e.Destinations {
				all = append(all, e.Destinations[i].ID)
			}
		}
	}
	return all, restricted
}
