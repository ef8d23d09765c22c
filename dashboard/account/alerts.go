package account

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/pkg/web"
)

// Paths of the pages of alerts.
const (
	alertsPath        = "/app/alerts"
	alertRulesPath    = alertsPath + "/rules"
	alertChannelsPath = alertsPath + "/channels"
)

// alertHistory is the data of the list of alerts.
type alertHistory struct {
	*frame.FilteredList[*model.Alert]
	frame.EndpointChoices
	Rules  []frame.Option
	Muted  []mutedEndpoint // endpoints of which no alert fires at the moment
	Spans  []frame.Option  // for how long an endpoint can be muted
	Silent bool            // no channel is on, so nothing is sent
}

var alertFilters = []string{"state", "rule", "endpoint_id"}

// muteSpans are for how long an endpoint can be muted, in hours.
var muteSpans = []frame.Option{{Value: "1", Text: "1\u00a0hour"}, {Value: "8", Text: "8\u00a0hours"},
	{Value: "24", Text: "1\u00a0day"}, {Value: "168", Text: "7\u00a0days"}}

// listAlerts shows the alerts that fire now and those of the last day.
func listAlerts(v *frame.Visit) error {
	p := &alertHistory{Spans: muteSpans}
	var err error
	p.FilteredList, err = frame.ListRows[*model.Alert](v, "/v1/alerts/history", frame.AlertHistoryPath, alertFilters)
	if err != nil {
		return err
	}
	p.CSV = frame.CSVLink("alerts", p.Filters.Values)
	for i := range model.AlertRules {
		if name := model.AlertRules[i].Name; name != "finding" { // findings have a list of their own
			p.Rules = append(p.Rules, frame.Option{Value: name, Text: model.AlertRules[i].Title})
		}
	}
	if err := model.NameAlerts(v, p.Rows); err != nil {
		return err
	}
	p.EndpointChoices = frame.NewEndpointChoices(v, "")
	for _, x := range p.Endpoints {
		if until := model.MutedUntil(v, x.Value); !until.IsZero() {
			p.Muted = append(p.Muted, mutedEndpoint{x.Value, x.Text, until})
		}
	}
	settings, err := readAlertSettings(v)
	if err != nil {
		return err
	}
	p.Silent = !newChannelsPage(settings).Sends()
	return v.Page("alerts", p)
}

// mutedEndpoint is an endpoint of which no alert fires at the moment.
type mutedEndpoint struct {
	ID, Name string
	Until    time.Time
}

// muteAlerts mutes an endpoint for some hours; 0 hours end it.
func muteAlerts(v *frame.Visit, f *frame.Form) error {
	var until any
	message := "Its alerts fire again"
	if span := f.Value("hours"); span != "0" {
		hours, err := strconv.Atoi(span)
		if err != nil || !slices.ContainsFunc(muteSpans, func(o frame.Option) bool { return o.Value == span }) {
			return web.Invalid("", "Choose for how long the endpoint is muted.")
		}
		until = v.Now().Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
		message = "Muted. Its alerts pause until the mute ends, then fire for problems that remain."
	}
	call := "PATCH /v1/endpoints/" + url.PathEscape(f.Value("endpoint_id"))
	if err := v.Do(call, f, frame.Object{"alerts": frame.Object{"muted_until": until}}, nil); err != nil {
		return err
	}
	return v.Redirect(frame.AlertHistoryPath, message)
}

// ruleTable returns the fields of the form of the rules.
func ruleTable() frame.FieldTable {
	t := frame.FieldTable{{frame.NumberField, "cooldown_seconds"}}
	for i := range model.AlertRules {
		r := &model.AlertRules[i]
		t = append(t, frame.FieldTable{{frame.Checkbox, r.Field("enabled")}}...)
		for _, m := range r.Members {
			kind := frame.NumberField
			switch {
			case m.Choices != nil:
				kind = frame.TextField
			case r.Name == "usage":
				kind = frame.NumbersField
			}
			t = append(t, frame.FieldTable{{kind, r.Field(m.Name)}}...)
		}
	}
	return t
}

// rulesPage is the data of the page of the rules.
type rulesPage struct {
	Form     *frame.Form
	Rules    []model.AlertRule
	Warnings []wire.Warning
}

var readAlertSettings = frame.ReadAt[wire.AlertSettings]("/v1/alerts")

func alertRulesForm(v *frame.Visit, s *wire.AlertSettings) error {
	return v.Page("alert-rules", &rulesPage{Form: frame.EditForm(ruleTable().Values(s)), Rules: model.AlertRules})
}

// saveAlertRules saves the settings of rules that were changed.
func saveAlertRules(v *frame.Visit, f *frame.Form, s *wire.AlertSettings) error {
	stored := ruleTable().Values(s)
	return v.Save(frame.Saving{Form: f, Stored: stored, Body: ruleTable().Changes(f, stored), Call: "PATCH /v1/alerts",
		Back: alertRulesPath, Again: func() error {
			return v.Page("alert-rules", &rulesPage{Form: f, Rules: model.AlertRules})
		}, Then: frame.Opens(v, alertRulesPath, "Saved")})
}
