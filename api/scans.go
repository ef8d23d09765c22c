package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

type scanResource = resource[config.Scan, *config.Scan, *wire.Scan]

// scans serves the leak scans of domains.
type scans struct {
	*scanResource
	stored Scans
}

func newScans(d *leakDeps) *scans {
	a := &scans{stored: d.config}
	a.scanResource = &scanResource{
		core: d.core, config: d.config, object: "scan", kept: true, own: methods{"POST": a.createScan},
		missing: fmt.Sprintf("there is no such scan; the newest %d are kept", config.MaxScans),
		keep: func(q *query) func(*config.Scan) bool {
			domains := q.list("domain_id")
			return func(s *config.Scan) bool { return len(domains) == 0 || slices.Contains(domains, s.Domain) }
		},
		views: func(_ context.Context, _ *config.Key, all ...*config.Scan) ([]*wire.Scan, error) {
			return viewsOf(all, scanViewOf), nil
		},
	}
	return a
}

func scanViewOf(s *config.Scan) *wire.Scan {
	v := &wire.Scan{
		ID: s.ID, Object: "scan", DomainID: s.Domain, Hostname: s.Hostname, Status: s.Status, Trigger: s.Trigger,
		Pages: s.Pages, Resources: s.Resources, Bytes: s.Bytes, FindingsNew: s.FindingsNew, FindingsSeen: s.FindingsOld,
		Skipped:     viewsOf(s.Skipped, func(x config.ScanSkipped) wire.ScanSkipped { return wire.ScanSkipped(x) }),
		SkippedMore: s.SkippedMore, ThirdParty: s.ThirdParty, CatchAll: s.CatchAll,
		BudgetExhausted: orNull(s.Budget), Error: orNull(s.Error), CreatedBy: orNull(s.CreatedBy),
		CreatedAt: web.Time(s.CreatedAt), StartedAt: web.Time(s.StartedAt), FinishedAt: web.Time(s.FinishedAt),
	}
	if v.ThirdParty == nil {
		v.ThirdParty = []string{}
	}
	return v
}

func (a *scans) createScan(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	body, err := a.body(r)
	if err != nil {
		return err
	}
	in := &input{}
	o := in.newObject("", body)
	name := ""
	o.text("domain_id", 1, maxName, &name)
	o.warnUnknown()
	if in.err == nil && name == "" {
		in.fail("domain_id", "is required")
	}
	if in.err != nil {
		return in.err
	}
	a.catchUp(r.Context())
	s := &config.Scan{Meta: a.newMeta(r, id.Scan, key), Trigger: config.ScanManual, CreatedBy: key.ID}
	if earlier, _ := a.stored.Scan(s.ID); earlier == nil { // otherwise the first call with the Idempotency-Key made it
		if err := a.mayScan(key, name, s); err != nil {
			return err
		}
	}
	created, err := createOnce(r.Context(), a.stored.CreateScan, s, a.stored.Scan, s.ID)
	switch {
	case errors.Is(err, config.ErrScanRunning):
		return errScanRunning(a.stored.OpenScan())
	case errors.Is(err, config.ErrTooManyScans):
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Minute,
			Message: "too many scans are kept at the moment; try again in a minute"}
	case err != nil:
		return err
	}
	return a.answer(w, r, key, http.StatusCreated, created, in.warnings)
}

// mayScan completes a scan of a domain, or returns why there is none.
func (a *scans) mayScan(key *config.Key, domain string, s *config.Scan) error {
	d, presence := config.Get[config.Domain](a.config, domain)
	switch {
	case presence != config.Present || d.Account != key.Account:
		return web.Invalid("domain_id", "is not one of your domains")
	case d.Status(a.now()) != config.DomainVerified:
		return web.WrongState("domain_id", "is %s; verify the domain first", d.Status(a.now()))
	}
	s.Domain, s.Hostname = d.ID, d.Hostname
	if open := a.stored.OpenScan(); open != nil {
		return errScanRunning(open)
	}
	all, _ := a.stored.Scans(key.Account, nil, 0, config.MaxScans)
	var oldest time.Time // of those in the last 24 hours
	n := 0
	for _, x := range all {
		if x.Trigger == config.ScanManual && a.now().Sub(x.CreatedAt) < 24*time.Hour {
			oldest = x.CreatedAt
			n++
		}
	}
	if n >= config.MaxScansPerDay {
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited,
			RetryAfter: max(time.Second, oldest.Add(24*time.Hour).Sub(a.now())),
			Message:    fmt.Sprintf("at most %d scans can be started in 24 hours; try again later", config.MaxScansPerDay)}
	}
	return nil
}

func errScanRunning(open *config.Scan) error {
	if open == nil { // it has just ended
		return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Message: "another scan was running; try again"}
	}
	return web.WrongState("", "the scan %s of %s is running; start another one when it has ended", open.ID, open.Hostname)
}
