package routes

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

type domainResource = frame.Resource[leak.Domain, *leak.Domain, *wire.Domain]

// domains serves the host names that a customer claims.
type domains struct {
	*domainResource
	*Deps
}

func newDomains(of area) *domains {
	a := &domains{Deps: of.Deps}
	a.domainResource = &domainResource{
		Core: of.Core, Object: "domain", Merge: a.merge, Fixed: true,
		Fresh: func(r *http.Request, by *config.Key) *leak.Domain {
			return &leak.Domain{Meta: a.NewMeta(r, id.Domain, by), CreatedBy: by.ID}
		},
		Insert: a.insert, Removable: a.hasNoTripwires,
		Views: func(_ context.Context, _ *config.Key, all ...*leak.Domain) ([]*wire.Domain, error) {
			return frame.ViewsOf(all, a.view), nil
		},
	}
	return a
}

// insert creates a domain, each host name once.
func (a *domains) insert(ctx context.Context, d *leak.Domain) (*leak.Domain, error) {
	created, err := entity.Create(ctx, a.Config, d)
	switch {
	case errors.Is(err, config.ErrConflict):
		if earlier, _ := entity.Get[leak.Domain](a.Config, d.ID); earlier == nil { // another one has the host name
			return nil, web.WrongState("hostname", "is already one of your domains; verify that one")
		}
	case errors.Is(err, leak.ErrTooManyDomains):
		return nil, web.WrongState("hostname", "%v; delete one that is not used", err)
	}
	return created, err
}

// merge reads the members of a new domain.
func (a *domains) merge(in *frame.Input, o *frame.Object, d *leak.Domain) {
	var x wire.Domain
	o.Decode(&x)
	if o.WarnUnknown(); in.Err != nil {
		return
	}
	if x.Hostname == "" {
		in.Fail("hostname", "is required; write it as www.example.com")
		return
	}
	var err error
	if d.Hostname, err = a.Egress.CheckHostname(x.Hostname); err != nil {
		in.Fail("hostname", "%v", err)
	}
}

func (a *domains) view(d *leak.Domain) *wire.Domain {
	v := &wire.Domain{
		ID: d.ID, Object: "domain", Hostname: d.Hostname, Status: d.Status(a.Now()), Token: d.Token,
		DNSRecord: d.RecordName() + " TXT " + d.RecordValue(), HTTPURL: d.FileURL(),
		VerifiedAt: web.Time(d.VerifiedAt), CheckedAt: web.Time(d.Checked.At), Method: frame.OrNull(d.Method),
		LastMethod: frame.OrNull(d.Checked.Method), LastError: frame.OrNull(d.Checked.Error),
		Seen:   frame.OrNull(d.Checked.Seen),
		Advice: frame.OrNull(domainAdvice(d, a.Now())), Meta: metaView(d.CreatedBy, &d.Meta),
	}
	switch {
	case v.Status == leak.DomainPending:
		v.ExpiresAt = web.Time(d.CreatedAt.Add(leak.PendingDomainLife))
	case v.Status == leak.DomainVerified && d.Checked.Silent && !d.SilentAt.IsZero():
		v.ExpiresAt = web.Time(d.SilentAt.Add(leak.DomainSilence))
	case v.Status == leak.DomainVerified && !d.MissedAt.IsZero():
		v.ExpiresAt = web.Time(d.MissedAt.Add(leak.DomainGrace))
	}
	return v
}

// domainAdvice says what to do about the last check of a domain; empty if its proof was there, or none was made.
func domainAdvice(d *leak.Domain, now time.Time) string {
	if d.Ended(now) {
		return "It was not proven within 7 days. Delete it and add it again, which gives a new token."
	}
	if d.Checked.Silent && d.Status(now) == leak.DomainVerified {
		return "No other domain of yours has answered in the last day either, so this may be the network of this service. " +
			"It stays verified for a week without any answer."
	}
	if d.Checked.Method == leak.DomainByDNS {
		switch d.Checked.Error {
		case leak.DomainNotFound:
			return "There is no TXT record at " + d.RecordName() + ". Add it with the value " + d.RecordValue() +
				". Name servers remember for a while that it was missing: wait for the time that the zone's SOA record " +
				"says, often 5 to 60 minutes, then verify again."
		case leak.DomainMismatch:
			return "The TXT records at " + d.RecordName() + " have other values. Add one with the value " + d.RecordValue() +
				"; others may stay. Name servers give the old ones until the TTL of the record has ended."
		case leak.DomainUnreachable:
			return "The name servers gave no answer about " + d.RecordName() + ". Check that the zone is delegated to them, " +
				"then verify again."
		}
		return ""
	}
	switch d.Checked.Error {
	case leak.DomainNotFound:
		return d.FileURL() + " did not answer with the status 200. Serve the token there as a text file."
	case leak.DomainMismatch:
		return d.FileURL() + " answers with another text. Its content must be the token alone; a page that answers to " +
			"every path proves nothing."
	case leak.DomainRedirected:
		return d.Hostname + " redirects. The proof must be at that name itself: add the name that it redirects to, or " +
			"prove this one by DNS."
	case leak.DomainBlocked:
		return d.Hostname + " has an address that is not public. Prove it by DNS, or give it a public address."
	case leak.DomainTLS:
		return d.Hostname + " has no valid certificate for its name."
	case leak.DomainUnreachable:
		return d.Hostname + " did not answer over https within 10 seconds."
	}
	return ""
}

// verifyTimeout bounds a verification: the check takes 10 s at most.
const verifyTimeout = 20 * time.Second

// verifyDomain looks for the proof of a domain now. It answers 200 with the domain, verified or not.
func (a *domains) verifyDomain(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.InPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	method := d.Method
	if method == "" {
		method = leak.DomainByDNS
	}
	in := &frame.Input{}
	o := in.NewObject("", body)
	o.Enum("method", &method, leak.DomainMethods...)
	if o.WarnUnknown(); in.Err != nil {
		return in.Err
	}
	if d.Ended(a.Now()) {
		return web.WrongState("", "the domain was not proven within 7 days; delete it and add it again, which gives a new "+
			"token")
	}
	// Without the client's context: its disconnect says nothing about the domain.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), verifyTimeout)
	defer cancel()
	after, pause, err := a.Domains.Verify(ctx, d, method)
	switch {
	case err != nil:
		return err
	case pause > 0:
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: pause,
			Message: "a host name is looked up at most 10 times an hour; try again later"}
	}
	return a.Answer(w, r, key, http.StatusOK, after, in.Warnings)
}
