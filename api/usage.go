package api

import (
	"context"
	"net/http"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// usageView is the response to GET /v1/usage. Deliveries and attempts are counted at least once.
type usageView struct {
	PeriodStart web.Time        `json:"period_start"`
	PeriodEnd   web.Time        `json:"period_end"`
	AsOf        web.Time        `json:"as_of"`
	Events      usedView        `json:"events"`
	Deliveries  int64           `json:"deliveries"`
	Attempts    int64           `json:"attempts"`
	Bytes       int64           `json:"bytes"`
	Allowance   *int64          `json:"allowance"`
	Remaining   *int64          `json:"remaining"`
	Overage     overageView     `json:"overage"`
	Projection  projectionView  `json:"projection"`
	ByEndpoint  []endpointUsage `json:"by_endpoint"`
	Daily       []dayUsage      `json:"daily"`
}

type usedView struct {
	Received int64 `json:"received"`
	Sent     int64 `json:"sent"`
	Findings int64 `json:"findings"`
	Total    int64 `json:"total"`
}

type overageView struct {
	Events int64 `json:"events"`
}

// projectionView has no amounts, because this version has no prices.
type projectionView struct {
	Events        int64   `json:"events"`
	OverageEvents int64   `json:"overage_events"`
	Method        string  `json:"method"`
	Confidence    string  `json:"confidence"`
	OverageAmount *int64  `json:"overage_amount"`
	Currency      *string `json:"currency"`
}

type endpointUsage struct {
	EndpointID string `json:"endpoint_id"`
	Received   int64  `json:"received"`
	Sent       int64  `json:"sent"`
	Total      int64  `json:"total"`
	Bytes      int64  `json:"bytes"`
}

type dayUsage struct {
	Date string `json:"date"`
	usedView
	Bytes int64 `json:"bytes"`
}

// projectionMethod names the method: the use so far, plus the rate of the last seven days for the rest of the
// period.
const projectionMethod = "last_7_days"

// usageDaysView is the response to GET /v1/usage/daily.
type usageDaysView struct {
	Object     string         `json:"object"`
	From       web.Time       `json:"from"`
	To         web.Time       `json:"to"`
	AsOf       web.Time       `json:"as_of"`
	Daily      []dayUsage     `json:"daily"`
	ByEndpoint []endpointDays `json:"by_endpoint"`
}

// endpointDays is the usage of one endpoint with its days.
type endpointDays struct {
	endpointUsage
	Daily []endpointDay `json:"daily"`
}

type endpointDay struct {
	Date     string `json:"date"`
	Received int64  `json:"received"`
	Sent     int64  `json:"sent"`
	Total    int64  `json:"total"`
	Bytes    int64  `json:"bytes"`
}

// usage serves the usage of an account. The last days and the months that have ended are remembered for recentTime.
type usage struct {
	usage   Usage
	now     func() time.Time
	days    recent[*event.UsageDays]
	periods recent[*event.Usage]
}

func newUsage(c *core, u Usage) *usage {
	return &usage{usage: u, now: c.now, days: recent[*event.UsageDays]{now: c.now},
		periods: recent[*event.Usage]{now: c.now}}
}

// periodLayout is how a period is written: a month in UTC.
const periodLayout = "2006-01"

// period reads the parameter of that name: the first moment of a month that has ended. It returns the zero time for
// this month, which is the default.
func (a *usage) period(q *query) time.Time {
	q.single("period")
	sent := q.list("period")
	if len(sent) == 0 {
		return time.Time{}
	}
	from, err := time.Parse(periodLayout, sent[0])
	now, oldest := a.now().UTC(), a.usage.OldestPeriod()
	switch {
	case err != nil || len(sent) > 1:
		q.fail("period", "must be one month, such as %s", now.AddDate(0, 0, -now.Day()).Format(periodLayout))
	case from.After(now):
		q.fail("period", "has not begun yet; this month is %s", now.Format(periodLayout))
	case from.Before(oldest):
		q.fail("period", "is not kept any more; the oldest month is %s", oldest.Format(periodLayout))
	case from.Year() != now.Year() || from.Month() != now.Month():
		return from
	}
	return time.Time{}
}

func (a *usage) readUsage(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := newQuery(r, "usage")
	from := a.period(q)
	if q.refuseUnknownParameters(); q.err != nil {
		return q.err
	}
	u, err := a.read(r.Context(), key.Account, from)
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, usageOf(u))
	return nil
}

// read returns the usage of the month that begins at from, or of this month if that is zero.
func (a *usage) read(ctx context.Context, account string, from time.Time) (*event.Usage, error) {
	if from.IsZero() {
		return a.usage.Usage(ctx, account)
	}
	return a.periods.get(ctx, account+" "+from.Format(periodLayout), func(ctx context.Context) (*event.Usage, error) {
		return a.usage.Period(ctx, account, from)
	})
}

func usageOf(u *event.Usage) usageView {
	total := u.Total()
	v := usageView{
		PeriodStart: web.Time(u.From), PeriodEnd: web.Time(u.To), AsOf: web.Time(u.AsOf), Events: usedOf(u.Use),
		Deliveries: u.Deliveries, Attempts: u.Attempts, Bytes: u.Bytes, Overage: overageView{u.Over(total)},
		Projection: projectionView{
			Events: u.Projection.Events, OverageEvents: u.Over(u.Projection.Events), Method: projectionMethod, Confidence: "low",
		},
		ByEndpoint: make([]endpointUsage, len(u.ByEndpoint)), Daily: make([]dayUsage, len(u.Daily)),
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
	q := newQuery(r, "usage")
	if q.refuseUnknownParameters(); q.err != nil {
		return q.err
	}
	u, err := a.days.get(r.Context(), key.Account, func(ctx context.Context) (*event.UsageDays, error) {
		return a.usage.LastDays(ctx, key.Account)
	})
	if err != nil {
		return err
	}
	v := usageDaysView{Object: "usage_days", From: web.Time(u.From), To: web.Time(u.To), AsOf: web.Time(u.AsOf),
		Daily: make([]dayUsage, len(u.Daily)), ByEndpoint: make([]endpointDays, len(u.ByEndpoint))}
	for i, d := range u.Daily {
		v.Daily[i] = usageOfDay(d)
	}
	for i, e := range u.ByEndpoint {
		v.ByEndpoint[i] = endpointDays{usageOfEndpoint(e), make([]endpointDay, len(e.Days))}
		for j, d := range e.Days {
			v.ByEndpoint[i].Daily[j] = endpointDay{d.Day.Format(time.DateOnly), d.Received, d.Sent, d.Total(), d.Bytes}
		}
	}
	web.WriteJSON(w, http.StatusOK, v)
	return nil
}

func usageOfEndpoint(e event.EndpointUse) endpointUsage {
	return endpointUsage{e.Endpoint, e.Received, e.Sent, e.Total(), e.Bytes}
}

func usageOfDay(d event.DayUse) dayUsage {
	return dayUsage{d.Day.Format(time.DateOnly), usedOf(d.Use), d.Bytes}
}

func usedOf(u event.Use) usedView { return usedView{u.Received, u.Sent, u.Findings, u.Total()} }
