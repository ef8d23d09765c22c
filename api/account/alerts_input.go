package account

import (
	"bytes"
	"fmt"
	"net/mail"
	"reflect"
	"slices"
	"strings"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/web"
)

// maxMailAddress is the longest path of RFC 5321, 4.5.3.1.3, without its angle brackets, in bytes.
const maxMailAddress = 254

// alertsInput validates a PATCH /v1/alerts and merges it into the alert settings.
type alertsInput struct {
	frame.Input
	alerts   *alerts
	revealed string // the webhook's secret if this change set it
}

// merge validates body and merges it into s, which holds the current settings.
func (in *alertsInput) merge(body []byte, s *alerting.AlertSettings) {
	o := in.NewObject("", body)
	o.ReadOnly("object")
	in.channels(o, s)
	in.flatChannels(o, s)
	x := wire.AlertSettings{Rules: s.Rules, CooldownSeconds: s.CooldownSeconds}
	o.Decode(&x, wire.AlertSettings{Rules: alerting.DefaultAlertRules(), CooldownSeconds: alerting.DefaultAlertCooldown})
	if percents := x.Rules.Usage.Percent; !slices.Equal(percents, s.Rules.Usage.Percent) {
		slices.Sort(percents)
	}
	s.Rules, s.CooldownSeconds = x.Rules, x.CooldownSeconds
	o.WarnUnknown()
}

// channels reads the nested form, {"channels": {"slack": {…}}}.
func (in *alertsInput) channels(o *frame.Object, s *alerting.AlertSettings) {
	if o.IsNull("channels") {
		s.Channels = nil
	}
	c := o.Object("channels")
	if c == nil {
		return
	}
	for _, k := range notify.Kinds() {
		name := string(k.Kind)
		if c.IsNull(name) {
			s.RemoveChannel(name)
		} else if x := c.Object(name); x != nil {
			in.channel(x, k, s)
		}
	}
	c.WarnUnknown()
}

// flatChannels reads the members that stand for a whole channel, such as slack_webhook_url. The nested form of the same
// request must not say something else.
func (in *alertsInput) flatChannels(o *frame.Object, s *alerting.AlertSettings) {
	for _, k := range notify.Kinds() {
		raw, ok := o.Raw(k.Flat)
		if !ok {
			continue
		}
		before := channelOf(s, k)
		if frame.KindOf(raw) == frame.KindNull {
			s.RemoveChannel(string(k.Kind))
		} else {
			members := []web.Member{{Name: k.Member, Value: raw}}
			in.channel(&frame.Object{In: &in.Input, Path: k.Flat, Members: members, Unnamed: true}, k, s)
		}
		nested, path := nestedChannel(o, k)
		if nested != nil && !bytes.Equal(nested, raw) && !reflect.DeepEqual(before, channelOf(s, k)) {
			o.Fail(k.Flat, "means the same as %s; send only one of them", path)
		}
	}
}

// channelOf returns a copy of a channel, the zero one if there is none.
func channelOf(s *alerting.AlertSettings, k notify.ChannelKind) (c alerting.AlertChannel) {
	if saved := s.Channel(string(k.Kind)); saved != nil {
		c = *saved
	}
	return c
}

// nestedChannel returns what the nested form has in place of a flat member, and its path; nil if it has nothing.
func nestedChannel(o *frame.Object, k notify.ChannelKind) (raw []byte, path string) {
	c := o.Object("channels")
	if c == nil {
		return nil, ""
	}
	kind := string(k.Kind)
	if c.IsNull(kind) {
		raw, _ = c.Raw(kind)
		return raw, c.Param(kind)
	}
	x := c.Object(kind)
	if x == nil {
		return nil, ""
	}
	raw, _ = x.Raw(k.Member)
	return raw, x.Param(k.Member)
}

// channel reads one channel. Members that are left out keep their current value.
func (in *alertsInput) channel(o *frame.Object, k notify.ChannelKind, s *alerting.AlertSettings) {
	before := alerting.AlertChannel{Kind: string(k.Kind), Enabled: true}
	if c := s.Channel(before.Kind); c != nil {
		before = *c
	}
	next := before
	o.Boolean("enabled", &next.Enabled)
	if k.Mails {
		in.addresses(o, k.Member, &next.To)
	} else {
		next.URL = in.channelURL(o, k.Member, s.ID, alerting.FieldAlertURL(next.Kind), next.URL)
	}
	if k.Signed {
		o.ReadOnly("secret_set")
		in.channelSecret(o, s.ID, &next)
	}
	o.WarnUnknown()
	moved := next.URL != before.URL || !slices.Equal(next.To, before.To)
	if _, said := o.Raw("enabled"); moved && !said && !next.Enabled {
		in.Warn(o.Param(k.Member), "is saved, but the channel is disabled and gets nothing: send channels."+next.Kind+
			".enabled true to enable it")
	}
	s.SaveChannel(next)
}

