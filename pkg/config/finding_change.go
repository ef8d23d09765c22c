package config

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/finding"
)

// FindingNotice changes an alert so that it carries the message about a finding.
type FindingNotice struct {
	Alert string // id of the alert
	Write func(*Alert)
}

// Announcer returns the message about a change of a finding; nil = people are not notified. alert returns the state of
// an alert, shared and read-only; nil if it has never changed.
type Announcer func(f *Finding, alert func(id string) *Alert) *FindingNotice

// DecideFinding changes or creates a finding, and an alert in the same record: both or neither. decide gets the
// finding, nil if there is none, and returns the next one; nil leaves it as it is. announce is nil if nobody is to be
// notified. With a message AnnouncedAt is set. When another writer wins, decide is called again with the newer finding.
//
// It is for changes that the service makes by itself: they are not part of the audit log, and the call does not wait
// for other nodes.
func (c findings) DecideFinding(ctx context.Context, id string,
	decide func(old *Finding) (next *Finding, announce Announcer)) (before, after *Finding, err error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, nil, err
	}
	old, res, err := c.Transact(ctx, entity.KindFinding, id,
		func(v *conflog.View, e *conflog.Entity) (first conflog.NewValue, second conflog.SecondValue, err error) {
			var was *Finding
			if e != nil {
				was = c.Decoded(e).(*Finding)
			}
			next, announce := decide(was)
			if next == nil {
				return first, second, nil
			}
			now := c.Now().UTC()
			next.ID, next.Account, next.CreatedAt, next.UpdatedAt, next.Version = id, c.Account().ID, now, now, 1
			if was != nil {
				next.Account, next.CreatedAt, next.Version = was.Account, was.CreatedAt, was.Version+1
			}
			if announce != nil {
				if second, err = c.noticeOf(v, next, announce); err != nil {
					return first, second, err
				}
			}
			if second.Value != nil {
				next.AnnouncedAt = next.UpdatedAt
				if next.OpenedAt.After(next.AnnouncedAt) { // by another node's clock
					next.AnnouncedAt = next.OpenedAt
				}
			}
			first.Exempt = isOutsideBounds(next)
			first.Value, err = c.Encode(e, next)
			return first, second, err
		})
	if err != nil {
		return nil, nil, err
	}
	if old != nil {
		before = c.Decoded(old).(*Finding)
	}
	if res.Entity != nil {
		after = c.Decoded(res.Entity).(*Finding)
	}
	return before, after, nil
}

// isOutsideBounds reports whether a finding may be outstanding beyond MaxOutstandingFindings: that of a flood, of which
// each sender has one, those of our own API keys, which nobody can make up, and those of tripwires, which are few.
func isOutsideBounds(f *Finding) bool {
	return f.Rule == finding.RuleFlood || f.KeyID != "" || f.Kind == finding.Tripwire
}

// noticeOf returns the alert with the message about a finding, as the second change of a transaction.
func (c findings) noticeOf(v *conflog.View, next *Finding, announce Announcer) (p conflog.SecondValue, err error) {
	n := announce(next, func(id string) *Alert {
		if e := v.FindLiving(entity.KindAlert, id); e != nil {
			return c.Decoded(e).(*Alert)
		}
		return nil
	})
	if n == nil {
		return p, nil
	}
	a := &Alert{Meta: entity.Meta{ID: n.Alert, Account: next.Account, CreatedAt: next.UpdatedAt}}
	e := v.FindLiving(entity.KindAlert, n.Alert)
	if e != nil {
		if a, err = entity.CopyOf(c.Core, c.Decoded(e).(*Alert)); err != nil {
			return p, err
		}
	}
	n.Write(a)
	a.mergeNotices()
	a.UpdatedAt = next.UpdatedAt
	p = conflog.SecondValue{Kind: entity.KindAlert, ID: n.Alert}
	p.Value, err = c.Encode(e, a)
	return p, err
}

// FindingUpdate is what a person changes of a finding. nil members stay as they are.
type FindingUpdate struct {
	Status       *finding.Status
	Resolution   *string    // required for resolved
	IgnoreReason *string    // required for ignored
	IgnoreUntil  *time.Time // the zero time = for good, or for MaxSharedIgnore
	Note         *string
	Version      *int // the version that the caller has seen
	// Repeatable makes an update with a version succeed that has taken effect already: whoever was not answered sends it
	// again.
	Repeatable bool
}

// FindingStatusError means that a finding cannot get that status.
type FindingStatusError struct{ From, To finding.Status }

