package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// dsns serves the DSNs of applications with the SDK: their configuration, and what they have reported.
type dsns struct {
	*core
	config  DSNs
	senders Senders
	keyring *config.Keyring
	leaks   *secrets.Scanner // masks secrets in names
	baseURL string
}

// dsnView is a DSN in a response. What it received is null while the store does not answer.
type dsnView struct {
	ID             string    `json:"id"`
	Object         string    `json:"object"`
	Name           string    `json:"name"`
	Platform       string    `json:"platform"`
	DSN            string    `json:"dsn"`
	AllowedOrigins []string  `json:"allowed_origins"`
	DailyQuota     *int      `json:"daily_quota"`
	SDK            *string   `json:"sdk"`
	LastReceivedAt web.Time  `json:"last_received_at"`
	Requests24h    *int64    `json:"requests_24h"`
	Reports24h     *int64    `json:"reports_24h"`
	Hits24h        *int64    `json:"hits_24h"`
	Rejected24h    *int64    `json:"rejected_24h"`
	LastError      *string   `json:"last_error"`
	Version        int       `json:"version"`
	CreatedBy      string    `json:"created_by"`
	CreatedAt      web.Time  `json:"created_at"`
	UpdatedAt      web.Time  `json:"updated_at"`
	Warnings       []warning `json:"warnings,omitempty"`
}

// views renders DSNs with what they received.
func (a *dsns) views(ctx context.Context, key *config.Key, all ...*config.DSN) ([]*dsnView, error) {
	if len(all) == 0 {
		return []*dsnView{}, nil
	}
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.ID
	}
	received, err := a.senders.Received(ctx, key.Account, names, a.now().Add(-receivedSpan))
	known := err == nil // otherwise the configuration alone: a DSN can be rotated while the store is unavailable
	out := make([]*dsnView, len(all))
	for i, d := range all {
		public, err := a.config.PublicKey(ctx, d)
		if err != nil {
			return nil, err
		}
		out[i] = &dsnView{
			ID: d.ID, Object: "dsn", Name: d.Name, Platform: d.Platform,
			DSN:            viewerOf(key).dsn(a.baseURL, public, d),
			AllowedOrigins: append([]string{}, d.AllowedOrigins...), Version: d.Version, CreatedBy: d.CreatedBy,
			CreatedAt: web.Time(d.CreatedAt), UpdatedAt: web.Time(d.UpdatedAt),
		}
		if d.DailyQuota > 0 {
			out[i].DailyQuota = &d.DailyQuota
		}
		if known {
			out[i].add(received[d.ID])
		}
	}
	return out, nil
}

// add adds what the DSN has received.
func (v *dsnView) add(x finding.Received) {
	v.Requests24h, v.Reports24h, v.Hits24h, v.Rejected24h = &x.Requests, &x.Lines, &x.Hits, &x.Rejected
	v.LastReceivedAt = web.Time(x.LastAt)
	if x.Platform != "" {
		v.SDK = &x.Platform
	}
	if x.LastError != "" {
		v.LastError = &x.LastError
	}
}

// dsn returns what an application is given. Reports of servers are believed, so their DSNs are shown only to those who
// may change something; everybody who opens a page can read that of a browser.
func (v viewer) dsn(base, public string, d *config.DSN) string {
	if !v.capabilities && d.Platform != config.DSNBrowser {
		public = maskText(public)
	}
	scheme, host, _ := strings.Cut(base, "://")
	return fmt.Sprintf("%s://%s@%s/%s", scheme, public, host, d.ID)
}

func (a *dsns) answerDSN(w http.ResponseWriter, r *http.Request, key *config.Key, status int, d *config.DSN,
	warnings []warning) error {
	views, err := a.views(r.Context(), key, d)
	if err != nil {
		return err
	}
	views[0].Warnings = warnings
	web.WriteJSON(w, status, views[0])
	return nil
}

// dsnInPath returns the DSN that the path names, or the 404.
func (c *core) dsnInPath(r *http.Request, key *config.Key) (*config.DSN, error) {
	d := find(r.Context(), c, c.configReader.DSN, web.InfoOf(r).Vars["dsn"])
	if d == nil || d.Account != key.Account {
		return nil, web.Missing("there is no such DSN")
	}
	return d, nil
}

