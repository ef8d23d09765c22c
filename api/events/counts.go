package events

import (
	"context"
	"net/http"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// maxCounted is how many events a count reads. An answer that counted all events of a busy day would cost as much as a
// hundred pages of a list.
const maxCounted = 1000

// maxCountSteps is how many steps of time a count has.
const maxCountSteps = 60

// countSteps are the lengths of a step, the shortest first.
var countSteps = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute,
	15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 70 * 24 * time.Hour}

// countsAnswer is a shared answer.
type countsAnswer struct {
	view wire.CountedEvents
	asOf time.Time
}

// countEvents counts the newest events that match the filters of a list, by status and by time. Callers with the same
// filters share an answer for some seconds.
func (a *events) countEvents(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	params := frame.NewQuery(r, "counts "+frame.ScopeOf(key))
	q := a.eventQuery(params, key)
	if q.Search != nil {
		params.Fail("q", "events are not counted by their texts: leave out q, body and header")
	}
	for _, name := range []string{"limit", "cursor"} { // of lists
		if params.Values.Has(name) {
			params.Fail(name, "is not a parameter: the newest %d events are counted", maxCounted)
		}
	}
	if params.Err != nil {
		return params.Err
	}
	q.Limit = maxCounted
	filters := params.Hash.Cursor(frame.RowKey{})
	x, err := a.counts.Get(r.Context(), filters, func(ctx context.Context) (countsAnswer, error) {
		page, err := a.events.Events(ctx, q)
		return countsAnswer{countsOf(page.Rows, page.More), page.AsOf}, err
	})
	if err != nil {
		return err
	}
	frame.SetAsOf(w, x.asOf)
	web.WriteJSON(w, http.StatusOK, x.view)
	return nil
}

// countsOf counts rows, which are sorted newest first.
func countsOf(rows []event.Summary, more bool) wire.CountedEvents {
	out := wire.CountedEvents{Object: "event_counts", Counted: len(rows), More: more, StepSeconds: 1,
		Steps: []wire.CountedStep{}}
	if len(rows) == 0 {
		return out
	}
	span, step := rows[0].ID.Time().Sub(rows[len(rows)-1].ID.Time()), countSteps[0]
	for _, longer := range countSteps {
		if step = longer; span <= maxCountSteps*step {
			break
		}
	}
	out.StepSeconds = int64(step / time.Second)
	for i := len(rows) - 1; i >= 0; i-- {
		at := web.Time(rows[i].ID.Time().UTC().Truncate(step))
		if n := len(out.Steps); n == 0 || out.Steps[n-1].At != at {
			out.Steps = append(out.Steps, wire.CountedStep{At: at})
		}
		count(&out.Statuses, rows[i].Status)
		count(&out.Steps[len(out.Steps)-1].StatusCounts, rows[i].Status)
	}
	return out
}

func count(c *wire.StatusCounts, s event.Status) {
	switch s {
	case event.Delivered:
		c.Delivered++
	case event.Failed:
		c.Failed++
	case event.Retrying:
		c.Retrying++
	case event.Skipped:
		c.Skipped++
	case event.Rejected:
		c.Rejected++
	default:
		c.Pending++
	}
}
