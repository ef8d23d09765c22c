package api

import (
	"net/http"
	"regexp"
	"slices"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// auditView is one entry of GET /v1/audit.
type auditView struct {
	ID        string      `json:"id"`
	Object    string      `json:"object"`
	At        string      `json:"at"`
	Actor     actorView   `json:"actor"`
	Action    string      `json:"action"`
	Entity    entityView  `json:"entity"`
	Changes   []string    `json:"changes"` // names of members, never values
	RelatedID *string     `json:"related_id"`
	RequestID *string     `json:"request_id"`
	RemoteIP  *string     `json:"remote_ip"`
	Use       *keyUseView `json:"use"`
}

type actorView struct {
	Type audit.ActorType `json:"type"`
	ID   *string         `json:"id"`
	Name *string         `json:"name"`
}

type entityView struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// keyUseView counts the uses of a key on one node since the entry's time, within about an hour.
type keyUseView struct {
	Count  uint64 `json:"count"`
	LastAt string `json:"last_at"`
	Node   string `json:"node"`
}

func auditViewOf(e *audit.Entry) auditView {
	v := auditView{
		ID: e.ID.Text(audit.Prefix), Object: "audit_entry", At: e.At.UTC().Format(web.TimeFormat),
		Actor: actorView{e.Actor.Type, orNull(e.Actor.ID), orNull(e.Actor.Name)}, Action: e.Action,
		Entity: entityView{e.EntityType, e.Entity}, Changes: e.Changes, RequestID: orNull(e.RequestID),
		RelatedID: orNull(e.Related),
	}
	if v.Changes == nil {
		v.Changes = []string{}
	}
	if e.RemoteIP.IsValid() {
		v.RemoteIP = orNull(e.RemoteIP.String())
	}
	if e.Action == audit.KeyUsed {
		v.Use = &keyUseView{e.Count, e.LastAt.UTC().Format(web.TimeFormat), e.Node}
	}
	return v
}

// auditAction matches an action or a prefix of actions: endpoint.updated, endpoint.*.
var auditAction = regexp.MustCompile(`^[a-z_]{1,64}\.([a-z_]{1,64}|\*)$`)

// auditLog serves the audit log.
type auditLog struct {
	*core
	audit AuditLog
}

// listAudit lists who changed what. Entries that the store does not have yet come from the outbox in memory, so an
// entry is visible as soon as its change was answered.
func (a *auditLog) listAudit(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	params := newQuery(r, "audit "+key.Account)
	q := a.auditQuery(params, key.Account)
	limit, last := params.page()
	if params.err != nil {
		return params.err
	}
	q.Limit, q.Before = limit, id.ID(last)
	// The outbox is read before the store: an entry that leaves the outbox in between is then in the store.
	outbox := a.audit.Outbox(q)
	page, err := a.audit.Audit(r.Context(), q)
	if err != nil {
		return err
	}
	rows := mergeAudit(outbox, page.Rows)
	out := list[auditView]{Data: make([]auditView, min(len(rows), limit))}
	for i := range out.Data {
		out.Data[i] = auditViewOf(&rows[i])
	}
	if page.More || len(rows) > limit {
		out.NextCursor = params.hash.cursor(rowKey(rows[len(out.Data)-1].ID))
	}
	setAsOf(w, page.AsOf)
	web.WriteJSON(w, http.StatusOK, out)
	return nil
}

// mergeAudit merges the outbox into the rows of the store: each entry once, newest first.
func mergeAudit(outbox, rows []audit.Entry) []audit.Entry {
	rows = append(rows, outbox...)
	slices.SortStableFunc(rows, func(a, b audit.Entry) int { return b.ID.Compare(a.ID) })
	return slices.CompactFunc(rows, func(a, b audit.Entry) bool { return a.ID == b.ID })
}

// auditQuery reads the filters of the audit log.
func (a *auditLog) auditQuery(q *query, account string) audit.Query {
	out := audit.Query{Account: account, Actors: q.list("actor"), Actions: q.list("action"), Entities: q.list("entity_id")}
	for _, action := range out.Actions {
		if !auditAction.MatchString(action) {
			const text = "has %q, which is not an action; use one such as endpoint.updated, or a prefix such as endpoint.*"
			q.fail("action", text, action)
		}
	}
	span := a.pastWindow(q, sinceNames[:1], untilNames[:1])
	out.Since, out.Until = span.since, span.until
	q.refuseUnknown()
	return out
}
