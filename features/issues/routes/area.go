// Package routes serves what fails at destinations, by cause.
package routes

import (
	"context"
	"embed"
	"errors"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// issues serves what fails at destinations, by cause.
type issues struct {
	frame.Resource[alerting.Issue, *alerting.Issue, *wire.Issue]
}

// Area returns the routes of issues.
func Area(c *frame.Core) frame.Area {
	a := newIssues(c)
	return frame.Area{Routes: a.Routes(), AddNeeds: a.addNeeds, Document: wire.Part{Texts: texts,
		Answers: []any{wire.List[wire.Issue]{}}, Requests: []any{wire.Issue{}}}}
}

// texts describe the operations in the OpenAPI document.
//
//go:embed openapi
var texts embed.FS

var issueStatuses = []string{alerting.IssueOpen, alerting.IssueAcknowledged, alerting.IssueResolved}

func newIssues(c *frame.Core) *issues {
	a := &issues{}
	a.Resource = frame.Resource[alerting.Issue, *alerting.Issue, *wire.Issue]{
		Core: c, Object: "issue", Kept: true, Keep: keepIssues, Own: frame.Methods{"one PATCH": a.patch},
		Views: func(ctx context.Context, _ *config.Key, all ...*alerting.Issue) ([]*wire.Issue, error) {
			views := frame.ViewsOf(all, a.view)
			if len(all) == 1 {
				counting, cancel := context.WithTimeout(ctx, countTimeout)
				defer cancel()
				if failed, _, ok := a.undelivered(counting, all[0]); ok {
					views[0].FailedEvents = &failed
				}
			}
			return views, nil
		},
	}
	return a
}

// keepIssues reads the filters of a list.
func keepIssues(q *frame.Query) func(*alerting.Issue) bool {
	filters := map[string][]string{}
	for _, name := range []string{"status", "endpoint_id", "destination_id"} {
		filters[name] = q.List(name)
	}
	for _, status := range filters["status"] {
		if !slices.Contains(issueStatuses, status) {
			q.Fail("status", "must be open, acknowledged or resolved")
		}
	}
	matches := func(name, value string) bool { return len(filters[name]) == 0 || slices.Contains(filters[name], value) }
	return func(x *alerting.Issue) bool {
		return matches("status", x.Status) && matches("endpoint_id", x.Endpoint) && matches("destination_id", x.Destination)
	}
}

func (a *issues) view(x *alerting.Issue) *wire.Issue {
	v := &wire.Issue{ID: x.ID, Object: "issue", EndpointID: x.Endpoint, DestinationID: x.Destination, Cause: x.Cause,
		Status: x.Status, FirstSeenAt: web.Time(x.FirstAt), LastSeenAt: web.Time(x.LastAt), Count: x.Count,
		Events: x.Events, Reopened: x.Reopened, ResolvedAt: web.Time(x.ResolvedAt), WorksAgainAt: web.Time(x.WorksAt),
		OldestEventAt: web.Time(x.Since()),
		Assignee:      x.Assignee, Note: x.Note,
		CreatedAt: web.Time(x.CreatedAt), UpdatedAt: web.Time(x.UpdatedAt)}
	if v.Events == nil {
		v.Events = []string{}
	}
	if e := a.PresentEndpoint(x.Endpoint, x.Account); e != nil {
		v.EndpointName = &e.Name
		if d := e.Destination(x.Destination); d != nil {
			v.DestinationName = d.Name
		}
	}
	return v
}

func (a *issues) patch(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	x, err := a.InPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	var in *frame.Input
	after, err := entity.Update(r.Context(), a.Config, x.ID, func(x *alerting.Issue) error {
		in = &frame.Input{}
		o, v := in.NewObject("", body), a.view(x)
		o.Decode(v)
		o.WarnUnknown()
		x.Assignee, x.Note = v.Assignee, v.Note
		x.SetStatus(v.Status, a.Now())
		return in.Err
	})
	if errors.Is(err, config.ErrNotFound) {
		return web.Missing("there is no such issue")
	}
	if err != nil {
		return err
	}
	return a.Answer(w, r, key, http.StatusOK, after, in.Warnings)
}

const (
	// maxCounted is how many events of an issue are counted, and maxCountedIssues of how many issues for an overview.
	maxCounted, maxCountedIssues = 1000, 10
	countTimeout                 = time.Second
)

// undelivered counts the events since the oldest that failed, which have not arrived at the destination: those that
// failed for good, and those that are retried or held. ok is false if that is not known, or not of this moment.
func (a *issues) undelivered(ctx context.Context, x *alerting.Issue) (failed, waiting int, ok bool) {
	page, err := a.Events.Events(ctx, event.Query{Account: x.Account, Endpoints: []string{x.Endpoint},
		Destinations: []string{x.Destination}, Since: x.Since(), Limit: maxCounted,
		Statuses: []event.Status{event.Failed, event.Retrying, event.Held}})
	if err != nil || !page.AsOf.IsZero() {
		return 0, 0, false
	}
	for i := range page.Rows {
		for _, d := range page.Rows[i].Deliveries {
			switch {
			case d.Destination != x.Destination:
			case d.Status == event.Failed:
				failed++
			case d.Status == event.Retrying, d.Status == event.Held:
				waiting++
			}
		}
	}
	return failed, waiting, true
}

// addNeeds adds the open issues to what needs a person, but none of a destination that works again and has all events.
// Alerts from before that, which say the same of it, some for an hour, are left out too.
func (a *issues) addNeeds(ctx context.Context, to *wire.OverviewNeeds, account string) {
	unresolved, _ := entity.List(a.Config, account, 0, math.MaxInt, func(x *alerting.Issue) bool {
		return x.Status != alerting.IssueResolved
	})
	slices.SortFunc(unresolved, func(a, b *alerting.Issue) int { return b.LastAt.Compare(a.LastAt) })
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	left, wrong, repaired := maxCountedIssues, map[string]bool{}, map[string]time.Time{}
	for _, x := range unresolved {
		v := a.view(x)
		if !x.WorksAt.IsZero() && left > 0 {
			left--
			failed, waiting, ok := a.undelivered(ctx, x)
			if !ok {
				left = 0 // the store is late, for the others too
			} else if v.FailedEvents = &failed; failed+waiting == 0 {
				repaired[x.Destination] = x.WorksAt
				continue
			}
		}
		if wrong[x.Destination] = true; x.Status == alerting.IssueOpen {
			to.Issues.Add(v)
		}
	}
	to.LeaveOut(func(x *wire.Alert) bool {
		if x.DestinationID == nil || wrong[*x.DestinationID] || !slices.Contains(saidByIssues, x.Rule) {
			return false
		}
		return time.Time(x.FiredAt).Before(repaired[*x.DestinationID])
	})
}

// saidByIssues are the rules of alerts that say no more than an issue of their destination.
var saidByIssues = []string{"delivery_failed", "consecutive_failures", "failure_rate"}
