package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// drains serves log drains: their configuration, and what they have received.
type drains struct {
	*core
	config  Drains
	senders Senders
	keyring *config.Keyring
	leaks   *secrets.Scanner // masks secrets in names
	baseURL string
}

// States of a drain.
const (
	drainActive = "active"
	drainPaused = "paused"
)

// drainPath precedes the id and the token in the URL of a drain.
const drainPath = "/drain/"

// receivedSpan is the time of which a drain shows what it received.
const receivedSpan = 24 * time.Hour

// drainView is a drain in a response. What it received is null while the store does not answer.
type drainView struct {
	ID               string    `json:"id"`
	Object           string    `json:"object"`
	Name             string    `json:"name"`
	Platform         string    `json:"platform"`
	Status           string    `json:"status"`
	URL              string    `json:"url"`
	SigningSecretSet bool      `json:"signing_secret_set"`
	VerifyCodeSet    bool      `json:"verify_code_set"`
	DetectedPlatform *string   `json:"detected_platform"`
	LastReceivedAt   web.Time  `json:"last_received_at"`
	Requests24h      *int64    `json:"requests_24h"`
	Lines24h         *int64    `json:"lines_24h"`
	Bytes24h         *int64    `json:"bytes_24h"`
	Hits24h          *int64    `json:"hits_24h"`
	Rejected24h      *int64    `json:"rejected_24h"`
	LastError        *string   `json:"last_error"`
	Version          int       `json:"version"`
	CreatedBy        string    `json:"created_by"`
	CreatedAt        web.Time  `json:"created_at"`
	UpdatedAt        web.Time  `json:"updated_at"`
	Warnings         []warning `json:"warnings,omitempty"`
}

// views renders drains with what they received.
func (a *drains) views(ctx context.Context, key *config.Key, all ...*config.Drain) ([]*drainView, error) {
	if len(all) == 0 {
		return []*drainView{}, nil
	}
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.ID
	}
	received, err := a.senders.Received(ctx, key.Account, names, a.now().Add(-receivedSpan))
	known := err == nil // otherwise the configuration alone: a drain can be paused while the store is unavailable
	out := make([]*drainView, len(all))
	for i, d := range all {
		token, err := a.keyring.OpenString(d.ID, config.FieldToken, d.Sealed.Token)
		if err != nil {
			return nil, fmt.Errorf("open the token of %s: %w", d.ID, err)
		}
		out[i] = &drainView{
			ID: d.ID, Object: "drain", Name: d.Name, Platform: d.Platform, Status: statusOf(d),
			URL: viewerOf(key).drainURL(a.baseURL, d.ID, token), Version: d.Version, CreatedBy: d.CreatedBy,
			CreatedAt: web.Time(d.CreatedAt), UpdatedAt: web.Time(d.UpdatedAt),
			SigningSecretSet: d.Sealed.SigningSecret != "", VerifyCodeSet: d.Sealed.VerifyCode != "",
		}
		if known {
			out[i].add(received[d.ID])
		}
	}
	return out, nil
}

func statusOf(d *config.Drain) string {
	if d.Paused {
		return drainPaused
	}
	return drainActive
}

// add adds what the drain has received.
func (v *drainView) add(x finding.Received) {
	v.Requests24h, v.Lines24h, v.Bytes24h, v.Hits24h, v.Rejected24h = &x.Requests, &x.Lines, &x.Bytes, &x.Hits,
		&x.Rejected
	v.LastReceivedAt = web.Time(x.LastAt)
	if x.Platform != "" {
		v.DetectedPlatform = &x.Platform
	}
	if x.LastError != "" {
		v.LastError = &x.LastError
	}
}

// drainURL returns the URL to which lines are sent.
func (v viewer) drainURL(base, drain, token string) string {
	if !v.capabilities {
		token = maskText(token)
	}
	return base + drainPath + drain + "/" + token
}

func (a *drains) answerDrain(w http.ResponseWriter, r *http.Request, key *config.Key, status int, d *config.Drain,
	warnings []warning) error {
	views, err := a.views(r.Context(), key, d)
	if err != nil {
		return err
	}
	views[0].Warnings = warnings
	web.WriteJSON(w, status, views[0])
	return nil
}

// drainInPath returns the drain that the path names, or the 404.
func (c *core) drainInPath(r *http.Request, key *config.Key) (*config.Drain, error) {
	d := find(r.Context(), c, c.configReader.Drain, web.InfoOf(r).Vars["drain"])
	if d == nil || d.Account != key.Account {
		return nil, web.Missing("there is no such drain")
	}
	return d, nil
}