// merge reads the members of a DSN. The input collects errors and warnings.
func (a *dsns) merge(in *input, body []byte, d *config.DSN) {
	o := in.newObject("", body)
	o.name("name", 1, &d.Name)
	in.maskName(a.leaks, "name", &d.Name)
	platform := d.Platform
	o.enum("platform", &platform, config.DSNPlatforms...)
	switch d.Platform {
	case "":
		d.Platform = platform
		if platform == "" {
			in.fail("platform", "is required: server or browser")
		}
	case platform:
	default:
		in.fail("platform", "cannot be changed, because browsers know the DSN; create another one")
	}
	if o.isNull("allowed_origins") {
		d.AllowedOrigins = nil
	} else if origins := o.array("allowed_origins", config.MaxOrigins); origins != nil {
		d.AllowedOrigins = a.origins(in, origins)
	}
	if d.Platform == config.DSNServer && len(d.AllowedOrigins) > 0 {
		in.fail("allowed_origins", "can only be set if platform is browser: servers send no origin")
	}
	if o.isNull("daily_quota") {
		d.DailyQuota = 0
	} else {
		o.integer("daily_quota", 1, config.MaxDailyQuota, &d.DailyQuota)
	}
	o.sameVersion("DSN", d.Version)
	o.readOnly("id", "object", "dsn", "sdk", "last_received_at", "requests_24h", "reports_24h", "hits_24h",
		"rejected_24h", "last_error", "created_by", "created_at", "updated_at", "warnings")
	o.warnUnknown()
}

// origins returns origins as browsers write them, each once.
func (a *dsns) origins(in *input, texts [][]byte) (all []string) {
	for i, raw := range texts {
		text, err := "", error(nil)
		if kindOf(raw) == kindString {
			text, err = web.DecodeString(raw)
		}
		origin, invalid := config.ParseOrigin(text)
		if err = cmp.Or(err, invalid); err != nil {
			in.fail(indexed("allowed_origins", i), "%v", err)
			return nil
		}
		if !slices.Contains(all, origin) {
			all = append(all, origin)
		}
	}
	return all
}

func (a *dsns) createDSN(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	body, err := a.body(r)
	if err != nil {
		return err
	}
	d := &config.DSN{
		Meta:    config.Meta{ID: newID(r, id.DSN), Account: key.Account, CreatedAt: a.now()},
		Version: 1, CreatedBy: key.ID,
	}
	d.Sealed.Key = a.newKey(d.ID)
	in := &input{}
	if a.merge(in, body, d); in.err != nil {
		return in.err
	}
	d.Name = cmp.Or(d.Name, d.ID[len(d.ID)-defaultNameLength:])
	created, err := createOnce(r.Context(), a.config.CreateDSN, d, a.config.DSN, d.ID)
	if err != nil {
		return err
	}
	return a.answerDSN(w, r, key, http.StatusCreated, created, in.warnings)
}

// newKey returns a sealed key of 128 random bits.
func (a *dsns) newKey(dsn string) config.Sealed {
	return a.keyring.SealString(dsn, config.FieldDSNKey, config.NewDSNKey())
}

func (a *dsns) readDSN(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.catchUp(r.Context())
	d, err := a.dsnInPath(r, key)
	if err != nil {
		return err
	}
	return a.answerDSN(w, r, key, http.StatusOK, d, nil)
}

func (a *dsns) listDSNs(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	p, err := a.configPage(r, newQuery(r, "dsns "+key.Account))
	if err != nil {
		return err
	}
	all, more := a.config.DSNs(key.Account, p.before, p.limit)
	views, err := a.views(r.Context(), key, all...)
	if err != nil {
		return err
	}
	return writeConfigPage(w, p, all, more, views)
}

func (a *dsns) updateDSN(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.dsnInPath(r, key)
	if err != nil {
		return err
	}
	after, in, err := updateWithBody(a.core, r, a.config.UpdateDSN, d.ID, a.merge)
	if err != nil {
		return err
	}
	return a.answerDSN(w, r, key, http.StatusOK, after, in.warnings)
}

// rotateDSN gives the DSN a new key. Reports with the previous one are refused at once.
func (a *dsns) rotateDSN(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.dsnInPath(r, key)
	if err != nil {
		return err
	}
	by := rotatedBy(r)
	after, in, err := updateWithBody(a.core, r, a.config.UpdateDSN, d.ID, func(in *input, body []byte, d *config.DSN) {
		in.newObject("", body).warnUnknown()
		if by == "" || d.KeyRotatedBy != by { // otherwise the first call with the Idempotency-Key has rotated
			d.Sealed.Key, d.KeyRotatedBy = a.newKey(d.ID), by
		}
	})
	if err != nil {
		return err
	}
	return a.answerDSN(w, r, key, http.StatusOK, after, in.warnings)
}

func (a *dsns) deleteDSN(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.dsnInPath(r, key)
	if err != nil {
		return err
	}
	if err := a.config.DeleteDSN(r.Context(), d.ID); err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, deleted{d.ID, "dsn", true})
	return nil
}
