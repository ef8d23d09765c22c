package triage

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
)

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
	old := slices.DeleteFunc(d.deps.History.FindingsBefore(now.Add(-keepFindings)), func(f *leak.Finding) bool {
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
		if err := d.deps.History.ForgetFinding(ctx, f); err != nil {
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
