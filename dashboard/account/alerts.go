package account

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/notify"
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
	*ui.FilteredList[*model.Alert]
	ui.EndpointChoices
	Rules  []ui.Option
	Muted  []mutedEndpoint // endpoints of which no alert fires at the moment
	Spans  []ui.Option     // for how long an endpoint can be muted
	Silent bool            // no channel is on, so nothing is sent
	Live   string          // path of the first page, which is followed; empty: it is another one
	// Needs are the causes of the alerts that fire, and Rows the others, on a first page that is not filtered by rule or
	// endpoint.
	Needs []model.Need
}

// maxDiagnosed is how many alerts about signatures say what is wrong with the newest request.
const maxDiagnosed = 3

// group puts the alerts that fire together by cause, as the overview does.
func (p *alertHistory) group(v *ui.Visit) error {
	x, diagnosed := model.NewCauses(v), 0
	for _, a := range p.Rows {
		if a.State != "firing" {
			continue
		}
		need := x.AddAlert(a, a.Subject())
		if a.Rule == "verification_failed" && a.EndpointID != nil && diagnosed < maxDiagnosed {
			diagnosed++
			if err := need.Diagnose(v, *a.EndpointID); err != nil {
				return err
			}
		}
	}
	p.Rows = slices.DeleteFunc(p.Rows, func(a *model.Alert) bool { return a.State == "firing" })
	p.Needs = x.Needs()
	return nil
}

var alertFilters = []string{"state", "rule", "endpoint_id"}

// muteSpans are for how long an endpoint can be muted, in hours.
var muteSpans = []ui.Option{{Value: "1", Text: "1\u00a0hour"}, {Value: "8", Text: "8\u00a0hours"},
	{Value: "24", Text: "1\u00a0day"}, {Value: "168", Text: "7\u00a0days"}}

