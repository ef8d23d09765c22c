// Package leak has the kinds of entities by which leaked secrets are found: log drains, DSNs, domains with their scans
// and tripwires, and the findings from them. config.Control embeds Findings and Tripwires.
//
// A finding is known by what was found and where, and is opened once; DecideFinding of config.Control opens it together
// with its alert. Tokens, keys and tripwires are found by their SHA-256. Of a tripwire nothing else is stored.
package leak

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
)

// Finding is the state of a finding: what people have to act on. Its hits are in the store. It exists from its first
// hit on until 400 days after the last one.
type Finding struct {
	entity.Meta
	Kind       finding.Kind     `json:"kind"`
	Rule       string           `json:"rule"`
	RuleName   string           `json:"rule_name,omitempty"` // of a customer's rule, which may be deleted
	Severity   finding.Severity `json:"severity"`            // the highest of its hits
	Status     finding.Status   `json:"status"`
	Unverified bool             `json:"unverified,omitempty"` // no hit was verified
	Test       bool             `json:"test,omitempty"`       // only test keys were found
	Version    int              `json:"version"`              // counts the changes, from 1 on

	Masked      string `json:"masked,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"` // fpr_…
	KeyID       string `json:"key_id,omitempty"`      // key_… when it is one of our own API keys
	TripwireID  string `json:"tripwire_id,omitempty"` // trw_… when it is about a tripwire

	// First is what the first hit said.
	First FirstHit `json:"first"`
	// OpenedAt is when it was opened last. AnnouncedAt is when people were notified about that; zero = they were not.
	OpenedAt    time.Time `json:"opened_at"`
	AnnouncedAt time.Time `json:"announced_at,omitzero"`
	RemindedAt  time.Time `json:"reminded_at,omitzero"` // when an outstanding flood or tripwire was announced again

	Resolution   string    `json:"resolution,omitempty"` // one of finding.Resolutions
	ResolvedAt   time.Time `json:"resolved_at,omitzero"`
	RegressedAt  time.Time `json:"regressed_at,omitzero"`
	IgnoreReason string    `json:"ignore_reason,omitempty"` // one of finding.IgnoreReasons
	IgnoreUntil  time.Time `json:"ignore_until,omitzero"`   // zero = for good
	Note         string    `json:"note,omitempty"`
	UpdatedBy    string    `json:"updated_by,omitempty"` // usr_… or key_…; empty: nobody has changed it
}

// FirstHit is what is known of a finding's first hit.
type FirstHit struct {
	At     time.Time      `json:"at"`
	Source finding.Source `json:"source"`
	Sender string         `json:"sender"`
	Label  string         `json:"label,omitempty"`
}

// MaxFindingNote is the maximum length of a note, in characters.
const MaxFindingNote = 500

// Bits of a finding's attributes, by which findings are filtered and counted without decoding them.
const (
	attrStatus     = 0 // 2 bits: the index in finding.Statuses
	attrSeverity   = 2 // 3 bits
	attrTest       = 1 << 5
	attrIgnore     = 8 // the seconds of IgnoreUntil, up to the year 9999
	attrIgnoreBits = 38
	attrSender     = attrIgnore + attrIgnoreBits // the rest: a hash of the sender
)

func (*Finding) EntityKind() entity.Kind { return entity.KindFinding }

// IsPending: somebody still has to act on it.
func (f *Finding) IsPending() bool   { return f.Status.Outstanding() }
func (f *Finding) ChangeCount() *int { return &f.Version }

func (f *Finding) Attributes() uint64 {
	a := uint64(max(slices.Index(finding.Statuses, f.Status), 0))<<attrStatus | uint64(f.Severity&7)<<attrSeverity
	if f.Test {
		a |= attrTest
	}
	if !f.IgnoreUntil.IsZero() {
		a |= uint64(max(f.IgnoreUntil.Unix(), 0)) & (1<<attrIgnoreBits - 1) << attrIgnore
	}
	return a | uint64(hashOfSender(f.First.Sender))<<attrSender
}

// hashOfSender returns 18 bits of a hash.
func hashOfSender(sender string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(sender))
	return h.Sum32() >> (attrSender - 32)
}

// FindingFilter selects findings. Members with their zero value select all.
type FindingFilter struct {
	Statuses    []finding.Status
	Severities  []finding.Severity
	MinSeverity finding.Severity
	// IgnoredUntil selects findings whose IgnoreUntil is set and not after it.
	IgnoredUntil time.Time
	Sender, Rule string // of the first hit
	Limit        int    // 0 = all
}

func (f *FindingFilter) matches(attributes uint64) bool {
	status := finding.Statuses[attributes>>attrStatus&3]
	severity := finding.Severity(attributes >> attrSeverity & 7)
	until := int64(attributes >> attrIgnore & (1<<attrIgnoreBits - 1))
	return (len(f.Statuses) == 0 || slices.Contains(f.Statuses, status)) &&
		(len(f.Severities) == 0 || slices.Contains(f.Severities, severity)) && severity >= f.MinSeverity &&
		(f.Sender == "" || hashOfSender(f.Sender) == uint32(attributes>>attrSender)) &&
		(f.IgnoredUntil.IsZero() || until > 0 && until <= f.IgnoredUntil.Unix())
}

// Findings are the drains, DSNs, domains and scans in the configuration, and the findings from them.
type Findings struct {
	*entity.Core
	senders *atomic.Pointer[senderCounts]
}

