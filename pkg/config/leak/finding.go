// Package leak has the kinds of entities by which leaked secrets are found: log drains, DSNs, domains with their scans
// and tripwires, and the findings from them. config.Control embeds Findings and Tripwires.
//
// A finding is known by what was found and where, and is opened once; DecideFinding of config.Control opens it together
// with its alert. Tokens, keys and tripwires are found by their SHA-256. Of a tripwire nothing else is stored.
package leak

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
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