// listAlerts shows the alerts that fire now and those of the last day.
func listAlerts(v *ui.Visit) error {
	p := &alertHistory{Spans: muteSpans}
	var err error
	p.FilteredList, err = ui.ListRows[*model.Alert](v, "/v1/alerts/history", ui.AlertHistoryPath, alertFilters)
	if err != nil {
		return err
	}
	p.CSV = ui.CSVLink("alerts", p.Filters.Values)
	if p.First {
		p.Live = ui.WithQuery(ui.AlertHistoryPath, p.Filters.Values)
	}
	for i := range model.AlertRules {
		if name := model.AlertRules[i].Name; name != "finding" { // findings have a list of their own
			p.Rules = append(p.Rules, ui.Option{Value: name, Text: model.AlertRules[i].Title})
		}
	}
	if err := model.NameAlerts(v, p.Rows); err != nil {
		return err
	}
	if state := p.Filters.Value("state"); p.First && (!p.Filtered || state == "firing" &&
		p.Filters.Value("rule") == "" && p.Filters.Value("endpoint_id") == "") {
		if err := p.group(v); err != nil {
			return err
		}
	}
	p.EndpointChoices = ui.NewEndpointChoices(v, "")
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
func muteAlerts(v *ui.Visit, f *ui.Form) error {
	var until any
	message := "Its alerts fire again"
	if span := f.Value("hours"); span != "0" {
		hours, err := strconv.Atoi(span)
		if err != nil || !slices.ContainsFunc(muteSpans, func(o ui.Option) bool { return o.Value == span }) {
			return web.Invalid("", "Choose for how long the endpoint is muted.")
		}
		until = v.Now().Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
		message = "Muted. Its alerts pause until the mute ends, then fire for problems that remain."
	}
	call := "PATCH /v1/endpoints/" + url.PathEscape(f.Value("endpoint_id"))
	if err := v.Do(call, f, ui.Object{"alerts": ui.Object{"muted_until": until}}, nil); err != nil {
		return err
	}
	return v.Redirect(ui.AlertHistoryPath, message)
}

// ruleTable returns the fields of the form of the rules.
func ruleTable() ui.FieldTable {
	t := ui.FieldTable{{ui.NumberField, "cooldown_seconds"}}
	for i := range model.AlertRules {
		r := &model.AlertRules[i]
		t = append(t, ui.FieldTable{{ui.Checkbox, r.Field("enabled")}}...)
		for _, m := range r.Members {
			kind := ui.NumberField
			switch {
			case m.Choices != nil:
				kind = ui.TextField
			case r.Name == "usage":
				kind = ui.NumbersField
			}
			t = append(t, ui.FieldTable{{kind, r.Field(m.Name)}}...)
		}
	}
	return t
}

// rulesPage is the data of the page of the rules.
type rulesPage struct {
	Form     *ui.Form
	Rules    []model.AlertRule
	Warnings []wire.Warning
}

var readAlertSettings = ui.ReadAt[wire.AlertSettings]("/v1/alerts")

func alertRulesForm(v *ui.Visit, s *wire.AlertSettings) error {
	return v.Page("alert-rules", &rulesPage{Form: ui.EditForm(ruleTable().Values(s)), Rules: model.AlertRules})
}

// saveAlertRules saves the settings of rules that were changed.
func saveAlertRules(v *ui.Visit, f *ui.Form, s *wire.AlertSettings) error {
	stored := ruleTable().Values(s)
	return v.Save(ui.Saving{Form: f, Stored: stored, Body: ruleTable().Changes(f, stored), Call: "PATCH /v1/alerts",
		Back: alertRulesPath, Again: func() error {
			return v.Page("alert-rules", &rulesPage{Form: f, Rules: model.AlertRules})
		}, Then: ui.Opens(v, alertRulesPath, "Saved")})
}

// alertChannel is a kind of channel with its form.
type alertChannel struct {
	notify.ChannelKind
	model.ChannelText
	Form *ui.Form
	Set  bool // it is configured
	On   bool // it is enabled
}

// Field is the name of a field of the channel's form: that of the API's parameter.
func (c *alertChannel) Field(member string) string { return channelField(c.ChannelKind, member) }

func channelField(k notify.ChannelKind, member string) string {
	return "channels." + string(k.Kind) + "." + member
}

// Path is where the form of the channel is sent.
func (c *alertChannel) Path() string { return alertChannelsPath + "/" + string(c.Kind) }

// channelsPage is the data of the page of the channels.
type channelsPage struct {
	Channels []*alertChannel
	Secret   string // of the webhook, in the one answer that shows it
	Tested   []wire.AlertTestOutcome
	Warnings []wire.Warning
}

// Sends reports whether a test would reach a channel.
func (p *channelsPage) Sends() bool {
	return slices.ContainsFunc(p.Channels, func(c *alertChannel) bool { return c.On })
}

// channelFields are the fields of the form of a channel.
func channelFields(k notify.ChannelKind) ui.FieldTable {
	target := ui.TextField
	if k.Mails {
		target = ui.LineField
	}
	return ui.FieldTable{{ui.Checkbox, channelField(k, "enabled")}, {target, channelField(k, k.Member)}}
}

// channelValues are the values of the fields of a channel. A new one is enabled.
func channelValues(s *wire.AlertSettings, k notify.ChannelKind) url.Values {
	values := channelFields(k).Values(s)
	if s.Channels[k.Kind] == nil {
		values.Set(channelField(k, "enabled"), "true")
	}
	return values
}

func newChannelsPage(s *wire.AlertSettings) *channelsPage {
	p := &channelsPage{Warnings: s.Warnings}
	for _, k := range notify.Kinds() {
		stored, _ := s.Channels[k.Kind].(map[string]any)
		p.Channels = append(p.Channels, &alertChannel{ChannelKind: k, ChannelText: model.ChannelTexts[k.Kind],
			Form: ui.EditForm(channelValues(s, k)), Set: stored != nil, On: stored != nil && stored["enabled"] == true})
	}
	return p
}

func listChannels(v *ui.Visit, s *wire.AlertSettings) error {
	return v.Page("alert-channels", newChannelsPage(s))
}

// channelOnPage is the channel in the path with the page of all channels.
type channelOnPage struct {
	*channelsPage
	*alertChannel
	stored url.Values
}

func readChannel(v *ui.Visit) (x channelOnPage, err error) {
	s, err := readAlertSettings(v)
	if err != nil {
		return x, err
	}
	p := newChannelsPage(s)
	for _, c := range p.Channels {
		if string(c.Kind) == v.Vars["channel"] {
			return channelOnPage{p, c, channelValues(s, c.ChannelKind)}, nil
		}
	}
	return x, web.Missing("There is no such channel.")
}

// saveChannel creates or changes a channel. The answer to a new webhook shows its secret.
func saveChannel(v *ui.Visit, f *ui.Form, x channelOnPage) error {
	x.Form = f
	compared := x.stored
	if !x.Set {
		compared = nil // all is sent
	}
	after := &wire.AlertSettings{}
	return v.Save(ui.Saving{Form: f, Stored: x.stored, Body: channelFields(x.ChannelKind).Changes(f, compared),
		Call: "PATCH /v1/alerts", Out: after, Back: alertChannelsPath, Again: x.show(v), Then: x.saved(v, after)})
}

// show returns what shows the page of the channels.
func (x channelOnPage) show(v *ui.Visit) func() error {
	return func() error { return v.Page("alert-channels", x.channelsPage) }
}

// rotateChannel makes a new secret of the webhook and shows it once.
func rotateChannel(v *ui.Visit, f *ui.Form, x channelOnPage) error {
	if !x.Signed || !x.Set {
		return web.Missing("This channel has no secret.")
	}
	return changeChannel(v, f, x, ui.Object{"rotate_secret": true})
}

// removeChannel removes a channel: it gets no more alerts.
func removeChannel(v *ui.Visit, f *ui.Form, x channelOnPage) error {
	return changeChannel(v, f, x, nil)
}

// changeChannel changes a channel without its form.
func changeChannel(v *ui.Visit, f *ui.Form, x channelOnPage, change any) error {
	x.Form.Nonce = f.Nonce
	after := &wire.AlertSettings{}
	body := ui.Object{"channels": ui.Object{string(x.Kind): change}}
	return v.Ask("PATCH /v1/alerts", x.Form, body, after, x.show(v), x.saved(v, after))
}

// saved returns what shows the secret of a channel if the answer has it, and warnings.
func (x channelOnPage) saved(v *ui.Visit, after *wire.AlertSettings) func() error {
	return func() error {
		p := newChannelsPage(after)
		stored, _ := after.Channels[x.Kind].(map[string]any)
		if p.Secret = ui.TextOfJSON(stored["secret"]); p.Secret == "" && len(after.Warnings) == 0 {
			return v.Redirect(alertChannelsPath, "Saved")
		}
		return v.Page("alert-channels", p)
	}
}

// testChannels sends a test to every channel and shows each result.
func testChannels(v *ui.Visit, f *ui.Form, s *wire.AlertSettings) error {
	var result wire.AlertTestResult
	if err := v.Do("POST /v1/alerts/test", f, nil, &result); err != nil {
		return err
	}
	p := newChannelsPage(s)
	p.Tested, p.Warnings = result.Results, result.Warnings
	return v.Page("alert-channels", p)
}
