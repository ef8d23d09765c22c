package routes

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
)

type dsnResource = frame.Resource[leak.DSN, *leak.DSN, *DSN]

func newDSNs(of area) *dsnResource {
	a := dsns{of}
	return &dsnResource{
		Core: of.Core, Object: "dsn", Missing: "there is no such DSN", Merge: a.merge, Views: a.views,
		Rotate: a.rotate,
		Fresh: func(r *http.Request, by *config.Key) *leak.DSN {
			d := &leak.DSN{Meta: a.NewMeta(r, id.DSN, by), Version: 1, CreatedBy: by.ID}
			a.rotate(d, "")
			return d
		},
	}
}

// dsns serves the DSNs of applications with the SDK: their configuration, and what they have reported.
type dsns struct{ area }

// rotate gives the DSN a new key of 128 random bits.
func (a dsns) rotate(d *leak.DSN, call string) {
	if call == "" || d.KeyRotatedBy != call { // otherwise the first call with the Idempotency-Key has rotated
		d.Sealed.Key, d.KeyRotatedBy = a.Keyring.SealString(d.ID, seal.FieldDSNKey, leak.NewDSNKey()), call
	}
}

func (a dsns) views(ctx context.Context, key *config.Key, all ...*leak.DSN) ([]*DSN, error) {
	out := make([]*DSN, len(all))
	for i, d := range all {
		public, err := a.Control.PublicKey(ctx, d)
		if err != nil {
			return nil, err
		}
		out[i] = settingsOfDSN(d)
		out[i].DSN = addressOf(frame.ViewerOf(key), a.BaseURL, public, d)
	}
	addReceived(ctx, a.area, all, func(i int, x *finding.Received, view Received) {
		v := out[i]
		v.Received, v.Reports24h, v.SDK, v.LastError = view, &x.Lines, frame.OrNull(x.Platform), frame.OrNull(x.LastError)
	})
	return out, nil
}

// settingsOfDSN is what the configuration says of a DSN.
func settingsOfDSN(d *leak.DSN) *DSN {
	v := &DSN{ID: d.ID, Object: "dsn", Name: d.Name, Platform: d.Platform,
		AllowedOrigins: append([]string{}, d.AllowedOrigins...), Versioned: versioned(d.Version, d.CreatedBy, &d.Meta)}
	if quota := d.DailyQuota; quota > 0 {
		v.DailyQuota = &quota // not that of d, which merge changes
	}
	return v
}

// addressOf returns what an application is given. Reports of servers are believed, so their DSNs are shown only to
// those who may change something; everybody who opens a page can read that of a browser.
func addressOf(v frame.Viewer, base, public string, d *leak.DSN) string {
	if !v.Capabilities && d.Platform != leak.DSNBrowser {
		public = frame.MaskText(public)
	}
	scheme, host, _ := strings.Cut(base, "://")
	return fmt.Sprintf("%s://%s@%s/%s", scheme, public, host, d.ID)
}

// merge reads the members of a DSN.
func (a dsns) merge(in *frame.Input, o *frame.Object, d *leak.DSN) {
	x := settingsOfDSN(d)
	o.Decode(x)
	in.MaskName(a.LeakScanner, "name", &x.Name)
	d.Name, d.DailyQuota = cmp.Or(x.Name, d.ID[len(d.ID)-frame.DefaultNameLength:]), 0
	switch d.Platform {
	case "":
		if d.Platform = x.Platform; d.Platform == "" {
			in.Fail("platform", "is required: server or browser")
		}
	case x.Platform:
	default:
		in.Fail("platform", "cannot be changed, because browsers know the DSN; create another one")
	}
	d.AllowedOrigins = a.origins(in, x.AllowedOrigins)
	if d.Platform == leak.DSNServer && len(d.AllowedOrigins) > 0 {
		in.Fail("allowed_origins", "can only be set if platform is browser: servers send no origin")
	}
	if x.DailyQuota != nil {
		d.DailyQuota = *x.DailyQuota
	}
	o.SameVersion("DSN", d.Version)
	o.WarnUnknown()
}

// origins returns origins as browsers write them, each once.
func (a dsns) origins(in *frame.Input, texts []string) (all []string) {
	for i, text := range texts {
		origin, err := leak.ParseOrigin(text)
		if err != nil {
			in.Fail(frame.Indexed("allowed_origins", i), "%v", err)
			return nil
		}
		if !slices.Contains(all, origin) {
			all = append(all, origin)
		}
	}
	return all
}
