package routes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

type scanResource = frame.Resource[leak.Scan, *leak.Scan, *Scan]

// scans serves the leak scans of domains.
type scans struct {
	*scanResource
	*Deps
}

func newScans(of area) *scans {
	a := &scans{Deps: of.Deps}
	a.scanResource = &scanResource{
		Core: of.Core, Object: "scan", Kept: true, Own: frame.Methods{"POST": a.createScan},
		Missing: fmt.Sprintf("there is no such scan; the newest %d are kept", leak.MaxScans),
		Keep: func(q *frame.Query) func(*leak.Scan) bool {
			domains := q.List("domain_id")
			return func(s *leak.Scan) bool { return len(domains) == 0 || slices.Contains(domains, s.Domain) }
		},
		Views: func(_ context.Context, _ *config.Key, all ...*leak.Scan) ([]*Scan, error) {
			return frame.ViewsOf(all, scanViewOf), nil
		},
	}
	return a
}

func scanViewOf(s *leak.Scan) *Scan {
	v := &Scan{
		ID: s.ID, Object: "scan", DomainID: s.Domain, Hostname: s.Hostname, Status: s.Status, Trigger: s.Trigger,
		Pages: s.Pages, Resources: s.Resources, Bytes: s.Bytes, FindingsNew: s.FindingsNew, FindingsSeen: s.FindingsOld,
		Skipped:     frame.ViewsOf(s.Skipped, func(x leak.ScanSkipped) ScanSkipped { return ScanSkipped(x) }),
		SkippedMore: s.SkippedMore, ThirdParty: s.ThirdParty, CatchAll: s.CatchAll,
		BudgetExhausted: frame.OrNull(s.Budget), Error: frame.OrNull(s.Error), CreatedBy: frame.OrNull(s.CreatedBy),
		CreatedAt: web.Time(s.CreatedAt), StartedAt: web.Time(s.StartedAt), FinishedAt: web.Time(s.FinishedAt),
	}
	if v.ThirdParty == nil {
		v.ThirdParty = []string{}
	}
	return v
}

func (a *scans) createScan(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in := &frame.Input{}
	o := in.NewObject("", body)
	name := ""
	o.Text("domain_id", 1, frame.MaxName, &name)
	o.WarnUnknown()
	if in.Err == nil && name == "" {
		in.Fail("domain_id", "is required")
	}
	if in.Err != nil {
		return in.Err
	}
	a.CatchUp(r.Context())
	s := &leak.Scan{Meta: a.NewMeta(r, id.Scan, key), Trigger: leak.ScanManual, CreatedBy: key.ID}
	if earlier, _ := a.Control.Scan(s.ID); earlier == nil { // otherwise the first call with the Idempotency-Key made it
		if err := a.mayScan(key, name, s); err != nil {
			return err
		}
	}
	created, err := frame.CreateOnce(r.Context(), a.Control.CreateScan, s, a.Control.Scan, s.ID)
	switch {
	case errors.Is(err, leak.ErrScanRunning):
		return errScanRunning(a.Control.OpenScan())
	case errors.Is(err, leak.ErrTooManyScans):
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Minute,
			Message: "too many scans are kept at the moment; try again in a minute"}
	case err != nil:
		return err
	}
	return a.Answer(w, r, key, http.StatusCreated, created, in.Warnings)
}

// mayScan completes a scan of a domain, or returns why there is none.
func (a *scans) mayScan(key *config.Key, domain string, s *leak.Scan) error {
	d, presence := entity.Get[leak.Domain](a.Config, domain)
	switch {
	case presence != entity.Present || d.Account != key.Account:
		return web.Invalid("domain_id", "is not one of your domains")
	case d.Status(a.Now()) != leak.DomainVerified:
		return web.WrongState("domain_id", "is %s; verify the domain first", d.Status(a.Now()))
	}
	s.Domain, s.Hostname = d.ID, d.Hostname
	if open := a.Control.OpenScan(); open != nil {
		return errScanRunning(open)
	}
	all, _ := a.Control.Scans(key.Account, nil, 0, leak.MaxScans)
	var oldest time.Time // of those in the last 24 hours
	n := 0
	for _, x := range all {
		if x.Trigger == leak.ScanManual && a.Now().Sub(x.CreatedAt) < 24*time.Hour {
			oldest = x.CreatedAt
			n++
		}
	}
	if n >= leak.MaxScansPerDay {
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited,
			RetryAfter: max(time.Second, oldest.Add(24*time.Hour).Sub(a.Now())),
			Message:    fmt.Sprintf("at most %d scans can be started in 24 hours; try again later", leak.MaxScansPerDay)}
	}
	return nil
}

func errScanRunning(open *leak.Scan) error {
	if open == nil { // it has just ended
		return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Message: "another scan was running; try again"}
	}
	return web.WrongState("", "the scan %s of %s is running; start another one when it has ended", open.ID, open.Hostname)
}
