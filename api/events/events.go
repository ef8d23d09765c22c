package events

import (
	"net/http"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// events serves stored events and their attempts.
type events struct {
	*frame.Core
	events   frame.EventReader
	erasures frame.Erasures
	answers  answerLimiter
	failures *transformFailures
	counts   frame.Recent[countsAnswer]
}

func (a *events) listEvents(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	params := frame.NewQuery(r, "events "+frame.ScopeOf(key))
	q := a.eventQuery(params, key)
	if q.Search != nil {
		return a.searchEvents(w, r, params, q)
	}
	limit, last := params.Page()
	if params.Err != nil {
		return params.Err
	}
	q.Limit, q.Before = limit, id.ID(last)
	page, err := a.events.Events(r.Context(), q)
	if err != nil {
		return err
	}
	frame.SetAsOf(w, page.AsOf)
	return a.answers.write(r.Context(), w, rowBytes(page.Rows), func() any {
		out := frame.List[wire.EventRow]{Data: a.rowsOf(page.Rows)}
		if page.More && len(page.Rows) > 0 {
			out.NextCursor = params.Hash.Cursor(frame.RowKey(page.Rows[len(page.Rows)-1].ID))
		}
		return out
	})
}

// rowsOf renders the rows of a list.
func (a *events) rowsOf(all []event.Summary) []wire.EventRow {
	rows := make([]wire.EventRow, len(all))
	for i := range all {
		rows[i] = rowOf(&all[i])
		if at := a.erasures.ErasedAt(all[i].ID); !at.IsZero() {
			rows[i].PayloadErasedAt = web.Time(at)
			setWhy(&rows[i].EventBase, summaryWhy(&all[i]).erased(rows[i].NextAttemptAt))
		} else if halts := a.halts(&all[i]); len(halts) > 0 {
			setWhy(&rows[i].EventBase, rowWhy(&all[i], halts))
		}
	}
	return rows
}

// eventQuery reads the filters of GET /v1/events.
func (a *events) eventQuery(q *frame.Query, key *config.Key) event.Query {
	out := event.Query{Account: key.Account}
	frame.ReadFilters(q, event.Filters, &out)
	a.OfTenant(q, key, &out)
	span := a.PastWindow(q, frame.SinceNames, frame.UntilNames)
	out.Since, out.Until = span.Since, span.Until
	if out.Search = search(q); out.Search != nil {
		a.searchTime(q, &out, span.SinceName)
	}
	q.RefuseUnknown()
	return out
}

func (a *events) readEvent(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.detail(r, key)
	if err != nil {
		return err
	}
	var failures map[string]*wire.TransformFailure
	if a.erasures.ErasedAt(d.ID).IsZero() {
		failures = a.failures.of(r.Context(), d)
	}
	frame.SetAsOf(w, d.AsOf)
	return a.answers.write(r.Context(), w, detailBytes(d), func() any {
		return a.detailOf(a.ViewerOf(key), d, failures)
	})
}

// detail reads the event that the path names.
func (a *events) detail(r *http.Request, key *config.Key) (*event.Detail, error) {
	d, err := a.EventInPath(r, key)
	if err != nil {
		return nil, err
	}
	return a.events.Event(r.Context(), key.Account, d)
}

func (a *events) listAttempts(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.EventInPath(r, key)
	if err != nil {
		return err
	}
	q := frame.NewQuery(r, "attempts "+frame.ScopeOf(key))
	q.Hash.Add(d.String())
	limit, last := q.Page()
	q.RefuseUnknown()
	if q.Err != nil {
		return q.Err
	}
	page, err := a.events.Attempts(r.Context(), key.Account, d, id.ID(last), limit)
	if err != nil {
		return err
	}
	frame.SetAsOf(w, page.AsOf)
	return a.answers.write(r.Context(), w, attemptBytes(page.Rows), func() any {
		out := frame.List[wire.Attempt]{Data: attemptsOf(a.ViewerOf(key), d, page.Rows)}
		if page.More && len(page.Rows) > 0 {
			out.NextCursor = q.Hash.Cursor(frame.RowKey(page.Rows[len(page.Rows)-1].ID))
		}
		return out
	})
}