func (e *FindingStatusError) Error() string {
	return fmt.Sprintf("a finding that is %s cannot become %s; it can become %s", e.From, e.To,
		strings.Join(texts(e.From.Next()), ", "))
}

// ErrFindingChanged means that the finding has another version than the caller has seen.
var ErrFindingChanged = errors.New("the finding was changed meanwhile: read it again")

// UpdateFinding applies what a person changes of a finding. The origin of ctx is the person or the key. It returns an
// *InvalidError, a *FindingStatusError, ErrFindingChanged or ErrNotFound.
func (c findings) UpdateFinding(ctx context.Context, id string, u FindingUpdate) (*Finding, error) {
	return entity.Update(ctx, c, id, func(f *Finding) error {
		was := *f
		err := u.apply(f, c.Now().UTC())
		unchanged := err == nil && entity.SameJSON(&was, f)
		switch {
		case unchanged && u.Repeatable:
			return nil
		case u.Version != nil && *u.Version != f.Version:
			return ErrFindingChanged
		case err != nil || unchanged:
			return err
		}
		f.UpdatedBy = conflog.OriginOf(ctx).Actor
		return nil
	})
}

// Check returns why a finding cannot be changed so now; see UpdateFinding.
func (u *FindingUpdate) Check(f *Finding, now time.Time) error {
	changed := *f
	return u.apply(&changed, now)
}

func (u *FindingUpdate) apply(f *Finding, now time.Time) error {
	if u.Note != nil {
		if utf8.RuneCountInString(*u.Note) > MaxFindingNote {
			return &InvalidError{"note", "must have at most 500 characters"}
		}
		f.Note = finding.Clean(*u.Note, len(*u.Note))
	}
	if u.Status != nil && *u.Status != f.Status {
		if err := setStatus(f, *u.Status, now); err != nil {
			return err
		}
	}
	if err := setReason("resolution", &f.Resolution, u.Resolution, f.Status, finding.Resolved,
		finding.Resolutions); err != nil {
		return err
	}
	if err := setReason("ignore_reason", &f.IgnoreReason, u.IgnoreReason, f.Status, finding.Ignored,
		finding.IgnoreReasons); err != nil {
		return err
	}
	switch {
	case u.IgnoreUntil == nil:
	case u.IgnoreUntil.IsZero():
		f.IgnoreUntil = time.Time{}
	case f.Status != finding.Ignored:
		return &InvalidError{"ignore_until", "can be set only for an ignored finding"}
	case !u.IgnoreUntil.After(now):
		return &InvalidError{"ignore_until", "must be in the future"}
	default:
		f.IgnoreUntil = u.IgnoreUntil.UTC().Truncate(time.Second)
	}
	return limitIgnoring(f, now)
}

// MaxSharedIgnore is how long a finding that may hold several secrets can be ignored.
const MaxSharedIgnore = 24 * time.Hour

// limitIgnoring limits how long a finding is ignored whose secrets have no fingerprint: all secrets of one rule in one
// location are this finding, so ignoring it for good would ignore the next one too. Whoever writes the lines may choose
// the location: it is the name of the application in them.
func limitIgnoring(f *Finding, now time.Time) error {
	if f.Status != finding.Ignored || f.Kind != finding.Secret || f.Fingerprint != "" {
		return nil
	}
	latest := now.Add(MaxSharedIgnore).Truncate(time.Second)
	switch {
	case f.IgnoreUntil.IsZero():
		f.IgnoreUntil = latest
	case f.IgnoreUntil.After(latest):
		return &InvalidError{"ignore_until",
			"must be within a day: secrets of this rule have no fingerprint, so the next one would be ignored too"}
	}
	return nil
}

func setStatus(f *Finding, to finding.Status, now time.Time) error {
	if !f.Status.MayBecome(to) {
		return &FindingStatusError{f.Status, to}
	}
	f.Status = to
	f.Resolution, f.ResolvedAt, f.IgnoreReason, f.IgnoreUntil = "", time.Time{}, "", time.Time{}
	switch to {
	case finding.Resolved:
		f.ResolvedAt = now
	case finding.Open:
		f.OpenedAt = now
	}
	return nil
}

// setReason sets the reason that a status requires, and no other status may have.
func setReason(name string, at *string, to *string, is, requires finding.Status, words []string) error {
	if to != nil && is != requires && *to != "" {
		return &InvalidError{name, fmt.Sprintf("can be set only together with the status %s", requires)}
	}
	if to != nil && is == requires {
		*at = *to
	}
	if is == requires && require.OneOf(name, *at, words...) != nil {
		return &InvalidError{name, "must be one of " + strings.Join(words, ", ")}
	}
	return nil
}
