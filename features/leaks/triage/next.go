package triage

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
)

// next returns the finding after a hit, and the transition; nil if the hit changes nothing. old is nil before the first
// hit.
func (d *Triage) next(old *leak.Finding, h *finding.Hit, now time.Time) (*leak.Finding, finding.Transition) {
	severity, key := d.recognizeKey(h)
	if old == nil {
		return &leak.Finding{
			Kind: h.Kind, Rule: h.Rule, RuleName: h.RuleName, Severity: severity, Status: finding.Open,
			Unverified: h.Unverified, Test: h.Test, Masked: h.Masked, Fingerprint: h.Fingerprint, KeyID: key,
			TripwireID: h.Location.TripwireID, OpenedAt: now,
			First: leak.FirstHit{At: h.At, Source: h.Source, Sender: h.Sender, Label: h.Location.Label},
		}, finding.Opened
	}
	f, verified := *old, old.Unverified && !h.Unverified
	f.Severity, f.Unverified, f.Test = max(old.Severity, severity), old.Unverified && !verified, old.Test && h.Test
	if f.KeyID == "" {
		f.KeyID = key
	}
	transition := finding.Unchanged
	switch {
	case old.Status == finding.Resolved && h.Regresses(old.ResolvedAt):
		f.RegressedAt, transition = h.At, finding.Reopened
		open(&f, now)
	case old.Status == finding.Open && (verified || f.Severity > old.Severity && old.AnnouncedAt.Before(old.OpenedAt)):
		transition = finding.Opened // nobody was notified before: it was not verified, or below the rule's severity
	case old.Status == finding.Open && h.Kind == finding.Tripwire && f.Severity > old.Severity:
		f.RemindedAt, transition = now, finding.Opened // it was only seen before, and now it was used
	case floodContinues(old, h), tripwireContinues(old, h):
		f.RemindedAt, transition = now, finding.Continued
	}
	if f == *old {
		return nil, finding.Unchanged
	}
	return &f, transition
}

// floodContinues reports whether a hit shows that an outstanding flood goes on a day after people were reminded of it.
func floodContinues(old *leak.Finding, h *finding.Hit) bool {
	return h.Rule == finding.RuleFlood && old.Status.Outstanding() && h.At.Sub(lastReminder(old)) >= finding.FloodReminder
}

// tripwireContinues reports whether a tripwire is used again while people know of it, long after they were notified.
func tripwireContinues(old *leak.Finding, h *finding.Hit) bool {
	return h.Kind == finding.Tripwire && h.Source == finding.FromTripwire && !h.Test && old.Status.Outstanding() &&
		h.At.Sub(lastReminder(old)) >= finding.TripwireReminder
}

// lastReminder returns when people were notified last that an outstanding finding goes on, or was opened.
func lastReminder(old *leak.Finding) time.Time {
	if old.RemindedAt.After(old.OpenedAt) {
		return old.RemindedAt
	}
	return old.OpenedAt
}

// open makes a finding open.
func open(f *leak.Finding, now time.Time) {
	f.Status, f.OpenedAt = finding.Open, now
	f.Resolution, f.ResolvedAt, f.IgnoreReason, f.IgnoreUntil = "", time.Time{}, "", time.Time{}
}

// recognizeKey returns the severity of a hit, and the id of our own API key that it shows; empty = it is none. A key
// that works is critical wherever it is seen.
func (d *Triage) recognizeKey(h *finding.Hit) (finding.Severity, string) {
	if h.Fingerprint == "" || h.Test {
		return h.Severity, h.KeyID
	}
	k := d.deps.Config.KeyByFingerprint(h.Fingerprint)
	if k == nil {
		return h.Severity, h.KeyID
	}
	if d.deps.Config.KeyWorks(k) {
		return finding.Critical, k.ID
	}
	return h.Severity, k.ID
}

// afterIgnoring returns an ignored finding whose time has passed as open; nil if it stays as it is.
func afterIgnoring(old *leak.Finding, now time.Time) (*leak.Finding, finding.Transition) {
	if old == nil || old.Status != finding.Ignored || old.IgnoreUntil.IsZero() || now.Before(old.IgnoreUntil) {
		return nil, finding.Unchanged
	}
	f := *old
	open(&f, now)
	return &f, finding.Reopened
}

// reopenIgnored opens the findings of this node that are no longer ignored.
func (d *Triage) reopenIgnored(ctx context.Context, now time.Time) error {
	filter := leak.FindingFilter{Statuses: []finding.Status{finding.Ignored}, IgnoredUntil: now}
	for _, id := range d.deps.Config.FindingIDs(filter) {
		if !d.owns(id) {
			continue
		}
		err := d.decide(ctx, id, func(old *leak.Finding) (*leak.Finding, finding.Transition) {
			return afterIgnoring(old, d.now())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// keepFindings is how long a finding is kept after its last hit.
	keepFindings = 400 * 24 * time.Hour
	// forgetEvery is how often findings are forgotten; the first time it is forgetDelay after the start.
	forgetEvery = 24 * time.Hour
	forgetDelay = 10 * time.Minute
	// forgetBatch is how many findings the store is asked for at once, in at most forgetTimeout.
	forgetBatch   = 1000
	forgetTimeout = 30 * time.Second
)

// forgetOld forgets the findings of this node without hits for 400 days, once a day. It runs between two polls: so a
// hit is either in the store, which is asked, or it is decided later and opens the finding anew.
func (d *Triage) forgetOld(ctx context.Context, now time.Time) error {
	if d.forgotAt.IsZero() {
		d.forgotAt = now.Add(forgetDelay - forgetEvery)
	}
	if now.Sub(d.forgotAt) < forgetEvery {
		return nil
	}
	d.forgotAt = now
	old := slices.DeleteFunc(d.deps.Config.FindingsBefore(now.Add(-keepFindings)), func(f *leak.Finding) bool {
		return !d.owns(f.ID)
	})
	for batch := range slices.Chunk(old, forgetBatch) {
		if err := d.forgetUnhit(ctx, batch, now.Add(-keepFindings)); err != nil {
			d.log.LogAttrs(ctx, slog.LevelWarn, "cannot forget old findings", slog.Any("error", err))
			return ctx.Err() // the next day tries again
		}
	}
	return nil
}

// forgetUnhit forgets those of some findings that were not hit after a time. The rows are deleted first: should this
// node end in between, the finding has no hits the next time either, and is forgotten then.
func (d *Triage) forgetUnhit(ctx context.Context, findings []*leak.Finding, after time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	last, err := d.deps.Store.LastHits(ctx, idsOf(findings))
	if err != nil {
		return err
	}
	findings = slices.DeleteFunc(findings, func(f *leak.Finding) bool { return last[f.ID].After(after) })
	if len(findings) == 0 {
		return nil
	}
	if err := d.deps.Store.DeleteFindings(ctx, idsOf(findings)); err != nil {
		return err
	}
	for _, f := range findings {
		if err := d.deps.Config.ForgetFinding(ctx, f); err != nil {
			return err
		}
		d.metrics.forgotten.Inc()
	}
	return nil
}

func idsOf(findings []*leak.Finding) []string {
	ids := make([]string, len(findings))
	for i, f := range findings {
		ids[i] = f.ID
	}
	return ids
}
