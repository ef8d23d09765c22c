package api

import (
	"net/mail"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of alert settings, contract §6.
const (
	maxAlertAddresses = 20
	maxMailAddress    = 254 // bytes (RFC 5321, 4.5.3.1.3, without the angle brackets)
	maxAlertThreshold = 10000
	minAlertWindow    = 60
	maxAlertWindow    = 3600
	maxAlertAttempts  = 100000
	minAlertAge       = 10
	maxAlertAge       = 7 * maxDaySeconds
	maxUsagePercents  = 10
	maxUsagePercent   = 1000
	maxAlertMinutes   = 7 * 24 * 60
)

// severities of findings, the lowest first.
var severities = []string{"low", "medium", "high", "critical"}

// alertsInput merges a request into alert settings.
type alertsInput struct {
	input
	api      *API
	revealed string // the webhook's secret, if this change made it
}

// merge reads body into s, which holds the present values.
func (in *alertsInput) merge(body []byte, s *config.AlertSettings) {
	o := in.newObject("", body)
	o.readOnly("object", "updated_at", "warnings")
	in.channels(o, s)
	in.flat(o, s)
	in.rules(o, &s.Rules)
	if o.isNull("cooldown_seconds") {
		s.CooldownSeconds = config.DefaultAlertCooldown
	} else {
		o.whole("cooldown_seconds", 0, maxDaySeconds, &s.CooldownSeconds)
	}
	o.done()
}

func (in *alertsInput) channels(o *object, s *config.AlertSettings) {
	if o.isNull("channels") {
		s.Email, s.Slack, s.Webhook = nil, nil, nil
	}
	c := o.object("channels")
	if c == nil {
		return
	}
	if c.isNull(config.ChannelEmail) {
		s.Email = nil
	} else if e := c.object(config.ChannelEmail); e != nil {
		in.email(e, s)
	}
	if c.isNull(config.ChannelSlack) {
		s.Slack = nil
	} else if x := c.object(config.ChannelSlack); x != nil {
		in.slack(x, s)
	}
	if c.isNull(config.ChannelWebhook) {
		s.Webhook = nil
	} else if x := c.object(config.ChannelWebhook); x != nil {
		in.webhook(x, s)
	}
	c.done()
}

// flat reads the members that stand for a whole channel: email, slack_webhook_url, webhook_url.
func (in *alertsInput) flat(o *object, s *config.AlertSettings) {
	if raw, ok := o.raw("email"); ok {
		if kindOf(raw) == kindNull {
			s.Email = nil
		} else {
			in.email(&object{in: &in.input, path: "email", members: []web.Member{{Name: "to", Value: raw}}, bare: true}, s)
		}
	}
	for _, f := range []struct {
		name, member string
		remove       func()
		read         func(*object, *config.AlertSettings)
	}{
		{"slack_webhook_url", "webhook_url", func() { s.Slack = nil }, in.slack},
		{"webhook_url", "url", func() { s.Webhook = nil }, in.webhook},
	} {
		raw, ok := o.raw(f.name)
		switch {
		case !ok:
		case kindOf(raw) == kindNull:
			f.remove()
		default:
			f.read(&object{in: &in.input, path: f.name, members: []web.Member{{Name: f.member, Value: raw}}, bare: true}, s)
		}
	}
}

// email reads who gets mail: a list of addresses, or one.
func (in *alertsInput) email(o *object, s *config.AlertSettings) {
	next := config.AlertEmail{Enabled: true}
	if s.Email != nil {
		next = *s.Email
	}
	o.flag("enabled", &next.Enabled)
	if raw, ok := o.raw("to"); ok && kindOf(raw) == kindString {
		next.To = []string{in.address(o, "to", raw)}
	} else if ok {
		elements := o.array("to", maxAlertAddresses)
		next.To = nil
		for i, raw := range elements {
			to := in.address(o, indexed("to", i), raw)
			if slices.ContainsFunc(next.To, func(other string) bool { return strings.EqualFold(other, to) }) {
				o.fail(indexed("to", i), "stands twice")
			}
			next.To = append(next.To, to)
		}
	}
	if len(next.To) == 0 {
		o.fail("to", "must name 1 to %d mail addresses", maxAlertAddresses)
	}
	o.done()
	s.Email = &next
}

// address reads one mail address, without a name.
func (in *alertsInput) address(o *object, name string, raw []byte) string {
	var text string
	if kindOf(raw) == kindString {
		text, _ = web.String(raw)
	}
	a, err := mail.ParseAddress(text)
	if err != nil || a.Address != text || len(text) > maxMailAddress || strings.ContainsAny(text, "\r\n") {
		o.fail(name, "must be a mail address such as ops@example.com, at most %d characters", maxMailAddress)
		return ""
	}
	if domains := in.api.cfg.AlertDomains; !domains.Allow(text) {
		o.fail(name, "is outside the domains that the operator lets alert mails go to (%s); use one of them, or have the operator "+
			"change RELAY_ALERT_DOMAINS", domains)
		return ""
	}
	return notify.ASCIIAddress(text)
}

func (in *alertsInput) slack(o *object, s *config.AlertSettings) {
	next := config.AlertSlack{Enabled: true}
	if s.Slack != nil {
		next = *s.Slack
	}
	o.flag("enabled", &next.Enabled)
	next.URL = in.channelURL(o, "webhook_url", s.ID, config.FieldAlertSlack, next.URL)
	o.done()
	s.Slack = &next
}

func (in *alertsInput) webhook(o *object, s *config.AlertSettings) {
	o.readOnly("secret_set")
	var next config.AlertWebhook
	if s.Webhook != nil {
		next = *s.Webhook
	} else {
		next.Enabled = true
	}
	o.flag("enabled", &next.Enabled)
	next.URL = in.channelURL(o, "url", s.ID, config.FieldAlertWebhook, next.URL)
	in.webhookSecret(o, s, &next)
	o.done()
	s.Webhook = &next
}

// webhookSecret makes the secret of a new channel, makes another when that is asked for, or takes the one that was
// given.
func (in *alertsInput) webhookSecret(o *object, s *config.AlertSettings, next *config.AlertWebhook) {
	rotate := next.Secret == ""
	o.flag("rotate_secret", &rotate)
	var secret sign.Secret
	if rotate || next.Secret == "" {
		secret = sign.NewSecret()
	}
	var text, old string
	o.text("secret", 1, maxHeaderValue, &text)
	if next.Secret != "" {
		var err error
		if old, err = in.api.deps.Keyring.OpenString(s.ID, config.FieldAlertSecret, next.Secret); err != nil {
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
		next.Secret = in.api.deps.Keyring.SealString(s.ID, config.FieldAlertSecret, secret.Reveal())
		in.revealed = secret.Reveal()
	}
}

// channelURL reads a URL, which is kept sealed, for its path is often all that protects it. The mask of the present one
// leaves it.
func (in *alertsInput) channelURL(o *object, name, entity, field string, now config.Sealed) config.Sealed {
	raw, ok := o.raw(name)
	if !ok {
		if now == "" {
			o.fail(name, "is required")
		}
		return now
	}
	if kindOf(raw) != kindString {
		o.fail(name, "must be %s", kindString)
		return now
	}
	text, err := web.String(raw)
	if err != nil || len(text) > maxURL {
		o.fail(name, "must be a URL of at most %d characters", maxURL)
		return now
	}
	if now != "" {
		old, err := in.api.deps.Keyring.OpenString(entity, field, now)
		if err != nil {
			in.err = err
			return now
		}
		if text == old || text == notify.MaskURL(old) {
			return now
		}
	}
	if strings.Contains(text, mask) {
		o.fail(name, "is the mask of another URL; send the whole one")
		return now
	}
	u, err := in.api.deps.Egress.CheckURL(text)
	if err != nil {
		o.fail(name, "%v", err)
		return now
	}
	return in.api.deps.Keyring.SealString(entity, field, u.String())
}
