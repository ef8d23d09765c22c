package account

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// projectionMethod names the method: the use so far, plus the rate of the last seven days for the rest of the
// period.
const projectionMethod = "last_7_days"

// usage serves the usage of an account. The last days and the months that have ended are remembered for recentTime.
type usage struct {
	*area
	days    frame.Recent[*event.UsageDays]
	periods frame.Recent[*event.Usage]
}

func newUsage(of *area) *usage {
	return &usage{of, frame.Recent[*event.UsageDays]{Now: of.Now}, frame.Recent[*event.Usage]{Now: of.Now}}
}

// periodLayout is how a period is written: a month in UTC.
const periodLayout = "2006-01"

// period reads the parameter of that name: the first moment of a month that has ended. It returns the zero time for
// this month, which is the default.
func (a *usage) period(q *frame.Query) time.Time {
	q.Single("period")
	sent := q.List("period")
	if len(sent) == 0 {
		return time.Time{}
	}
	from, err := time.Parse(periodLayout, sent[0])
	now, oldest := a.Now().UTC(), a.Usage.OldestPeriod()
	switch {
	case err != nil || len(sent) > 1:
		q.Fail("period", "must be one month, such as %s", now.AddDate(0, 0, -now.Day()).Format(periodLayout))
	case from.After(now):
		q.Fail("period", "has not begun yet; this month is %s", now.Format(periodLayout))
	case from.Before(oldest):
		q.Fail("period", "is not kept any more; the oldest month is %s", oldest.Format(periodLayout))
	case from.Year() != now.Year() || from.Month() != now.Month():
		return from
	}
	return time.Time{}
}

func (a *usage) readUsage(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := frame.NewQuery(r, "usage")
	from, of := a.period(q), a.scope(q, key)
	if q.RefuseUnknownParameters(); q.Err != nil {
		return q.Err
	}
	u, err := a.read(r.Context(), of, from)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, usageOf(u))
}

// scope is whose usage a key asks for: that of the account, or of a tenant.
func (a *usage) scope(q *frame.Query, key *config.Key) usageScope {
	q.Single("tenant")
	of := usageScope{of: event.UsageOf{Account: key.Account}, name: key.Account}
	endpoints, restricted := a.TenantEndpoints(q, key)
	if !restricted {
		return of
	}
	of.of.Endpoints = endpoints
	name := key.Tenant
	if asked := q.List("tenant"); name == "" && len(asked) > 0 {
		name = asked[0]
	}
	if t := a.Config.Tenant(key.Account, name); t != nil {
		of.of.Created = t.CreatedAt
		if t.AllowanceEvents != nil {
			of.of.Allowance = int64(*t.AllowanceEvents)
		}
	}
	of.name += " " + name + " " + strings.Join(endpoints, " ")
	return of
}

// usageScope is whose usage is counted, and its name among the remembered answers.
type usageScope struct {
	of   event.UsageOf
	name string
}

// read returns the usage of the month that begins at from, or of this month if that is zero.
func (a *usage) read(ctx context.Context, of usageScope, from time.Time) (*event.Usage, error) {
	if from.IsZero() && of.of.Endpoints == nil {
		return a.Usage.Usage(ctx, of.of)
	}
	return a.periods.Get(ctx, of.name+" "+from.Format(periodLayout), func(ctx context.Context) (*event.Usage, error) {
		if from.IsZero() {
			return a.Usage.Usage(ctx, of.of)
		}
		return a.Usage.Period(ctx, of.of, from)
	})
}

func usageOf(u *event.Usage) wire.Usage {
	total := u.Total()
	v := wire.Usage{
		PeriodStart: web.Time(u.From), PeriodEnd: web.Time(u.To), AsOf: web.Time(u.AsOf), Events: usedOf(u.Use),
		Deliveries: u.Deliveries, Attempts: u.Attempts, Bytes: u.Bytes, Overage: wire.Overage{Events: u.Over(total)},
		Projection: wire.Projection{
			Events: u.Projection.Events, OverageEvents: u.Over(u.Projection.Events), Method: projectionMethod, Confidence: "low",
		},
		ByEndpoint: make([]wire.EndpointUsage, len(u.ByEndpoint)), Daily: make([]wire.UsageDay, len(u.Daily)),
	}
	if u.Projection.Certain {
		v.Projection.Confidence = "ok"
	}
	if u.Allowance > 0 {
		remaining := max(0, u.Allowance-total)
		v.Allowance, v.Remaining = &u.Allowance, &remaining
	}
	for i, e := range u.ByEndpoint {
		v.ByEndpoint[i] = usageOfEndpoint(e)
	}
	for i, d := range u.Daily {
		v.Daily[i] = usageOfDay(d)
	}
	return v
}

// readUsageDays returns the usage of the last 30 days.
func (a *usage) readUsageDays(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := frame.NewQuery(r, "usage")
	of := a.scope(q, key)
	if q.RefuseUnknownParameters(); q.Err != nil {
		return q.Err
	}
	u, err := a.days.Get(r.Context(), of.name, func(ctx context.Context) (*event.UsageDays, error) {
		return a.Usage.LastDays(ctx, of.of)
	})
	if err != nil {
		return err
	}
	v := wire.UsageDays{Object: "usage_days", From: web.Time(u.From), To: web.Time(u.To), AsOf: web.Time(u.AsOf),
		Daily: make([]wire.UsageDay, len(u.Daily)), ByEndpoint: make([]wire.EndpointDays, len(u.ByEndpoint))}
	for i, d := range u.Daily {
		v.Daily[i] = usageOfDay(d)
	}
	for i, e := range u.ByEndpoint {
		v.ByEndpoint[i] = wire.EndpointDays{EndpointUsage: usageOfEndpoint(e), Daily: make([]wire.EndpointDay, len(e.Days))}
		for j, d := range e.Days {
			v.ByEndpoint[i].Daily[j] = wire.EndpointDay{Date: d.Day.Format(time.DateOnly), Received: d.Received, Sent: d.Sent,
				Total: d.Total(), Bytes: d.Bytes}
		}
	}
	return web.Answer(w, http.StatusOK, v)
}

func usageOfEndpoint(e event.EndpointUse) wire.EndpointUsage {
	return wire.EndpointUsage{EndpointID: e.Endpoint, Received: e.Received, Sent: e.Sent, Total: e.Total(), Bytes: e.Bytes}
}

func usageOfDay(d event.DayUse) wire.UsageDay {
	return wire.UsageDay{Date: d.Day.Format(time.DateOnly), UsedEvents: usedOf(d.Use), Bytes: d.Bytes}
}

func usedOf(u event.Use) wire.UsedEvents {
	return wire.UsedEvents{Received: u.Received, Sent: u.Sent, Findings: u.Findings, Total: u.Total()}
}
