package api

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// auditView is one line of GET /v1/audit.
type auditView struct {
	ID        string      `json:"id"`
	Object    string      `json:"object"`
	At        string      `json:"at"`
	Actor     actorView   `json:"actor"`
	Action    string      `json:"action"`
	Entity    entityView  `json:"entity"`
	Changes   []string    `json:"changes"` // names of members, never values
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

// keyUseView says how often a key was used on one node since the entry's time, within about an hour.
type keyUseView struct {
	Count  uint64 `json:"count"`
	LastAt string `json:"last_at"`
	Node   string `json:"node"`
}

func auditOf(e *audit.Entry) auditView {
	v := auditView{
		ID: e.ID.Text(audit.Prefix), Object: "audit_entry", At: e.At.UTC().Format(web.TimeFormat),
		Actor: actorView{e.Actor.Type, textOrNil(e.Actor.ID), textOrNil(e.Actor.Name)}, Action: e.Action,
		Entity: entityView{e.EntityType, e.Entity}, Changes: e.Changes, RequestID: textOrNil(e.RequestID),
	}
	if v.Changes == nil {
		v.Changes = []string{}
	}
	if e.RemoteIP.IsValid() {
		v.RemoteIP = textOrNil(e.RemoteIP.String())
	}
	if e.Action == audit.KeyUsed {
		v.Use = &keyUseView{e.Count, e.LastAt.UTC().Format(web.TimeFormat), e.Node}
	}
	return v
}

func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

var (
	auditParams = []string{"actor", "action", "entity_id", "since", "until", "limit", "cursor"}
	auditLists  = []string{"actor", "action", "entity_id"} // may be sent as name[] too
)

// auditAction is an action or the beginning of actions: endpoint.updated, endpoint.*.
var auditAction = regexp.MustCompile(`^[a-z_]{1,64}\.([a-z_]{1,64}|\*)$`)

// listAudit shows who changed what. What the configuration log has and the store has not yet comes from memory: an
// entry can be read as soon as its change was answered.
func (a *API) listAudit(w http.ResponseWriter, r *http.Request, key *control.Key) error {
	values, err := parseQuery(r)
	if err != nil {
		return err
	}
	q, hash, err := a.auditQuery(values, key.Account)
	if err != nil {
		return err
	}
	limit, last, err := pageOf(values, hash)
	if err != nil {
		return err
	}
	if q.Limit = limit; last != nil {
		q.Before = id.ID(*last)
	}
	// First what is not told yet, then the store: what leaves the one between the two is in the other.
	waiting := a.deps.Audit.Trail(q)
	page, err := a.deps.Audit.Audit(r.Context(), q)
	if err != nil {
		return err
	}
	rows := mergeAudit(waiting, page.Rows)
	out := list[auditView]{Data: make([]auditView, min(len(rows), limit))}
	for i := range out.Data {
		out.Data[i] = auditOf(&rows[i])
	}
	if page.More || len(rows) > limit {
		out.NextCursor = hash.cursor(rows[len(out.Data)-1].ID)
	}
	setAsOf(w, page.AsOf)
	web.WriteJSON(w, http.StatusOK, out)
	return nil
}

// mergeAudit adds to the rows of the store those that wait, each once, the newest first.
func mergeAudit(waiting, rows []audit.Entry) []audit.Entry {
	rows = append(rows, waiting...)
	slices.SortStableFunc(rows, func(a, b audit.Entry) int { return cmp.Compare(string(b.ID[:]), string(a.ID[:])) })
	return slices.CompactFunc(rows, func(a, b audit.Entry) bool { return a.ID == b.ID })
}

// auditQuery reads the filters of the audit log. An unknown one is refused: a log that ignores a filter accuses the
// wrong ones.
func (a *API) auditQuery(values url.Values, account string) (audit.Query, filterHash, error) {
	q := &query{values: values, hash: newFilterHash("audit " + account)}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if base, array := strings.CutSuffix(name, "[]"); !slices.Contains(auditParams, name) && !(array && slices.Contains(auditLists, base)) {
			return audit.Query{}, q.hash, web.Invalid(name, "is no filter of this list%s; the filters are %s", didYouMean(base, auditParams), strings.Join(auditParams, ", "))
		}
	}
	out := audit.Query{Account: account, Actors: q.list("actor"), Actions: q.list("action"), Entities: q.list("entity_id")}
	for _, action := range out.Actions {
		if !auditAction.MatchString(action) {
			q.fail("action", "has %q, which is no action: want one such as endpoint.updated, or endpoint.* for all of them", action)
		}
	}
	var untilName string
	out.Since, _ = q.time("since")
	out.Until, untilName = q.time("until")
	if untilName != "" && !out.Since.Before(out.Until) {
		q.fail(untilName, "must be later than since")
	}
	if now := a.now(); out.Until.After(now) {
		out.Until = time.Time{} // now: nothing is newer
	}
	return out, q.hash, q.err
}
