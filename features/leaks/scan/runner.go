package scan

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// runInterval is how often the owner looks for a scan to run.
	runInterval = time.Second
	// scanLease is how long a scan stays with a node that reports nothing: longer than a request may take.
	scanLease = 30 * time.Second
	// progressInterval is the time between two reports of progress.
	progressInterval = 2 * time.Second
	// maxScanTries is how many nodes begin a scan. A website must not end nodes for ever.
	maxScanTries = 5
	// weekly is the time between two scans of a domain that nobody asks for.
	weekly = 7 * 24 * time.Hour
	// maxDomains is the number of domains that are read at once: there are never so many.
	maxDomains = 100
)

// Configuration has the scans and what they need to know.
type Configuration interface {
	intake.Configuration
	entity.Access
	Account() *entity.Account
	Scans
	// CustomRules returns the account's own rules, and a revision that changes with them.
	CustomRules() (rules []secrets.Custom, revision int64)
}

// Scans reads and changes scans; see config.Control.
type Scans interface {
	OpenScan() *leak.Scan
	Scans(account string, domains []string, beforeSeq int64, limit int) ([]*leak.Scan, bool)
	CreateScan(ctx context.Context, s *leak.Scan) (*leak.Scan, error)
	BeginScan(ctx context.Context, id, node string, lease time.Duration) (*leak.Scan, error)
	UpdateScan(ctx context.Context, id string, try int, lease time.Duration, change func(*leak.Scan)) (
		*leak.Scan, error)
}

// Rechecker looks for the proof of a domain.
type Rechecker interface {
	Recheck(ctx context.Context, d *leak.Domain) (*leak.Domain, error)
}

// RunnerDeps are what the runner needs. All are required.
type RunnerDeps struct {
	Log        *slog.Logger
	Node       string // its name; it keeps it across restarts
	Config     Configuration
	Proofs     Rechecker
	Scanner    *Scanner
	Rules      *secrets.Scanners // what is looked for
	Producer   intake.Producer
	Findings   intake.Distinct // for intake.NewFindingsSpan
	Partitions int32
	// MayScan reports whether a host name may be requested at all: it is not the relay's own.
	MayScan func(hostname string) bool
	Now     func() time.Time
	IsOwner func() bool // whether this node runs the scans
	// Interval and Lease replace runInterval and scanLease in tests; 0 = these.
	Interval, Lease time.Duration
}

// Runner runs the scans of the configuration, one at a time, on the node that owns the first partition.
type Runner struct {
	deps  RunnerDeps
	begun string // the scan that this process has begun last; it belongs to the goroutine of Run
}

// NewRunner returns a runner. It starts nothing.
func NewRunner(deps RunnerDeps) *Runner {
	deps.Interval, deps.Lease = cmp.Or(deps.Interval, runInterval), cmp.Or(deps.Lease, scanLease)
	return &Runner{deps: deps}
}

// Run runs scans until ctx ends. A scan that is running then is left to another node.
func (r *Runner) Run(ctx context.Context) error {
	for wait.For(ctx, r.deps.Interval) == nil {
		if !r.deps.IsOwner() {
			continue
		}
		err := r.runOpen(ctx)
		if err == nil {
			err = r.queueWeekly(ctx)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, leak.ErrScanTaken) {
			r.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot run a leak scan", slog.Any("error", err))
		}
	}
	return nil
}

// queueWeekly queues a scan of a verified domain without one in a week, as long as none is open.
func (r *Runner) queueWeekly(ctx context.Context) error {
	account := r.deps.Config.Account().ID
	all, _ := entity.List[leak.Domain](r.deps.Config, account, 0, maxDomains, nil)
	for _, d := range all {
		now := r.deps.Now()
		if d.Status(now) != leak.DomainVerified || r.deps.Config.OpenScan() != nil {
			continue
		}
		last := d.VerifiedAt
		newest, _ := r.deps.Config.Scans(account, []string{d.ID}, 0, 1)
		if len(newest) > 0 && newest[0].CreatedAt.After(last) {
			last = newest[0].CreatedAt
		}
		if now.Sub(last) < weekly {
			continue
		}
		_, err := r.deps.Config.CreateScan(ctx, &leak.Scan{Meta: entity.Meta{ID: id.Random(id.Scan)}, Domain: d.ID,
			Hostname: d.Hostname, Trigger: leak.ScanWeekly})
		if err != nil && !errors.Is(err, leak.ErrScanRunning) {
			return err
		}
	}
	return nil
}