// addresses reads the mail recipients: one address or a list of addresses.
func (in *alertsInput) addresses(o *frame.Object, name string, dst *[]string) {
	if raw, ok := o.Raw(name); ok && frame.KindOf(raw) == frame.KindString {
		*dst = []string{in.address(o, name, raw)}
	} else if ok {
		elements := o.Array(name, alerting.MaxAlertAddresses)
		*dst = nil
		for i, raw := range elements {
			to := in.address(o, frame.Indexed(name, i), raw)
			if slices.ContainsFunc(*dst, func(other string) bool { return strings.EqualFold(other, to) }) {
				o.Fail(frame.Indexed(name, i), "is listed twice; remove one of them")
			}
			*dst = append(*dst, to)
		}
	}
	if len(*dst) == 0 {
		o.Fail(name, "must name 1 to %d mail addresses", alerting.MaxAlertAddresses)
	}
}

// address reads one mail address without a display name.
func (in *alertsInput) address(o *frame.Object, name string, raw []byte) string {
	var text string
	if frame.KindOf(raw) == frame.KindString {
		text, _ = web.DecodeString(raw)
	}
	a, err := mail.ParseAddress(text)
	if err != nil || a.Address != text || len(text) > maxMailAddress || strings.ContainsAny(text, "\r\n") {
		o.Fail(name, "must be a mail address such as ops@example.com, at most %d characters", maxMailAddress)
		return ""
	}
	if domains := in.alerts.cfg.AlertDomains; !domains.Allow(text) {
		o.Fail(name, "must be in one of the domains that alert mails may go to (%s); use such an address, or ask the "+
			"operator to extend RELAY_ALERT_DOMAINS", domains)
		return ""
	}
	return notify.ASCIIAddress(text)
}

// channelSecret sets the secret that signs a channel's messages: the one in the request, or a new one when the
// channel is new or rotate_secret is true. The mask of the current secret leaves it unchanged.
func (in *alertsInput) channelSecret(o *frame.Object, entity string, next *alerting.AlertChannel) {
	field := alerting.FieldAlertSecret(next.Kind)
	rotate := next.Secret == ""
	o.Boolean("rotate_secret", &rotate)
	var secret sign.Secret
	if rotate || next.Secret == "" {
		secret = sign.NewSecret()
	}
	var text, old string
	o.Text("secret", 1, frame.MaxHeaderValue, &text)
	if next.Secret != "" {
		var err error
		if old, err = in.alerts.Keyring.OpenString(entity, field, next.Secret); err != nil {
			in.Err = err
			return
		}
	}
	if text != "" && text != old && (old == "" || text != sign.Prefix+frame.Mask+old[len(old)-4:]) {
		given, err := sign.ParseSecret(text)
		if err == nil && given.Algorithm() != sign.HMAC {
			err = fmt.Errorf("must begin with %q: alerts are signed with %s", sign.Prefix, sign.HMAC)
		}
		if err != nil {
			o.Fail("secret", "%v", err)
			return
		}
		secret = given
	}
	if !secret.IsZero() {
		next.Secret = in.alerts.Keyring.SealString(entity, field, secret.Reveal())
		in.revealed = secret.Reveal()
	}
}

// channelURL reads a channel's URL and seals it, because its path is often the only credential. The mask of the
// current URL leaves it unchanged.
func (in *alertsInput) channelURL(o *frame.Object, name, entity, field string, current seal.Secret) seal.Secret {
	raw, ok := o.Raw(name)
	if !ok {
		if current == "" {
			o.Fail(name, "is required")
		}
		return current
	}
	if frame.KindOf(raw) != frame.KindString {
		o.Fail(name, "must be %s", frame.KindString)
		return current
	}
	text, err := web.DecodeString(raw)
	if err != nil || len(text) > frame.MaxURL {
		o.Fail(name, "must be a URL of at most %d characters", frame.MaxURL)
		return current
	}
	if current != "" {
		old, err := in.alerts.Keyring.OpenString(entity, field, current)
		if err != nil {
			in.Err = err
			return current
		}
		if text == old || text == notify.MaskURL(old) {
			return current
		}
	}
	if strings.Contains(text, frame.Mask) {
		o.Fail(name, "is a masked URL that matches no saved one; send the full URL")
		return current
	}
	u, err := in.alerts.Egress.CheckURL(text)
	if err != nil {
		o.Fail(name, "%v", err)
		return current
	}
	return in.alerts.Keyring.SealString(entity, field, u.String())
}
