package routes

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// receivedSpan is the time of which a drain or a DSN shows what it received.
const receivedSpan = 24 * time.Hour

// addReceived calls add with what each of them has received, unless the store does not answer: they can be paused and
// rotated meanwhile.
func addReceived[P interface{ Owner() (id, account string) }](ctx context.Context, a area, all []P,
	add func(i int, x *finding.Received, view Received)) {
	if len(all) == 0 {
		return
	}
	ids, account := make([]string, len(all)), ""
	for i, x := range all {
		ids[i], account = x.Owner()
	}
	received, err := a.Senders.Received(ctx, account, ids, a.Now().Add(-receivedSpan))
	if err != nil {
		return
	}
	for i, name := range ids {
		x := received[name]
		add(i, &x, Received{LastReceivedAt: web.Time(x.LastAt), Requests24h: &x.Requests, Hits24h: &x.Hits,
			Rejected24h: &x.Rejected})
	}
}

func versioned(version int, createdBy string, m *entity.Meta) Versioned {
	return Versioned{Version: version, Meta: metaView(createdBy, m)}
}

func metaView(createdBy string, m *entity.Meta) wire.Meta {
	return wire.Meta{CreatedBy: createdBy, CreatedAt: web.Time(m.CreatedAt), UpdatedAt: web.Time(m.UpdatedAt)}
}

// drainPath precedes the id and the token in the URL of a drain.
const drainPath = "/drain/"

// States of a drain.
const (
	drainActive = "active"
	drainPaused = "paused"
)

type drainResource = frame.Resource[leak.Drain, *leak.Drain, *Drain]

func newDrains(of area) *drainResource {
	a := drains{of}
	return &drainResource{
		Core: of.Core, Object: "drain", Merge: a.merge, Views: a.views, Rotate: a.rotate,
		Fresh: func(r *http.Request, by *config.Key) *leak.Drain {
			d := &leak.Drain{Meta: a.NewMeta(r, id.Drain, by), Platform: leak.PlatformAuto, Version: 1, CreatedBy: by.ID}
			a.rotate(d, "")
			return d
		},
	}
}

// drains serves log drains: their configuration, and what they have received.
type drains struct{ area }

// rotate gives the drain a new URL with a token of 128 random bits.
func (a drains) rotate(d *leak.Drain, call string) {
	if call == "" || d.TokenRotatedBy != call { // otherwise the first call with the Idempotency-Key has rotated
		d.Sealed.Token, d.TokenRotatedBy = a.Keyring.SealString(d.ID, seal.FieldToken, id.Random("")), call
	}
}

func (a drains) views(ctx context.Context, key *config.Key, all ...*leak.Drain) ([]*Drain, error) {
	out := make([]*Drain, len(all))
	for i, d := range all {
		token, err := a.Keyring.OpenString(d.ID, seal.FieldToken, d.Sealed.Token)
		if err != nil {
			return nil, fmt.Errorf("open the token of %s: %w", d.ID, err)
		}
		out[i] = settingsOfDrain(d)
		out[i].URL = drainURL(frame.ViewerOf(key), a.BaseURL, d.ID, token)
	}
	addReceived(ctx, a.area, all, func(i int, x *finding.Received, view Received) {
		v := out[i]
		v.Received, v.Lines24h, v.Bytes24h = view, &x.Lines, &x.Bytes
		v.DetectedPlatform, v.LastError = frame.OrNull(x.Platform), frame.OrNull(x.LastError)
	})
	return out, nil
}

// settingsOfDrain is what the configuration says of a drain.
func settingsOfDrain(d *leak.Drain) *Drain {
	v := &Drain{ID: d.ID, Object: "drain", Name: d.Name, Platform: d.Platform, Status: drainActive,
		SigningSecretSet: d.Sealed.SigningSecret != "", VerifyCodeSet: d.Sealed.VerifyCode != "",
		Versioned: versioned(d.Version, d.CreatedBy, &d.Meta)}
	if d.Paused {
		v.Status = drainPaused
	}
	return v
}

// drainURL returns the URL to which lines are sent.
func drainURL(v frame.Viewer, base, drain, token string) string {
	if !v.Capabilities {
		token = frame.MaskText(token)
	}
	return base + drainPath + drain + "/" + token
}

// merge reads the members of a drain.
func (a drains) merge(in *frame.Input, o *frame.Object, d *leak.Drain) {
	x := settingsOfDrain(d)
	o.Decode(x)
	in.MaskName(a.LeakScanner, "name", &x.Name)
	d.Name, d.Platform, d.Paused = cmp.Or(x.Name, d.ID[len(d.ID)-frame.DefaultNameLength:]), x.Platform,
		x.Status == drainPaused
	o.SameVersion("drain", d.Version)
	a.secret(o, "signing_secret", d.ID, seal.FieldSigningSecret, x.SigningSecret, &d.Sealed.SigningSecret)
	a.secret(o, "verify_code", d.ID, seal.FieldVerifyCode, x.VerifyCode, &d.Sealed.VerifyCode)
	if d.Sealed.SigningSecret != "" && d.Platform != leak.PlatformAuto && d.Platform != leak.PlatformVercel {
		in.Fail("signing_secret", "can only be set while platform is auto or vercel: no other platform signs; send null")
	}
	o.WarnUnknown()
}

// secret seals a secret that a platform gives to its customer, printable ASCII; nil keeps it, empty removes it.
func (a drains) secret(o *frame.Object, name, drain, field string, text *string, to *seal.Secret) {
	switch {
	case text == nil:
	case *text == "":
		*to = ""
	case strings.ContainsFunc(*text, func(c rune) bool { return c <= ' ' || c > '~' }):
		o.Fail(name, "must be printable ASCII without spaces; copy it from the platform again")
	default:
		if before, err := a.Keyring.OpenString(drain, field, *to); err != nil || before != *text {
			*to = a.Keyring.SealString(drain, field, *text)
		}
	}
}
