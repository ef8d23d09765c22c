package account

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/web"
)

// alerts serves an account's alert settings.
type alerts struct{ *area }

// alertsView renders the settings. revealed is the webhook secret that this response may show, empty for none.
func (a *alerts) alertsView(s *alerting.AlertSettings, revealed string) (*wire.AlertSettings, error) {
	saved, err := notify.OpenChannels(a.Keyring, s)
	if err != nil {
		return nil, err
	}
	v := &wire.AlertSettings{Rules: s.Rules, CooldownSeconds: s.CooldownSeconds, UpdatedAt: web.Time(s.UpdatedAt)}
	v.Channels = make(map[notify.Kind]any)
	for _, k := range notify.Kinds() {
		v.Channels[k.Kind] = nil
		if i := slices.IndexFunc(saved, func(c notify.SavedChannel) bool { return c.Kind == k.Kind }); i >= 0 {
			v.Channels[k.Kind] = channelView(k, saved[i], revealed)
			if k.Mails && saved[i].Enabled && !a.Notifier.CanMail() {
				v.Warnings = append(v.Warnings, frame.Warning{Param: "channels." + string(k.Kind),
					Message: "no mail server is configured (RELAY_SMTP_URL), so no mail is sent"})
			}
		}
	}
	return v, nil
}

// channelView renders a channel in the nested form that a request may send back.
func channelView(k notify.ChannelKind, c notify.SavedChannel, revealed string) map[string]any {
	view := map[string]any{"enabled": c.Enabled, k.Member: notify.MaskURL(c.URL)}
	if k.Mails {
		view[k.Member] = c.To
	}
	if k.Signed {
		view["secret_set"] = true
		if revealed != "" {
			view["secret"] = revealed
		}
	}
	return view
}

func (a *alerts) readAlerts(w http.ResponseWriter, r *http.Request, _ *config.Key) error {
	a.CatchUp(r.Context())
	view, err := a.alertsView(a.Config.AlertSettings(), "")
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, view)
}

func (a *alerts) updateAlerts(w http.ResponseWriter, r *http.Request, _ *config.Key) error {
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	var in *alertsInput
	after, err := a.Config.UpdateAlertSettings(r.Context(), func(s *alerting.AlertSettings) error {
		in = &alertsInput{alerts: a}
		in.merge(body, s)
		return in.Err
	})
	if err != nil {
		return err
	}
	view, err := a.alertsView(after, in.revealed)
	if err != nil {
		return err
	}
	view.Warnings = append(view.Warnings, in.Warnings...)
	return web.Answer(w, http.StatusOK, view)
}

// Values of wire.AlertTestResult.Status.
const (
	testSent    = "sent"
	testFailed  = "failed"
	testSkipped = "skipped" // the channel is disabled
)

// testAlerts sends a test message through every configured channel at the same time and reports the result of each.
func (a *alerts) testAlerts(w http.ResponseWriter, r *http.Request, _ *config.Key) error {
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	var in frame.Input
	o := in.NewObject("", body)
	o.WarnUnknown()
	if in.Err != nil {
		return in.Err
	}
	saved, err := notify.OpenChannels(a.Keyring, a.Config.AlertSettings())
	if err != nil {
		return err
	}
	if len(saved) == 0 {
		in.Warn("channels", "no alert channel is configured, so nothing was sent; add one with PATCH /v1/alerts")
	} else {
		end, err := a.startAlertTest(r.Context(), countMails(saved))
		if err != nil {
			return err
		}
		defer end()
	}
	answer := wire.AlertTestResult{Results: a.testChannels(r.Context(), saved), Warnings: in.Warnings}
	for _, t := range answer.Results {
		switch t.Status {
		case testSent:
			answer.Sent++
		case testFailed:
			answer.Failed++
		}
	}
	return web.Answer(w, http.StatusOK, answer)
}

// testChannels sends the test message to all enabled channels at the same time and waits for the results; each
// channel takes at most notify.Timeout.
func (a *alerts) testChannels(ctx context.Context, saved []notify.SavedChannel) []wire.AlertTestOutcome {
	message := a.testMessage()
	results := make([]wire.AlertTestOutcome, len(saved))
	var all sync.WaitGroup
	for i, c := range saved {
		t := &results[i]
		t.Channel, t.Target, t.Status = c.Kind, c.Target(), testSkipped
		if !c.Enabled {
			continue
		}
		all.Go(func() {
			r := a.Notifier.Send(ctx, c.Channel, message)
			t.OK, t.Status, t.DurationMS = r.OK, testSent, r.Duration.Milliseconds()
			if r.Code != 0 {
				t.HTTPStatus = &r.Code
			}
			if !r.OK {
				t.Status, t.Error, t.Message = testFailed, &r.Error, &r.Message
			}
		})
	}
	all.Wait()
	return results
}

// testMessage has the form of an alert message but reports no alert.
func (a *alerts) testMessage() notify.Message {
	link := a.cfg.DashboardURL + "/app"
	return notify.Message{
		ID: id.Random("alrt_"), Type: "alert.test", At: a.Now(), Link: link,
		Title: "Test alert from EventRelay",
		Text:  "A test of every alert channel was requested through the API. Nothing is wrong.",
		Data:  notify.AlertData{Rule: "test", DashboardURL: link},
	}
}

// Values of wire.Alert.State.
const (
	alertFiring   = "firing"
	alertResolved = "resolved"
)

// alertRules are the rules that have alerts of their own.
var alertRules = alerting.AlertRuleNames()

func newAlertView(x *alerting.Alert) *wire.Alert {
	messageType, _, _ := strings.Cut(x.ID, "/")
	v := &wire.Alert{
		ID: id.AlertOf(x.ID), Object: "alert", Type: "alert." + messageType, Rule: x.Rule,
		EndpointID:    frame.OrNull(x.Endpoint),
		DestinationID: frame.OrNull(x.Destination), State: alertResolved, Value: x.Value, Threshold: x.Threshold,
		FiredAt: web.Time(x.FiredAt), ResolvedAt: web.Time(x.Since),
	}
	if strings.HasPrefix(x.Subject, id.Recovery) {
		v.RecoveryID = &x.Subject
	}
	if x.Firing {
		v.State, v.ResolvedAt = alertFiring, web.Time{}
	}
	return v
}

// listAlerts lists the alerts that fire and those that were resolved in the last 25 hours, in the order in which they
// fired for the first time.
func (a *alerts) listAlerts(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := frame.NewQuery(r, "alerts "+frame.ScopeOf(key))
	states := frame.EnumFilter(q, "state", alertFiring, alertResolved)
	rules := frame.EnumFilter(q, "rule", alertRules...)
	endpoints, ofTenant := q.List("endpoint_id", "endpoint"), a.TenantFilter(q, key)
	p, err := a.ConfigPage(r, q)
	if err != nil {
		return err
	}
	has := func(values []string, value string) bool { return len(values) == 0 || slices.Contains(values, value) }
	alerts, more := a.Config.AlertPage(key.Account, p.Before, p.Limit, func(x *alerting.Alert) bool {
		state := alertResolved
		if x.Firing {
			state = alertFiring
		}
		return slices.Contains(alertRules, x.Rule) && has(rules, x.Rule) && has(states, state) &&
			has(endpoints, x.Endpoint) && ofTenant(x.Endpoint)
	})
	return frame.WriteConfigPage(w, p, alerts, more, frame.ViewsOf(alerts, newAlertView))
}
