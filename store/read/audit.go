package read

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/column"
	"github.com/eventrelay/relay/store/read/cluster"
)

// Audit returns one page of the audit log. The first page shows every entry that the topic audit held before the call,
// unless AsOf is set.
func (r *Reader) Audit(ctx context.Context, q audit.Query) (audit.Page, error) {
	ctx, end, asOf, err := r.Begin(ctx, q.Before.IsZero(), r.Fence.WaitAudit)
	defer end()
	page := audit.Page{AsOf: asOf}
	if err != nil {
		return page, err
	}
	s := new(ch.Query).Add(
		`SELECT account, id, at, actor_type, actor, actor_name, action, entity_type, entity, changes, request_id, remote_ip,
		related, node, count, last_at FROM audit WHERE account = `, q.Account)
	auditFilters(s, &q)
	// Without FINAL, which would read the whole log: rows of one id are neighbours, and the newest of them comes first.
	s.Add(" ORDER BY id DESC, ver DESC LIMIT 1 BY id LIMIT ", q.Limit+1)
	idOf := func(e *audit.Entry) id.ID { return e.ID }
	if page.Rows, err = cluster.Merged(ctx, r.Cluster, s, q.Limit+1, idOf, scanAudit); err != nil {
		return audit.Page{}, err
	}
	if len(page.Rows) > q.Limit {
		page.Rows, page.More = page.Rows[:q.Limit], true
	}
	return page, nil
}

// auditFilters appends the conditions of a query. audit.Query.Matches has the same ones.
func auditFilters(s *ch.Query, q *audit.Query) {
	if !q.Before.IsZero() {
		s.Add(" AND id < ", q.Before).Add(" AND at <= ", q.Before.Time())
	}
	if !q.Since.IsZero() {
		s.Add(" AND id >= ", id.Lowest(cluster.CeilMilli(q.Since))).Add(" AND at >= ", cluster.CeilMilli(q.Since))
	}
	if !q.Until.IsZero() {
		s.Add(" AND id < ", id.Lowest(cluster.CeilMilli(q.Until))).Add(" AND at < ", cluster.CeilMilli(q.Until))
	}
	if len(q.Actors) > 0 {
		s.Add(" AND (actor IN ", q.Actors).Add(" OR actor_type IN ", q.Actors).Add(")")
	}
	if len(q.Entities) > 0 {
		s.Add(" AND (entity IN ", q.Entities).Add(" OR related IN ", q.Entities).Add(")")
	}
	for i, action := range q.Actions {
		s.Add([]ch.SQL{" AND (", " OR "}[min(i, 1)])
		if group, all := strings.CutSuffix(action, "*"); all {
			s.Add("startsWith(action, ", group).Add(")")
		} else {
			s.Add("action = ", action)
		}
	}
	if len(q.Actions) > 0 {
		s.Add(")")
	}
}

func scanAudit(rows driver.Rows) (audit.Entry, error) {
	var (
		e         audit.Entry
		actorType string
		ip        [16]byte
		at, last  time.Time
	)
	err := rows.Scan(&e.Account, (*[16]byte)(&e.ID), &at, &actorType, &e.Actor.ID, &e.Actor.Name, &e.Action, &e.EntityType,
		&e.Entity, &e.Changes,
		&e.RequestID, &ip, &e.Related, &e.Node, &e.Count, &last)
	if err != nil {
		return e, fmt.Errorf("scan audit entry: %w", err)
	}
	e.Actor.Type, e.At, e.LastAt, e.RemoteIP = audit.ActorType(actorType), column.TimeFromColumn(at),
		column.TimeFromColumn(last),
		column.IPFromBytes(ip)
	return e, nil
}

// KeyUses returns the last uses of API keys that were used, by the key's id: of these keys, or of all if keys is empty.
func (r *Reader) KeyUses(ctx context.Context, account string, keys []string) (map[string]audit.Use, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	if _, err := r.Fence.WaitAudit(ctx); err != nil { // a store that is behind still serves what it has
		return nil, err
	}
	uses := make(map[string]audit.Use)
	q := new(ch.Query).Add("SELECT key, at, node, remote_ip FROM key_uses FINAL WHERE account = ", account)
	if len(keys) > 0 {
		q.Add(" AND key IN ", keys)
	}
	err := r.Each(ctx, q, func(rows driver.Rows) error {
		var key string
		var u audit.Use
		var ip [16]byte
		err := rows.Scan(&key, &u.At, &u.Node, &ip)
		u.RemoteIP = column.IPFromBytes(ip)
		if u.At.After(uses[key].At) { // each shard has a last use of its own
			uses[key] = u
		}
		return err
	})
	return uses, err
}