// NewFindings returns the findings in the configuration.
func NewFindings(c *entity.Core) Findings {
	return Findings{c, new(atomic.Pointer[senderCounts])}
}

// Finding returns the finding with that id; nil unless it is Present.
func (c Findings) Finding(id string) (*Finding, entity.Presence) {
	return entity.Get[Finding](c, id)
}

// FindingIDs returns the ids of the findings that a filter selects, newest first, at most MaxFindings. It decodes only
// those of a sender, or all for a rule.
func (c Findings) FindingIDs(filter FindingFilter) (ids []string) {
	for e := range c.View().NewestFirst(entity.KindFinding, 0) {
		if !filter.matches(e.Attributes) {
			continue
		}
		if filter.Sender != "" || filter.Rule != "" {
			f := c.Decoded(e).(*Finding)
			if filter.Sender != "" && filter.Sender != f.First.Sender || filter.Rule != "" && filter.Rule != f.Rule {
				continue
			}
		}
		if ids = append(ids, e.ID); len(ids) == filter.Limit {
			break
		}
	}
	return ids
}

// FindingsBefore returns the findings that were created before t, oldest first.
func (c Findings) FindingsBefore(t time.Time) []*Finding {
	return entity.ValuesOf(c.Core, c.View().OldestFirst(entity.KindFinding),
		func(f *Finding) bool { return f.CreatedAt.Before(t) })
}

// ForgetFinding removes a finding without a tombstone, if it has not changed since it was read.
func (c Findings) ForgetFinding(ctx context.Context, f *Finding) error {
	return c.ForgetIfUnchanged(ctx, entity.KindFinding, f.ID, f.Rev)
}

func (f *Finding) Validate() error {
	_, idErr := id.Parse(finding.Prefix, f.ID)
	var severity error
	if f.Severity < finding.Low || f.Severity > finding.Critical {
		severity = errors.New("severity is missing")
	}
	errs := []error{idErr, severity,
		require.OneOf("kind", string(f.Kind), string(finding.Secret), string(finding.ExposedFile), string(finding.Tripwire)),
		require.OneOf("status", string(f.Status), texts(finding.Statuses)...),
		require.Text("rule", f.Rule, 1, require.MaxName), require.Text("masked", f.Masked, 0, require.MaxName),
		require.Text("note", f.Note, 0, MaxFindingNote), require.Text("label", f.First.Label, 0, require.MaxName),
		require.Range("version", f.Version, 1, 1<<53),
	}
	if f.Status == finding.Resolved {
		errs = append(errs, require.OneOf("resolution", f.Resolution, finding.Resolutions...))
	}
	if f.Status == finding.Ignored {
		errs = append(errs, require.OneOf("ignore_reason", f.IgnoreReason, finding.IgnoreReasons...))
	}
	return errors.Join(errs...)
}

// texts returns the words of a list.
func texts[S ~string](words []S) (all []string) {
	for _, w := range words {
		all = append(all, string(w))
	}
	return all
}

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
// *entity.InvalidError, a *FindingStatusError, ErrFindingChanged or conflog.ErrNotFound.
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

// A sender may have as many findings as a third of what the account may still have, or a sixth for findings below high.
// So one sender gets at most a quarter of all, another one after it still gets a share, and findings that are easily
// made up do not displace severe ones. Both bounds, MaxFindings and MaxOutstandingFindings, are shared like this.
const (
	shareOfSevere = 3
	shareOfMinor  = 6
)

// senderCounts are the numbers of findings by hashOfSender.
type senderCounts struct {
	at               time.Time
	sequence         int64 // of the view
	all, outstanding map[uint32]int
}

// senderCountsAge is how old the counts may be while the configuration changes.
const senderCountsAge = time.Second

// OutstandingFindings returns the number of findings that are neither resolved nor ignored.
func (c Findings) OutstandingFindings() int { return c.View().PendingLen(entity.KindFinding) }

// RemainingFindings returns how many new findings of a severity a sender may open. It counts findings of the last
// second only in part. A sender asks before it produces hits of new findings: apply refuses more than
// MaxOutstandingFindings and MaxFindings.
func (c Findings) RemainingFindings(sender string, severity finding.Severity) int {
	share := shareOfSevere
	if severity < finding.High {
		share = shareOfMinor
	}
	counts, hash, v := c.countSenders(), hashOfSender(sender), c.View()
	remaining := func(most, used, own int) int { return max(0, (most-used)/share-own) }
	return min(remaining(MaxOutstandingFindings, v.PendingLen(entity.KindFinding), counts.outstanding[hash]),
		remaining(MaxFindings, v.Len(entity.KindFinding), counts.all[hash]))
}

// countSenders counts the findings of all senders, at most once a second: it walks over all findings.
func (c Findings) countSenders() *senderCounts {
	v, now := c.View(), c.Now()
	old := c.senders.Load()
	if old != nil && (old.sequence == v.Sequence() || now.Sub(old.at).Abs() < senderCountsAge) {
		return old
	}
	n := &senderCounts{at: now, sequence: v.Sequence(), all: map[uint32]int{}, outstanding: map[uint32]int{}}
	for e := range v.NewestFirst(entity.KindFinding, 0) {
		sender := uint32(e.Attributes >> attrSender)
		n.all[sender]++
		if e.Pending {
			n.outstanding[sender]++
		}
	}
	c.senders.Store(n)
	return n
}
