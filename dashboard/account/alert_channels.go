package account

import (
	"net/url"
	"slices"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/web"
)

// alertChannel is a kind of channel with its form.
type alertChannel struct {
	notify.ChannelKind
	model.ChannelText
	Form *frame.Form
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
func channelFields(k notify.ChannelKind) frame.FieldTable {
	target := frame.TextField
	if k.Mails {
		target = frame.LineField
	}
	return frame.FieldTable{{frame.Checkbox, channelField(k, "enabled")}, {target, channelField(k, k.Member)}}
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
			Form: frame.EditForm(channelValues(s, k)), Set: stored != nil, On: stored != nil && stored["enabled"] == true})
	}
	return p
}

func listChannels(v *frame.Visit, s *wire.AlertSettings) error {
	return v.Page("alert-channels", newChannelsPage(s))
}

// channelOnPage is the channel in the path with the page of all channels.
type channelOnPage struct {
	*channelsPage
	*alertChannel
	stored url.Values
}

func readChannel(v *frame.Visit) (x channelOnPage, err error) {
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
func saveChannel(v *frame.Visit, f *frame.Form, x channelOnPage) error {
	x.Form = f
	compared := x.stored
	if !x.Set {
		compared = nil // all is sent
	}
	after := &wire.AlertSettings{}
	return v.Save(frame.Saving{Form: f, Stored: x.stored, Body: channelFields(x.ChannelKind).Changes(f, compared),
		Call: "PATCH /v1/alerts", Out: after, Back: alertChannelsPath, Again: x.show(v), Then: x.saved(v, after)})
}

// show returns what shows the page of the channels.
func (x channelOnPage) show(v *frame.Visit) func() error {
	return func() error { return v.Page("alert-channels", x.channelsPage) }
}

// rotateChannel makes a new secret of the webhook and shows it once.
func rotateChannel(v *frame.Visit, f *frame.Form, x channelOnPage) error {
	if !x.Signed || !x.Set {
		return web.Missing("This channel has no secret.")
	}
	return changeChannel(v, f, x, frame.Object{"rotate_secret": true})
}

// removeChannel removes a channel: it gets no more alerts.
func removeChannel(v *frame.Visit, f *frame.Form, x channelOnPage) error {
	return changeChannel(v, f, x, nil)
}

// changeChannel changes a channel without its form.
func changeChannel(v *frame.Visit, f *frame.Form, x channelOnPage, change any) error {
	x.Form.Nonce = f.Nonce
	after := &wire.AlertSettings{}
	body := frame.Object{"channels": frame.Object{string(x.Kind): change}}
	return v.Ask("PATCH /v1/alerts", x.Form, body, after, x.show(v), x.saved(v, after))
}

// saved returns what shows the secret of a channel if the answer has it, and warnings.
func (x channelOnPage) saved(v *frame.Visit, after *wire.AlertSettings) func() error {
	return func() error {
		p := newChannelsPage(after)
		stored, _ := after.Channels[x.Kind].(map[string]any)
		if p.Secret = frame.TextOfJSON(stored["secret"]); p.Secret == "" && len(after.Warnings) == 0 {
			return v.Redirect(alertChannelsPath, "Saved")
		}
		return v.Page("alert-channels", p)
	}
}

// testChannels sends a test to every channel and shows each result.
func testChannels(v *frame.Visit, f *frame.Form, s *wire.AlertSettings) error {
	var result wire.AlertTestResult
	if err := v.Do("POST /v1/alerts/test", f, nil, &result); err != nil {
		return err
	}
	p := newChannelsPage(s)
	p.Tested, p.Warnings = result.Results, result.Warnings
	return v.Page("alert-channels", p)
}
