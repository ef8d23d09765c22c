package dashboard

import (
	"net/url"
	"slices"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/web"
)

// channelText describes a kind of channel in its form.
type channelText struct{ Title, Label, Hint, Placeholder string }

var channelTexts = map[notify.Kind]channelText{
	notify.Email: {"Email", "Addresses, one a line", "At most 20. All of them get each alert.", "ops@example.com"},
	notify.Slack: {"Slack", "Webhook URL", "Of an incoming webhook in Slack.", "https://hooks.slack.com/services/…"},
	notify.Webhook: {"Webhook", "URL", "Gets each alert as signed JSON, as a destination gets an event.",
		"https://example.com/alerts"},
}

// alertChannel is a kind of channel with its form.
type alertChannel struct {
	notify.ChannelKind
	channelText
	Form *form
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
func channelFields(k notify.ChannelKind) fieldTable {
	target := textField
	if k.Mails {
		target = lineField
	}
	return fieldTable{{checkbox, channelField(k, "enabled")}, {target, channelField(k, k.Member)}}
}

// channelValues are the values of the fields of a channel. A new one is enabled.
func channelValues(s *wire.AlertSettings, k notify.ChannelKind) url.Values {
	values := channelFields(k).values(s)
	if s.Channels[k.Kind] == nil {
		values.Set(channelField(k, "enabled"), "true")
	}
	return values
}

func newChannelsPage(s *wire.AlertSettings) *channelsPage {
	p := &channelsPage{Warnings: s.Warnings}
	for _, k := range notify.Kinds() {
		stored, _ := s.Channels[k.Kind].(map[string]any)
		p.Channels = append(p.Channels, &alertChannel{ChannelKind: k, channelText: channelTexts[k.Kind],
			Form: editForm(channelValues(s, k)), Set: stored != nil, On: stored != nil && stored["enabled"] == true})
	}
	return p
}

func listChannels(v *visit, s *wire.AlertSettings) error {
	return v.page("alert-channels", newChannelsPage(s))
}

// channelOnPage is the channel in the path with the page of all channels.
type channelOnPage struct {
	*channelsPage
	*alertChannel
	stored url.Values
}

func readChannel(v *visit) (x channelOnPage, err error) {
	s, err := readAlertSettings(v)
	if err != nil {
		return x, err
	}
	p := newChannelsPage(s)
	for _, c := range p.Channels {
		if string(c.Kind) == v.vars["channel"] {
			return channelOnPage{p, c, channelValues(s, c.ChannelKind)}, nil
		}
	}
	return x, web.Missing("There is no such channel.")
}

// saveChannel creates or changes a channel. The answer to a new webhook shows its secret.
func saveChannel(v *visit, f *form, x channelOnPage) error {
	x.Form = f
	compared := x.stored
	if !x.Set {
		compared = nil // all is sent
	}
	after := &wire.AlertSettings{}
	return v.save(saving{form: f, stored: x.stored, body: channelFields(x.ChannelKind).changes(f, compared),
		call: "PATCH /v1/alerts", out: after, back: alertChannelsPath, again: x.show(v), then: x.saved(v, after)})
}

// show returns what shows the page of the channels.
func (x channelOnPage) show(v *visit) func() error {
	return func() error { return v.page("alert-channels", x.channelsPage) }
}

// rotateChannel makes a new secret of the webhook and shows it once.
func rotateChannel(v *visit, f *form, x channelOnPage) error {
	if !x.Signed || !x.Set {
		return web.Missing("This channel has no secret.")
	}
	return changeChannel(v, f, x, members{"rotate_secret": true})
}

// removeChannel removes a channel: it gets no more alerts.
func removeChannel(v *visit, f *form, x channelOnPage) error { return changeChannel(v, f, x, nil) }

// changeChannel changes a channel without its form.
func changeChannel(v *visit, f *form, x channelOnPage, change any) error {
	x.Form.Nonce = f.Nonce
	after := &wire.AlertSettings{}
	body := members{"channels": members{string(x.Kind): change}}
	return v.ask("PATCH /v1/alerts", x.Form, body, after, x.show(v), x.saved(v, after))
}

// saved returns what shows the secret of a channel if the answer has it, and warnings.
func (x channelOnPage) saved(v *visit, after *wire.AlertSettings) func() error {
	return func() error {
		p := newChannelsPage(after)
		stored, _ := after.Channels[x.Kind].(map[string]any)
		if p.Secret = textOfJSON(stored["secret"]); p.Secret == "" && len(after.Warnings) == 0 {
			return v.redirect(alertChannelsPath, "Saved")
		}
		return v.page("alert-channels", p)
	}
}

// testChannels sends a test to every channel and shows each result.
func testChannels(v *visit, f *form, s *wire.AlertSettings) error {
	var result wire.AlertTestResult
	if err := v.do("POST /v1/alerts/test", f, nil, &result); err != nil {
		return err
	}
	p := newChannelsPage(s)
	p.Tested, p.Warnings = result.Results, result.Warnings
	return v.page("alert-channels", p)
}
