package triage

import (
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
