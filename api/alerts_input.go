package api

import (
	"bytes"
	"net/mail"
	"reflect"
	"slices"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/web"
)

// maxMailAddress is the longest path of RFC 5321, 4.5.3.1.3, without its angle brackets, in bytes.
const maxMailAddress = 254

// alertsInput validates a PATCH /v1/alerts and merges it into the alert settings.
type alertsInput struct {
	input
	alerts   *alerts
	revealed string // the webhook's secret if this change set it
}

// merge validates body and merges it into s, which holds the current settings.
func (in *alertsInput) merge(body []byte, s *config.AlertSettings) {
	o := in.newObject("", body)
	o.readOnly("object")
	in.channels(o, s)
	in.flatChannels(o, s)
	x := wire.AlertSettings{Rules: s.Rules, CooldownSeconds: s.CooldownSeconds}
	o.decode(&x, wire.AlertSettings{Rules: config.DefaultAlertRules(), CooldownSeconds: config.DefaultAlertCooldown})
	if percents := x.Rules.Usage.Percent; !slices.Equal(percents, s.Rules.Usage.Percent) {
		slices.Sort(percents)
	}
	s.Rules, s.CooldownSeconds = x.Rules, x.CooldownSeconds
	o.warnUnknown()
}

// channels reads the nested form, {"channels": {"slack": {…}}}.
func (in *alertsInput) channels(o *object, s *config.AlertSettings) {
	if o.isNull("channels") {
		s.Channels = nil
	}
	c := o.object("channels")
	if c == nil {
		return
	}
	for _, k := range notify.Kinds() {
		name := string(k.Kind)
		if c.isNull(name) {
			s.RemoveChannel(name)
		} else if x := c.object(name); x != nil {
			in.channel(x, k, s)
		}
	}
	c.warnUnknown()
}

// flatChannels reads the members that stand for a whole channel, such as slack_webhook_url. The nested form of the same
// request must not say something else.
func (in *alertsInput) flatChannels(o *object, s *config.AlertSettings) {
	for _, k := range notify.Kinds() {
		raw, ok := o.raw(k.Flat)
		if !ok {
			continue
		}
		before := channelOf(s, k)
		if kindOf(raw) == kindNull {
			s.RemoveChannel(string(k.Kind))
		} else {
			members := []web.Member{{Name: k.Member, Value: raw}}
			in.channel(&object{in: &in.input, path: k.Flat, members: members, unnamed: true}, k, s)
		}
		nested, path := nestedChannel(o, k)
		if nested != nil && !bytes.Equal(nested, raw) && !reflect.DeepEqual(before, channelOf(s, k)) {
			o.fail(k.Flat, "means the same as %s; send only one of them", path)
		}
	}
}

// channelOf returns a copy of a channel, the zero one if there is none.
func channelOf(s *config.AlertSettings, k notify.ChannelKind) (c config.AlertChannel) {
	if saved := s.Channel(string(k.Kind)); saved != nil {
		c = *saved
	}
	return c
}

// nestedChannel returns what the nested form has in place of a flat member, and its path; nil if it has nothing.
func nestedChannel(o *object, k notify.ChannelKind) (raw []byte, path string) {
	c := o.object("channels")
	if c == nil {
		return nil, ""
	}
	kind := string(k.Kind)
	if c.isNull(kind) {
		raw, _ = c.raw(kind)
		return raw, c.param(kind)
	}
	x := c.object(kind)
	if x == nil {
		return nil, ""
	}
	raw, _ = x.raw(k.Member)
	return raw, x.param(k.Member)
}

// channel reads one channel. Members that are left out keep their current value.
func (in *alertsInput) channel(o *object, k notify.ChannelKind, s *config.AlertSettings) {
	before := config.AlertChannel{Kind: string(k.Kind), Enabled: true}
	if c := s.Channel(before.Kind); c != nil {
		before = *c
	}
	next := before
	o.boolean("enabled", &next.Enabled)
	if k.Mails {
		in.addresses(o, k.Member, &next.To)
	} else {
		next.URL = in.channelURL(o, k.Member, s.ID, config.FieldAlertURL(next.Kind), next.URL)
	}
	if k.Signed {
		o.readOnly("secret_set")
		in.channelSecret(o, s.ID, &next)
	}
	o.warnUnknown()
	moved := next.URL != before.URL || !slices.Equal(next.To, before.To)
	if _, said := o.raw("enabled"); moved && !said && !next.Enabled {
		in.warn(o.param(k.Member), "is saved, but the channel is disabled and gets nothing: send channels."+next.Kind+
			".enabled true to enable it")
	}
	s.SaveChannel(next)
}

