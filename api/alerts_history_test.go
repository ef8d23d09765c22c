package api_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The list has the alerts that fire and the resolved ones, page by page, and no record that is not an alert.
func TestAlertHistory(t *testing.T) {
	c := newClient(t)
	endpoint := "ep_alert_history"
	at := time.Date(2026, 9, 1, 12, 0, 0, 123e6, time.UTC)
	save := func(name string, alter func(*alerting.Alert)) {
		t.Helper()
		_, err := configuration.ChangeAlert(t.Context(), name, func(x *alerting.Alert) error {
			x.Endpoint = endpoint
			alter(x)
			return nil
		})
		must.Do(t, err)
		t.Cleanup(func() {
			is.OK(t, configuration.ForgetAlert(context.WithoutCancel(t.Context()), name))
		})
	}
	save("destination.failing/"+endpoint+"/dst_one", func(x *alerting.Alert) {
		x.Rule, x.Destination, x.Firing = "consecutive_failures", "dst_one", true
		x.Since, x.FiredAt, x.Value, x.Threshold = at, at, 22, 20
	})
	save("destination.held/"+endpoint+"/dst_one", func(x *alerting.Alert) {
		x.Rule, x.Destination, x.FiredAt, x.Since = "destination_state", "dst_one", at, at.Add(time.Minute)
		x.Value = "breaker_open"
	})
	save("recovery.ended/"+endpoint+"/rec_one", func(x *alerting.Alert) {
		x.Rule, x.Subject, x.FiredAt, x.Since, x.Value = "recovery", "rec_one", at, at, "stopped"
	})
	save("finding/77", func(x *alerting.Alert) { x.Rule, x.Since, x.FiredAt = "finding", at, at })

	all := c.do("GET", "/v1/alerts/history?endpoint_id="+endpoint, nil).want(200)
	must.Equal(t, len(all.get("data").([]any)), 3, "alerts: %s", all.raw)
	firing := c.do("GET", "/v1/alerts/history?state=firing&endpoint="+endpoint, nil).want(200)
	want := `"object":"alert","type":"alert.destination.failing","rule":"consecutive_failures",` +
		`"endpoint_id":"` + endpoint + `","destination_id":"dst_one","recovery_id":null,"state":"firing",` +
		`"value":22,"threshold":20,"fired_at":"2026-09-01T12:00:00.123Z","resolved_at":null}]}`
	if !strings.HasPrefix(string(firing.raw), `{"data":[{"id":"alrt_`) || !strings.Contains(string(firing.raw), want) {
		t.Errorf("got  %s\nwant %s", firing.raw, want)
	}
	var states []string
	for query := "?limit=1&state=resolved&endpoint=" + endpoint; query != ""; {
		page := c.as(readKey).do("GET", "/v1/alerts/history"+query, nil).want(200)
		states = append(states, page.text("data.0.type")+" "+page.text("data.0.resolved_at"))
		cursor, more := page.get("next_cursor").(string)
		if query = ""; more {
			query = "?limit=1&state=resolved&endpoint=" + endpoint + "&cursor=" + cursor
		}
	}
	if got := strings.Join(states, ", "); got != "alert.recovery.ended 2026-09-01T12:00:00.123Z, "+
		"alert.destination.held 2026-09-01T12:01:00.123Z" {
		t.Error(got)
	}
	c.do("GET", "/v1/alerts/history?state=open", nil).wantError(400, "invalid_request", "state")
	c.do("GET", "/v1/alerts/history?rule=finding", nil).wantError(400, "invalid_request", "rule")
	c.do("GET", "/v1/alerts/history?status=firing", nil).wantError(400, "invalid_request", "status")
}