// merge reads the members of a drain. The input collects errors and warnings.
func (a *drains) merge(in *input, body []byte, d *config.Drain) {
	o := in.newObject("", body)
	o.name("name", 1, &d.Name)
	in.maskName(a.leaks, "name", &d.Name)
	o.enum("platform", &d.Platform, config.DrainPlatforms...)
	status := statusOf(d)
	o.enum("status", &status, drainActive, drainPaused)
	d.Paused = status == drainPaused
	o.sameVersion("drain", d.Version)
	a.secret(o, "signing_secret", d.ID, config.FieldSigningSecret, &d.Sealed.SigningSecret)
	a.secret(o, "verify_code", d.ID, config.FieldVerifyCode, &d.Sealed.VerifyCode)
	if d.Sealed.SigningSecret != "" && d.Platform != config.PlatformAuto && d.Platform != config.PlatformVercel {
		in.fail("signing_secret", "can only be set while platform is auto or vercel: no other platform signs; send null")
	}
	o.readOnly("id", "object", "url", "signing_secret_set", "verify_code_set", "detected_platform", "last_received_at",
		"requests_24h", "lines_24h", "bytes_24h", "hits_24h", "rejected_24h", "last_error", "created_by", "created_at",
		"updated_at", "warnings")
	o.warnUnknown()
}

// maxDrainSecret is the length of a secret that a platform gives to its customer, in characters.
const maxDrainSecret = 256

// secret reads a write-only member: a text of printable ASCII, or null to remove it.
func (a *drains) secret(o *object, name, drain, field string, to *config.Sealed) {
	if o.isNull(name) {
		*to = ""
		return
	}
	text := ""
	o.text(name, 1, maxDrainSecret, &text)
	if strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		o.fail(name, "must be printable ASCII without spaces; copy it from the platform again")
		return
	}
	if before, err := a.keyring.OpenString(drain, field, *to); text != "" && (err != nil || before != text) {
		*to = a.keyring.SealString(drain, field, text)
	}
}

func (a *drains) createDrain(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	body, err := a.body(r)
	if err != nil {
		return err
	}
	d := &config.Drain{
		Meta: config.Meta{ID: newID(r, id.Drain), Account: key.Account, CreatedAt: a.now()}, Platform: config.PlatformAuto,
		Version: 1, CreatedBy: key.ID,
	}
	d.Sealed.Token = a.newToken(d.ID)
	in := &input{}
	if a.merge(in, body, d); in.err != nil {
		return in.err
	}
	d.Name = cmp.Or(d.Name, d.ID[len(d.ID)-defaultNameLength:])
	created, err := createOnce(r.Context(), a.config.CreateDrain, d, a.config.Drain, d.ID)
	if err != nil {
		return err
	}
	return a.answerDrain(w, r, key, http.StatusCreated, created, in.warnings)
}

// newToken returns a sealed token of 128 random bits.
func (a *drains) newToken(drain string) config.Sealed {
	return a.keyring.SealString(drain, config.FieldToken, id.Random(""))
}

func (a *drains) readDrain(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.catchUp(r.Context())
	d, err := a.drainInPath(r, key)
	if err != nil {
		return err
	}
	return a.answerDrain(w, r, key, http.StatusOK, d, nil)
}

func (a *drains) listDrains(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	p, err := a.configPage(r, newQuery(r, "drains "+key.Account))
	if err != nil {
		return err
	}
	all, more := a.config.Drains(key.Account, p.before, p.limit)
	views, err := a.views(r.Context(), key, all...)
	if err != nil {
		return err
	}
	return writeConfigPage(w, p, all, more, views)
}

func (a *drains) updateDrain(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.drainInPath(r, key)
	if err != nil {
		return err
	}
	after, in, err := updateWithBody(a.core, r, a.config.UpdateDrain, d.ID, a.merge)
	if err != nil {
		return err
	}
	return a.answerDrain(w, r, key, http.StatusOK, after, in.warnings)
}

// rotateDrain gives the drain a new URL. The previous one ends at once.
func (a *drains) rotateDrain(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.drainInPath(r, key)
	if err != nil {
		return err
	}
	by := rotatedBy(r)
	after, in, err := updateWithBody(a.core, r, a.config.UpdateDrain, d.ID, func(in *input, body []byte, d *config.Drain) {
		in.newObject("", body).warnUnknown()
		if by == "" || d.TokenRotatedBy != by { // otherwise the first call with the Idempotency-Key has rotated
			d.Sealed.Token, d.TokenRotatedBy = a.newToken(d.ID), by
		}
	})
	if err != nil {
		return err
	}
	return a.answerDrain(w, r, key, http.StatusOK, after, in.warnings)
}

func (a *drains) deleteDrain(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.drainInPath(r, key)
	if err != nil {
		return err
	}
	if err := a.config.DeleteDrain(r.Context(), d.ID); err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, deleted{d.ID, "drain", true})
	return nil
}