// addresses reads the mail recipients: one address or a list of addresses.
func (in *alertsInput) addresses(o *object, name string, dst *[]string) {
	if raw, ok := o.raw(name); ok && kindOf(raw) == kindString {
		*dst = []string{in.address(o, name, raw)}
	} else if ok {
		elements := o.array(name, config.MaxAlertAddresses)
		*dst = nil
		for i, raw := range elements {
			to := in.address(o, indexed(name, i), raw)
			if slices.ContainsFunc(*dst, func(other string) bool { return strings.EqualFold(other, to) }) {
				o.fail(indexed(name, i), "is listed twice; remove one of them")
			}
			*dst = append(*dst, to)
		}
	}
	if len(*dst) == 0 {
		o.fail(name, "must name 1 to %d mail addresses", config.MaxAlertAddresses)
	}
}

// address reads one mail address without a display name.
func (in *alertsInput) address(o *object, name string, raw []byte) string {
	var text string
	if kindOf(raw) == kindString {
		text, _ = web.DecodeString(raw)
	}
	a, err := mail.ParseAddress(text)
	if err != nil || a.Address != text || len(text) > maxMailAddress || strings.ContainsAny(text, "\r\n") {
		o.fail(name, "must be a mail address such as ops@example.com, at most %d characters", maxMailAddress)
		return ""
	}
	if domains := in.alerts.domains; !domains.Allow(text) {
		o.fail(name, "must be in one of the domains that alert mails may go to (%s); use such an address, or ask the "+
			"operator to extend RELAY_ALERT_DOMAINS", domains)
		return ""
	}
	return notify.ASCIIAddress(text)
}

// channelSecret sets the secret that signs a channel's messages: the one in the request, or a new one when the
// channel is new or rotate_secret is true. The mask of the current secret leaves it unchanged.
func (in *alertsInput) channelSecret(o *object, entity string, next *config.AlertChannel) {
	field := config.FieldAlertSecret(next.Kind)
	rotate := next.Secret == ""
	o.boolean("rotate_secret", &rotate)
	var secret sign.Secret
	if rotate || next.Secret == "" {
		secret = sign.NewSecret()
	}
	var text, old string
	o.text("secret", 1, maxHeaderValue, &text)
	if next.Secret != "" {
		var err error
		if old, err = in.alerts.keyring.OpenString(entity, field, next.Secret); err != nil {
			in.err = err
			return
		}
	}
	if text != "" && text != old && (old == "" || text != sign.Prefix+mask+old[len(old)-4:]) {
		given, err := sign.ParseSecret(text)
		if err != nil {
			o.fail("secret", "%v", err)
			return
		}
		secret = given
	}
	if !secret.IsZero() {
		next.Secret = in.alerts.keyring.SealString(entity, field, secret.Reveal())
		in.revealed = secret.Reveal()
	}
}

// channelURL reads a channel's URL and seals it, because its path is often the only credential. The mask of the
// current URL leaves it unchanged.
func (in *alertsInput) channelURL(o *object, name, entity, field string, current config.Sealed) config.Sealed {
	raw, ok := o.raw(name)
	if !ok {
		if current == "" {
			o.fail(name, "is required")
		}
		return current
	}
	if kindOf(raw) != kindString {
		o.fail(name, "must be %s", kindString)
		return current
	}
	text, err := web.DecodeString(raw)
	if err != nil || len(text) > maxURL {
		o.fail(name, "must be a URL of at most %d characters", maxURL)
		return current
	}
	if current != "" {
		old, err := in.alerts.keyring.OpenString(entity, field, current)
		if err != nil {
			in.err = err
			return current
		}
		if text == old || text == notify.MaskURL(old) {
			return current
		}
	}
	if strings.Contains(text, mask) {
		o.fail(name, "is a masked URL that matches no saved one; send the full URL")
		return current
	}
	u, err := in.alerts.egress.CheckURL(text)
	if err != nil {
		o.fail(name, "%v", err)
		return current
	}
	return in.alerts.keyring.SealString(entity, field, u.String())
}
