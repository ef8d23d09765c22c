package api

import (
	"context"
	"errors"
	"github.com/eventrelay/relay/api/wire"
	"net/http"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// domains serves the host names that a customer claims, and their proofs.
type domains struct {
	*core
	config   Domains
	verifier DomainVerifier
	egress   egress.Policy
}

func (a *domains) view(d *config.Domain) *wire.Domain {
	v := &wire.Domain{
		ID: d.ID, Object: "domain", Hostname: d.Hostname, Status: d.Status(a.now()), Token: d.Token,
		DNSRecord: d.RecordName() + " TXT " + d.RecordValue(), HTTPURL: d.FileURL(),
		VerifiedAt: web.Time(d.VerifiedAt), CheckedAt: web.Time(d.Checked.At), Method: orNull(d.Method),
		LastMethod: orNull(d.Checked.Method), LastError: orNull(d.Checked.Error), Seen: orNull(d.Checked.Seen),
		Advice: orNull(domainAdvice(d, a.now())), CreatedBy: d.CreatedBy, CreatedAt: web.Time(d.CreatedAt),
		UpdatedAt: web.Time(d.UpdatedAt),
	}
	switch {
	case v.Status == config.DomainPending:
		v.ExpiresAt = web.Time(d.CreatedAt.Add(config.PendingDomainLife))
	case v.Status == config.DomainVerified && d.Checked.Silent && !d.SilentAt.IsZero():
		v.ExpiresAt = web.Time(d.SilentAt.Add(config.DomainSilence))
	case v.Status == config.DomainVerified && !d.MissedAt.IsZero():
		v.ExpiresAt = web.Time(d.MissedAt.Add(config.DomainGrace))
	}
	return v
}

// domainAdvice says what to do about the last check of a domain; empty if its proof was there, or none was made.
func domainAdvice(d *config.Domain, now time.Time) string {
	if d.Ended(now) {
		return "It was not proven within 7 days. Delete it and add it again, which gives a new token."
	}
	if d.Checked.Silent && d.Status(now) == config.DomainVerified {
		return "No other domain of yours has answered in the last day either, so this may be the network of this service. " +
			"It stays verified for a week without any answer."
	}
	if d.Checked.Method == config.DomainByDNS {
		switch d.Checked.Error {
		case config.DomainNotFound:
			return "There is no TXT record at " + d.RecordName() + ". Add it with the value " + d.RecordValue() +
				". Name servers remember for a while that it was missing: wait for the time that the zone's SOA record " +
				"says, often 5 to 60 minutes, then verify again."
		case config.DomainMismatch:
			return "The TXT records at " + d.RecordName() + " have other values. Add one with the value " + d.RecordValue() +
				"; others may stay. Name servers give the old ones until the TTL of the record has ended."
		case config.DomainUnreachable:
			return "The name servers gave no answer about " + d.RecordName() + ". Check that the zone is delegated to them, " +
				"then verify again."
		}
		return ""
	}
	switch d.Checked.Error {
	case config.DomainNotFound:
		return d.FileURL() + " did not answer with the status 200. Serve the token there as a text file."
	case config.DomainMismatch:
		return d.FileURL() + " answers with another text. Its content must be the token alone; a page that answers to " +
			"every path proves nothing."
	case config.DomainRedirected:
		return d.Hostname + " redirects. The proof must be at that name itself: add the name that it redirects to, or " +
			"prove this one by DNS."
	case config.DomainBlocked:
		return d.Hostname + " has an address that is not public. Prove it by DNS, or give it a public address."
	case config.DomainTLS:
		return d.Hostname + " has no valid certificate for its name."
	case config.DomainUnreachable:
		return d.Hostname + " did not answer over https within 10 seconds."
	}
	return ""
}

// domainInPath returns the domain that the path names, or the 404.
func (c *core) domainInPath(r *http.Request, key *config.Key) (*config.Domain, error) {
	d := find(r.Context(), c, c.configReader.Domain, web.InfoOf(r).Vars["domain"])
	if d == nil || d.Account != key.Account {
		return nil, web.Missing("there is no such domain")
	}
	return d, nil
}

func (a *domains) createDomain(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	body, err := a.body(r)
	if err != nil {
		return err
	}
	d := &config.Domain{Meta: config.Meta{ID: newID(r, id.Domain), Account: key.Account, CreatedAt: a.now()},
		CreatedBy: key.ID}
	in := &input{}
	if a.readHostname(in, body, d); in.err != nil {
		return in.err
	}
	created, err := a.config.CreateDomain(r.Context(), d)
	switch {
	case errors.Is(err, config.ErrConflict):
		earlier, _ := a.config.Domain(d.ID)
		if earlier == nil { // another domain has the host name
			return web.WrongState("hostname", "is already one of your domains; verify that one")
		}
		created = earlier // the first call with the Idempotency-Key has created it
	case errors.Is(err, config.ErrTooManyDomains):
		return web.WrongState("hostname", "%v; delete one that is not used", err)
	case err != nil:
		return err
	}
	v := a.view(created)
	v.Warnings = in.warnings
	web.WriteJSON(w, http.StatusCreated, v)
	return nil
}

// readHostname reads the members of a new domain. The input collects errors and warnings.
func (a *domains) readHostname(in *input, body []byte, d *config.Domain) {
	o := in.newObject("", body)
	text := ""
	o.text("hostname", 1, maxURL, &text)
	o.readOnly("id", "object", "status", "method", "token", "dns_record", "http_url", "verified_at", "checked_at",
		"last_method", "last_error", "seen", "advice", "expires_at", "created_by", "created_at", "updated_at", "warnings")
	o.warnUnknown()
	if in.err != nil {
		return
	}
	if text == "" {
		in.fail("hostname", "is required; write it as www.example.com")
		return
	}
	var err error
	if d.Hostname, err = a.egress.CheckHostname(text); err != nil {
		in.fail("hostname", "%v", err)
	}
}

func (a *domains) readDomain(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.catchUp(r.Context())
	d, err := a.domainInPath(r, key)
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, a.view(d))
	return nil
}

