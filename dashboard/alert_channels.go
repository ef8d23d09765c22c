package dashboard

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

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

// channelTest is the result of the test of a channel.
type channelTest struct {
	Channel    string  `json:"channel"`
	Target     string  `json:"target"`
	Status     string  `json:"status"`
	HTTPStatus *int    `json:"http_status"`
	Error      *string `json:"error"`
	Message    *string `json:"message"`
	DurationMS int64   `json:"duration_ms"`
}

// Title is the name of the channel on pages.
func (t *channelTest) Title() string {
	return cmp.Or(channelTexts[notify.Kind(t.Channel)].Title, t.Channel)
}

// Mark is the result with a mark.
func (t *channelTest) Mark() status {
	switch t.Status {
	case "sent":
		return status{Word: t.Status, Mark: "delivered"}
	case "skipped":
		return status{Word: "disabled", Mark: "skipped"}
	}
	return newStatus(t.Status)
}

// channelsPage is the data of the page of the channels.
type channelsPage struct {
	Channels []*alertChannel
	Secret   string // of the webhook, in the one answer that shows it
	Tested   []*channelTest
	Warnings []warningData
}

// Sends reports whether a test would reach a channel.
func (p *channelsPage) Sends() bool {
	return slices.ContainsFunc(p.Channels, func(c *alertChannel) bool { return c.On })
}

// channelValues are the values of the fields of a channel.
func channelValues(s *alertSettings, k notify.ChannelKind) url.Values {
	values, member := url.Values{}, channelField(k, k.Member)
	stored := s.Channels[string(k.Kind)]
	if stored == nil || stored["enabled"] == true {
		values.Set(channelField(k, "enabled"), "true")
	}
	values.Set(member, textOfJSON(stored[k.Member]))
	if list, ok := stored[k.Member].([]any); ok {
		lines := make([]string, len(list))
		for i := range list {
			lines[i] = textOfJSON(list[i])
		}
		values.Set(member, strings.Join(lines, "\n"))
	}
	return values
}

func newChannelsPage(s *alertSettings) *channelsPage {
	p := &channelsPage{Warnings: s.Warnings}
	for _, k := range notify.Kinds() {
		stored := s.Channels[string(k.Kind)]
		p.Channels = append(p.Channels, &alertChannel{ChannelKind: k, channelText: channelTexts[k.Kind],
			Form: editForm(channelValues(s, k)), Set: stored != nil, On: stored != nil && stored["enabled"] == true})
	}
	return p
}

func listChannels(v *visit) error {
	s, err := readAlertSettings(v)
	if err != nil {
		return err
	}
	return v.page("alert-channels", newChannelsPage(s))
}

// readChannel returns the page of the channels and the channel in the path, with the form that was sent.
func readChannel(v *visit) (*form, *alertSettings, *channelsPage, *alertChannel, error) {
	f, err := v.form()
	if err != nil {
		return nil, nil, nil, nil, err
	}
	s, err := readAlertSettings(v)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	p := newChannelsPage(s)
	for _, c := range p.Channels {
		if string(c.Kind) == v.vars["channel"] {
			return f, s, p, c, nil
		}
	}
	return nil, nil, nil, nil, web.Missing("There is no such channel.")
}

// saveChannel creates a channel or saves what was changed of it. The answer to a new webhook shows its secret.
func saveChannel(v *visit) error {
	f, s, p, c, err := readChannel(v)
	if err != nil {
		return err
	}
	c.Form = f
	stored := channelValues(s, c.ChannelKind)
	x := newEdit(f, stored)
	if name := c.Field("enabled"); x.changed(name) || !c.Set {
		x.body["enabled"] = f.Value(name) == "true"
	}
	if name := c.Field(c.Member); x.changed(name) || !c.Set {
		x.body[c.Member] = x.value(name)
		if c.Mails {
			x.body[c.Member] = asLines(f.Value(name))
		}
	}
	if len(x.body) == 0 {
		return v.redirect(alertChannelsPath, f.unchanged(stored))
	}
	if status, stale := f.isStale(stored); stale {
		v.status = status
		return v.page("alert-channels", p)
	}
	return changeChannel(v, p, c, x.body)
}

// rotateChannel makes a new secret of the webhook and shows it once.
func rotateChannel(v *visit) error {
	f, _, p, c, err := readChannel(v)
	if err != nil {
		return err
	}
	if !c.Signed || !c.Set {
		return web.Missing("This channel has no secret.")
	}
	c.Form.Nonce = f.Nonce
	return changeChannel(v, p, c, map[string]any{"rotate_secret": true})
}

// removeChannel removes a channel: it gets no more alerts.
func removeChannel(v *visit) error {
	_, _, p, c, err := readChannel(v)
	if err != nil {
		return err
	}
	return changeChannel(v, p, c, nil)
}

// changeChannel saves members of a channel, or removes it if there are none.
func changeChannel(v *visit, p *channelsPage, c *alertChannel, members map[string]any) error {
	after := &alertSettings{}
	var change any = members
	if members == nil {
		change = nil
	}
	err := v.send("PATCH", "/v1/alerts", map[string]any{"channels": map[string]any{string(c.Kind): change}}, "", after)
	if x, ok := errors.AsType[*apiError](err); ok && x.Status != http.StatusForbidden {
		v.status = c.Form.reject(x, url.Values{c.Field(c.Member): nil})
		return v.page("alert-channels", p)
	} else if err != nil {
		return err
	}
	secret := textOfJSON(after.Channels[string(c.Kind)]["secret"])
	if secret == "" && len(after.Warnings) == 0 {
		return v.redirect(alertChannelsPath, "Saved")
	}
	p = newChannelsPage(after)
	p.Secret = secret
	return v.page("alert-channels", p)
}

// testChannels sends a test to every channel and shows each result.
func testChannels(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	s, err := readAlertSettings(v)
	if err != nil {
		return err
	}
	var result struct {
		Results  []*channelTest `json:"results"`
		Warnings []warningData  `json:"warnings"`
	}
	if err := v.send("POST", "/v1/alerts/test", map[string]any{}, f.Nonce, &result); err != nil {
		return err
	}
	p := newChannelsPage(s)
	p.Tested, p.Warnings = result.Results, result.Warnings
	return v.page("alert-channels", p)
}