// runOpen runs the scan that has not ended, unless another node has it. What this process has begun and could not end
// it begins again as late as another node would; what its node had before a restart, at once.
func (r *Runner) runOpen(ctx context.Context) error {
	open := r.deps.Config.OpenScan()
	if open == nil {
		return nil
	}
	restarted := open.Node == r.deps.Node && open.ID != r.begun
	if r.deps.Now().Before(open.Until) && !restarted {
		return nil
	}
	s, err := r.deps.Config.BeginScan(ctx, open.ID, r.deps.Node, r.deps.Lease)
	if err != nil {
		return err
	}
	r.begun = s.ID
	if s.Try > maxScanTries {
		return r.fail(ctx, s, leak.ScanInterrupted)
	}
	reason, err := r.prove(ctx, s)
	if err != nil {
		return err
	}
	if reason != "" {
		return r.fail(ctx, s, reason)
	}
	return r.scan(ctx, s)
}

// prove looks for the proof of the domain, and returns why it may not be scanned; empty: it may.
func (r *Runner) prove(ctx context.Context, s *leak.Scan) (reason string, err error) {
	d, _ := entity.Get[leak.Domain](r.deps.Config, s.Domain)
	if d == nil || d.Status(r.deps.Now()) != leak.DomainVerified || !r.deps.MayScan(d.Hostname) {
		return leak.ScanVerificationExpired, nil
	}
	if d, err = r.deps.Proofs.Recheck(ctx, d); err != nil {
		return "", err
	}
	switch d.Checked.Error {
	case "":
		return "", nil
	case leak.DomainUnreachable:
		return errorUnreachable, nil
	case leak.DomainBlocked:
		return errorBlockedAddress, nil
	}
	return leak.ScanVerificationExpired, nil
}

// verified reports whether a host is that of a verified domain.
func (r *Runner) verified(host string) bool {
	all, _ := entity.List[leak.Domain](r.deps.Config, r.deps.Config.Account().ID, 0, maxDomains, nil)
	for _, d := range all {
		if d.Hostname == host && d.Status(r.deps.Now()) == leak.DomainVerified {
			return r.deps.MayScan(host)
		}
	}
	return false
}

func (r *Runner) fail(ctx context.Context, s *leak.Scan, reason string) error {
	return r.end(ctx, s, func(s *leak.Scan) { s.Status, s.Error = leak.ScanFailed, reason })
}

// end ends a scan that this node has begun.
func (r *Runner) end(ctx context.Context, s *leak.Scan, change func(*leak.Scan)) error {
	ended, err := r.deps.Config.UpdateScan(ctx, s.ID, s.Try, r.deps.Lease, change)
	if err == nil {
		r.deps.Scanner.metrics.countScan(ended)
	}
	return err
}

// scan scans the website of a scan that this node has begun. The findings are in the log before the scan ends; a node
// that begins it again makes the same hits.
func (r *Runner) scan(ctx context.Context, s *leak.Scan) error {
	keys, err := r.deps.Config.FindingKeys(ctx)
	if err != nil {
		return err
	}
	own, revision := r.deps.Config.CustomRules()
	rules := r.deps.Rules.For(s.Account, revision, own)
	h := newHits(r, s, rules, &keys)
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reported := r.deps.Now()
	target := Target{Hostname: s.Hostname, Rules: rules, Verified: r.verified}
	report, err := r.deps.Scanner.Run(within, target, h.add, func(p Progress) {
		if now := r.deps.Now(); within.Err() == nil && now.Sub(reported) >= progressInterval {
			reported = now
			_, err := r.deps.Config.UpdateScan(within, s.ID, s.Try, r.deps.Lease, func(s *leak.Scan) {
				s.Pages, s.Resources, s.Bytes = p.Pages, p.Resources, p.Bytes
			})
			if err != nil || !r.deps.IsOwner() {
				cancel(errors.Join(leak.ErrScanTaken, err))
			}
		}
	})
	if err != nil {
		return errors.Join(context.Cause(within), err)
	}
	h.dropTripwires()
	added, known, err := h.store(ctx)
	if err != nil {
		return err
	}
	return r.end(ctx, s, func(s *leak.Scan) {
		s.Status, s.Error = leak.ScanCompleted, report.Error
		if report.Error != "" {
			s.Status = leak.ScanFailed
		}
		s.Pages, s.Resources, s.Bytes = report.Pages, report.Resources, report.Bytes
		s.FindingsNew, s.FindingsOld = added, known
		s.Skipped, s.SkippedMore, s.ThirdParty = nil, report.More, report.ThirdParty
		for _, path := range slices.Sorted(maps.Values(h.tripwires)) {
			s.Skipped = append(s.Skipped, leak.ScanSkipped{Path: path, Reason: reasonTripwire})
		}
		for _, x := range report.Skipped {
			s.Skipped = append(s.Skipped, leak.ScanSkipped(x))
		}
		s.CatchAll, s.Budget = report.CatchAll, report.BudgetExhausted
	})
}