func (a *domains) listDomains(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	p, err := a.configPage(r, newQuery(r, "domains "+key.Account))
	if err != nil {
		return err
	}
	all, more := a.config.Domains(key.Account, p.before, p.limit)
	return writeConfigPage(w, p, all, more, viewsOf(all, a.view))
}

// verifyTimeout bounds a verification: the check takes 10 s at most.
const verifyTimeout = 20 * time.Second

// verifyDomain looks for the proof of a domain now. It answers 200 with the domain, verified or not.
func (a *domains) verifyDomain(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.domainInPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.body(r)
	if err != nil {
		return err
	}
	method := d.Method
	if method == "" {
		method = config.DomainByDNS
	}
	in := &input{}
	o := in.newObject("", body)
	o.enum("method", &method, config.DomainMethods...)
	if o.warnUnknown(); in.err != nil {
		return in.err
	}
	if d.Ended(a.now()) {
		return web.WrongState("", "the domain was not proven within 7 days; delete it and add it again, which gives a new "+
			"token")
	}
	// Without the client's context: its disconnect says nothing about the domain.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), verifyTimeout)
	defer cancel()
	after, pause, err := a.verifier.Verify(ctx, d, method)
	switch {
	case err != nil:
		return err
	case pause > 0:
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: pause,
			Message: "a host name is looked up at most 10 times an hour; try again later"}
	}
	v := a.view(after)
	v.Warnings = in.warnings
	web.WriteJSON(w, http.StatusOK, v)
	return nil
}

func (a *domains) deleteDomain(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.domainInPath(r, key)
	if err != nil {
		return err
	}
	if err := a.checkTripwires(d); err != nil {
		return err
	}
	if err := a.config.DeleteDomain(r.Context(), d.ID); err != nil {
		return err
	}
	writeDeleted(w, d.ID, "domain")
	return nil
}
