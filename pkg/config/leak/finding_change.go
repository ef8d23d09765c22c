package leak

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

// IsOutsideBounds reports whether a finding may be outstanding beyond MaxOutstandingFindings: that of a flood, of which
// each sender has one, those of our own API keys, which nobody can make up, and those of tripwires, which are few.
func (f *Finding) IsOutsideBounds() bool {
	return f.Rule == finding.RuleFlood || f.KeyID != "" || f.Kind == finding.Tripwire
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
// *entity.InvalidError, a *FindingStatusError, ErrFindingChanged or ErrNotFound.
func (c Findings) UpdateFinding(ctx context.Context, id string, u FindingUpdate) (*Finding, error) {
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
			return &entity.InvalidError{Param: "note", Message: "must have at most 500 characters"}
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
		return &entity.InvalidError{Param: "ignore_until", Message: "can be set only for an ignored finding"}
	case !u.IgnoreUntil.After(now):
		return &entity.InvalidError{Param: "ignore_until", Message: "must be in the future"}
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
		return &entity.InvalidError{Param: "ignore_until",
			Message: "must be within a day: secrets of this rule have no fingerprint, so the next one would be ignored too"}
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
		return &entity.InvalidError{Param: name, Message: fmt.Sprintf("can be set only together with the status %s",
			requires)}
	}
	if to != nil && is == requires {
		*at = *to
	}
	if is == requires && require.OneOf(name, *at, words...) != nil {
		return &entity.InvalidError{Param: name, Message: "must be one of " + strings.Join(words, ", ")}
	}
	return nil
}
