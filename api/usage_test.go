package api_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
)

func TestUsage(t *testing.T) {
	c := newClient(t)
	day := func(d int) time.Time { return time.Date(2026, 8, d, 0, 0, 0, 0, time.UTC) }
	u := &event.Usage{
		From: day(1), To: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC),
		Use: event.Use{Received: 7, Sent: 4, Findings: 1, Bytes: 900},
		Figures: event.Figures{
			Daily: []event.DayUse{
				{Day: day(1)}, {Day: day(2), Use: event.Use{Received: 7, Sent: 4, Findings: 1, Bytes: 900}}},
			ByEndpoint: []event.EndpointUse{
				{Endpoint: "ep_a", Use: event.Use{Received: 7, Bytes: 800}},
				{Endpoint: "ep_b", Use: event.Use{Sent: 4, Bytes: 100}}},
			Deliveries: 9, Attempts: 15, AsOf: day(2).Add(1500 * time.Millisecond), Recent: 12, QueryTime: time.Second,
		},
		Projection: event.Projection{Events: 300, Certain: true},
	}
	c.fake.UsageFunc = func(_ context.Context, account string) (*event.Usage, error) {
		if account != configuration.Account().ID {
			t.Errorf("asked for %s", account)
		}
		return u, nil
	}
	const plain = `{
		"period_start":"2026-08-01T00:00:00.000Z","period_end":"2026-09-01T00:00:00.000Z","as_of":"2026-08-02T00:00:01.500Z",
		"events":{"received":7,"sent":4,"findings":1,"total":12},"deliveries":9,"attempts":15,"bytes":900,
		"allowance":null,"remaining":null,"overage":{"events":0},
		"projection":{"events":300,"overage_events":0,"method":"last_7_days","confidence":"ok",
			"overage_amount":null,"currency":null},
		"by_endpoint":[{"endpoint_id":"ep_a","received":7,"sent":0,"total":7,"bytes":800},
			{"endpoint_id":"ep_b","received":0,"sent":4,"total":4,"bytes":100}],
		"daily":[{"date":"2026-08-01","received":0,"sent":0,"findings":0,"total":0,"bytes":0},
			{"date":"2026-08-02","received":7,"sent":4,"findings":1,"total":12,"bytes":900}]}`
	var want map[string]any
	if err := json.Unmarshal([]byte(plain), &want); err != nil {
		t.Fatal(err)
	}
	f := func() {
		t.Helper()
		if diff := gocmp.Diff(want, c.as(readKey).do("GET", "/v1/usage", nil).want(200).Body); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	f()
	agree := func(allowance int64, remaining, over, projected float64) {
		t.Helper()
		u.Allowance = allowance
		want["allowance"], want["remaining"] = float64(allowance), remaining
		want["overage"] = map[string]any{"events": over}
		want["projection"].(map[string]any)["overage_events"] = projected
		f()
	}
	agree(13, 1, 0, 287)
	agree(12, 0, 0, 288)
	agree(11, 0, 1, 289)
	agree(301, 289, 0, 0)
	u.Projection.Certain = false
	want["projection"].(map[string]any)["confidence"] = "low"
	f()

	u = &event.Usage{From: day(1), To: day(2), Figures: event.Figures{AsOf: day(1)}}
	a := c.do("GET", "/v1/usage", nil).want(200)
	for _, list := range []string{"by_endpoint", "daily"} {
		if rows, ok := a.get(list).([]any); !ok || len(rows) != 0 {
			t.Errorf("%s of an account that has used nothing: %s", list, a.raw)
		}
	}
	c.fake.UsageFunc = func(context.Context, string) (*event.Usage, error) { return nil, event.ErrUnavailable }
	c.do("GET", "/v1/usage", nil).wantError(503, "unavailable", "")
	c.do("POST", "/v1/usage", nil).wantError(404, "not_found", "")
	c.as("").do("GET", "/v1/usage", nil).wantError(401, "authentication_required", "")
}

// The last 30 days have all days of the account, and the days with any use of the busiest endpoints. They are read once
// in ten seconds.
func TestUsageDays(t *testing.T) {
	c := newClient(t)
	day := func(d int) time.Time { return time.Date(2026, 8, d, 0, 0, 0, 0, time.UTC) }
	use := event.Use{Received: 7, Sent: 4, Findings: 1, Bytes: 900}
	reads := 0
	c.fake.LastDaysFunc = func() (*event.UsageDays, error) {
		reads++
		return &event.UsageDays{From: day(1), To: day(3), Figures: event.Figures{AsOf: day(2),
			Daily: []event.DayUse{{Day: day(1)}, {Day: day(2), Use: use}},
			ByEndpoint: []event.EndpointUse{{Endpoint: "ep_a", Use: event.Use{Received: 7, Bytes: 800},
				Days: []event.DayUse{{Day: day(2), Use: event.Use{Received: 7, Bytes: 800}}}}}}}, nil
	}
	const text = `{"object":"usage_days","from":"2026-08-01T00:00:00.000Z","to":"2026-08-03T00:00:00.000Z",
		"as_of":"2026-08-02T00:00:00.000Z",
		"daily":[{"date":"2026-08-01","received":0,"sent":0,"findings":0,"total":0,"bytes":0},
			{"date":"2026-08-02","received":7,"sent":4,"findings":1,"total":12,"bytes":900}],
		"by_endpoint":[{"endpoint_id":"ep_a","received":7,"sent":0,"total":7,"bytes":800,
			"daily":[{"date":"2026-08-02","received":7,"sent":0,"total":7,"bytes":800}]}]}`
	var want map[string]any
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if diff := gocmp.Diff(want, c.as(readKey).do("GET", "/v1/usage/daily", nil).want(200).Body); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	if reads != 1 {
		t.Errorf("%d reads for three callers", reads)
	}
	c.do("GET", "/v1/usage/daily?days=7", nil).wantError(400, "invalid_request", "days")
	away := newClient(t)
	away.fake.LastDaysFunc = func() (*event.UsageDays, error) { return nil, event.ErrUnavailable }
	away.do("GET", "/v1/usage/daily", nil).wantError(503, "unavailable", "")
}
