// Package alerting has the alerts in the configuration: the settings of an account and of its endpoints,
// the state of each alert with the messages that are not sent yet, and the budgets of mail and tests.
// config.Control embeds Store. Package usage/alert evaluates the rules and sends the messages.
//
// A transition of an alert is a conditional change, so exactly one node announces it.
package alerting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/finding"
)

// Store are the alerts in the configuration, and their settings.
type Store struct{ *entity.Core }

// AlertSettings holds the channels and rules of an account. There is one per account, with the account's id.
type AlertSettings struct {
	entity.Meta
	Channels        []AlertChannel `json:"channels,omitempty"` // at most one of each kind
	Rules           AlertRules     `json:"rules"`
	CooldownSeconds int            `json:"cooldown_seconds"` // minimum seconds between two firings of one alert
}

// AlertChannel is a saved channel. The table of package notify says which members its kind needs; the others are empty.
type AlertChannel struct {
	Kind    string      `json:"kind"`
	Enabled bool        `json:"enabled"`
	To      []string    `json:"to,omitempty"`     // mail addresses
	URL     seal.Secret `json:"url,omitempty"`    // sealed: the path is often its only protection
	Secret  seal.Secret `json:"secret,omitempty"` // signs the requests
}

// FieldAlertURL returns the field under which the URL of a channel is sealed; the entity is the account.
func FieldAlertURL(kind string) string { return "alerts/" + kind }

// FieldAlertSecret returns the field under which the secret of a channel is sealed.
func FieldAlertSecret(kind string) string { return FieldAlertURL(kind) + "/secret" }

func (*AlertSettings) EntityKind() entity.Kind { return entity.KindAlertSettings }

// Channel returns the channel of a kind, nil when none is saved.
func (s *AlertSettings) Channel(kind string) *AlertChannel {
	i := slices.IndexFunc(s.Channels, func(c AlertChannel) bool { return c.Kind == kind })
	if i < 0 {
		return nil
	}
	return &s.Channels[i]
}

// SaveChannel adds a channel or replaces the one of the same kind.
func (s *AlertSettings) SaveChannel(next AlertChannel) {
	if c := s.Channel(next.Kind); c != nil {
		*c = next
	} else {
		s.Channels = append(s.Channels, next)
	}
}

// RemoveChannel removes the channel of a kind.
func (s *AlertSettings) RemoveChannel(kind string) {
	s.Channels = slices.DeleteFunc(s.Channels, func(c AlertChannel) bool { return c.Kind == kind })
}

// AlertRules define which events raise alerts. Their JSON is that of the API.
type AlertRules struct {
	DeliveryFailed      AlertRule           `json:"delivery_failed" in:"null" description:"Fires when a delivery fails for good. It fires again only after a delivery to the destination has succeeded."`
	ConsecutiveFailures AlertThresholdRule  `json:"consecutive_failures" in:"null" description:"Fires after that many failed attempts in a row at a destination."`
	FailureRate         AlertRateRule       `json:"failure_rate" in:"null"`
	BacklogAge          AlertAgeRule        `json:"backlog_age" in:"null"`
	DestinationState    AlertRule           `json:"destination_state" in:"null" description:"Fires when the service holds or disables a destination."`
	VerificationFailed  AlertThresholdRule  `json:"verification_failed" in:"null" description:"Fires after that many invalid signatures."`
	Usage               AlertUsageRule      `json:"usage" in:"null"`
	Finding             AlertFindingRule    `json:"finding" in:"null"`
	Recovery            AlertRule           `json:"recovery" in:"null" description:"Fires when a recovery job has ended, unless it was cancelled."`
	ProcessingMissing   AlertProcessingRule `json:"processing_missing" in:"null"`
	SourceFailing       AlertAgeRule        `json:"source_failing" in:"null" description:"Fires when the source of an endpoint cannot be read, or its provider cannot be asked for events, for longer than that."`
}

// AlertRuleNames returns the names of the rules that have alerts of their own, in the order of AlertRules. Those of
// findings have none: their state is the finding's.
func AlertRuleNames() []string {
	return []string{"delivery_failed", "consecutive_failures", "failure_rate", "backlog_age", "destination_state",
		"verification_failed", "usage", "recovery", "processing_missing", "source_failing"}
}

// AlertRule is a rule without a threshold.
type AlertRule struct {
	Enabled bool `json:"enabled" in:""`
}

// AlertThresholdRule fires at a number of occurrences.
type AlertThresholdRule struct {
	Enabled   bool `json:"enabled" in:""`
	Threshold int  `json:"threshold" in:"" minimum:"1" maximum:"10000"`
}

// AlertRateRule fires when a percentage of the attempts in a window has failed.
type AlertRateRule struct {
	Enabled       bool `json:"enabled" in:""`
	Percent       int  `json:"percent" in:"" minimum:"1" maximum:"100"`
	WindowSeconds int  `json:"window_seconds" in:"" minimum:"60" maximum:"3600"`
	MinAttempts   int  `json:"min_attempts" in:"" minimum:"1" maximum:"100000" description:"With fewer attempts in the window the rule does not fire."`
}

// AlertAgeRule fires at an age.
type AlertAgeRule struct {
	Enabled bool `json:"enabled" in:""`
	Seconds int  `json:"seconds" in:"" minimum:"10" maximum:"604800"`
}

// AlertUsageRule fires at percentages of the allowance.
type AlertUsageRule struct {
	Enabled bool  `json:"enabled" in:""`
	Percent []int `json:"percent" in:"" minItems:"1" maxItems:"10" uniqueItems:"true" items.minimum:"1" items.maximum:"1000" description:"Percentages of the allowance at which it fires, ascending."`
}

// AlertFindingRule fires for leaked keys of at least a severity.
type AlertFindingRule struct {
	Enabled     bool   `json:"enabled" in:""`
	MinSeverity string `json:"min_severity" in:"" enum:"low,medium,high,critical"`
}

// AlertProcessingRule fires when an event was delivered some minutes ago and not reported as processed.
type AlertProcessingRule struct {
	Enabled bool `json:"enabled" in:""`
	Minutes int  `json:"minutes" in:"" minimum:"1" maximum:"10080" description:"Fires when an event has no receipt this long after its delivery, in minutes."`
}

// DefaultAlertRules returns the rules of an account without settings.
func DefaultAlertRules() AlertRules {
	return AlertRules{
		DeliveryFailed:      AlertRule{true},
		ConsecutiveFailures: AlertThresholdRule{true, 20},
		FailureRate:         AlertRateRule{true, 50, 300, 20},
		BacklogAge:          AlertAgeRule{true, 300},
		DestinationState:    AlertRule{true},
		VerificationFailed:  AlertThresholdRule{true, 10},
		Usage:               AlertUsageRule{true, []int{80, 100}},
		Finding:             AlertFindingRule{true, "high"},
		Recovery:            AlertRule{true},
		ProcessingMissing:   AlertProcessingRule{false, 30},
		SourceFailing:       AlertAgeRule{true, 300},
	}
}

// UnmarshalJSON gives rules that the stored settings do not have, because they are newer, their defaults.
func (s *AlertSettings) UnmarshalJSON(raw []byte) error {
	type plain AlertSettings
	s.Rules.SourceFailing = DefaultAlertRules().SourceFailing
	return json.Unmarshal(raw, (*plain)(s))
}

// DefaultAlertCooldown is the cooldown of an account without settings, in seconds.
const DefaultAlertCooldown = 900

// EndpointAlerts overrides the alert settings of the account for one endpoint. nil members use those of the account.
type EndpointAlerts struct {
	Enabled             bool      `json:"enabled"`
	Channels            []string  `json:"channels,omitzero"` // nil = all; empty = none
	ConsecutiveFailures *int      `json:"consecutive_failures,omitempty"`
	FailureRatePercent  *int      `json:"failure_rate_percent,omitempty"`
	MutedUntil          time.Time `json:"muted_until,omitzero"`
}

// AlertSettings returns the settings of the account, or the defaults. Call it after Ready.
func (c Store) AlertSettings() *AlertSettings {
	a := c.Account()
	if s, presence := entity.Get[AlertSettings](c, a.ID); presence == entity.Present {
		return s
	}
	return &AlertSettings{
		Meta:  entity.Meta{ID: a.ID, Account: a.ID, CreatedAt: a.CreatedAt, UpdatedAt: a.CreatedAt},
		Rules: DefaultAlertRules(), CooldownSeconds: DefaultAlertCooldown,
	}
}

// UpdateAlertSettings changes the settings. alter gets a copy that it may modify. When another writer wins, alter is
// called again with a newer copy. Its error is returned unchanged.
func (c Store) UpdateAlertSettings(ctx context.Context, alter func(*AlertSettings) error) (*AlertSettings, error) {
	first := func() *AlertSettings { s := *c.AlertSettings(); return &s }
	s, w, err := entity.UpdateOrCreate(ctx, c.Core, first, alter)
	return entity.Awaited(ctx, c.Core, s, w, err)
}

func (s *AlertSettings) EachSealed(f func(entity, field string, s *seal.Secret)) {
	for i := range s.Channels {
		c := &s.Channels[i]
		f(s.ID, FieldAlertURL(c.Kind), &c.URL)
		f(s.ID, FieldAlertSecret(c.Kind), &c.Secret)
	}
}

// Alert is the state of one rule for one object. A transition is a conditional change of it, so that exactly one node
// announces it. Its id consists of the rule and the object.
type Alert struct {
	entity.Meta
	Rule        string    `json:"rule"`
	Endpoint    string    `json:"endpoint,omitempty"`
	Destination string    `json:"destination,omitempty"`
	Subject     string    `json:"subject,omitempty"` // the object, if it is neither an endpoint nor a destination
	Firing      bool      `json:"firing"`
	Since       time.Time `json:"since"`             // time of the last transition
	FiredAt     time.Time `json:"fired_at,omitzero"` // time of the last firing
	// Value is what the rule found when it fired last, Threshold what it was compared with; nil: the rule has none.
	Value     any `json:"value,omitempty"`
	Threshold any `json:"threshold,omitempty"`
	// Partition and Position tell up to which offset outcomes were evaluated when the alert changed last. Outcomes
	// before it cannot change it again, so evaluating them twice is harmless.
	Partition int32 `json:"partition,omitempty"`
	Position  int64 `json:"position,omitempty"`
	// Notices are the messages that are not sent yet, oldest first.
	Notices []AlertNotice `json:"notices,omitempty"`
	Budget  *AlertBudget  `json:"budget,omitempty"` // of the alerts AlertMailBudget and AlertTestBudget only
}

// AlertNotice is one message to the channels, until all targets have received it.
type AlertNotice struct {
	ID       string `json:"id"`                // the same in every try
	Finding  string `json:"finding,omitempty"` // fnd_… when the message is about one
	Tripwire string `json:"tripwire,omitempty"`
	// Event is evt_… when the message is about a backlog: the event that has waited longest, or the one that blocks it.
	Event string `json:"event,omitempty"`
	Count int    `json:"count,omitempty"` // number of findings, of a message about several
	// Groups are the worst of these findings, at most 10; see alert.Announce.
	Groups    []FindingGroup `json:"groups,omitempty"`
	Type      string         `json:"type"`
	At        time.Time      `json:"at"`
	Value     any            `json:"value"`
	Threshold any            `json:"threshold"`
	// targets that have not accepted it: a channel, or "email:" and an address
	PendingTargets []string  `json:"to"`
	Merged         int       `json:"earlier,omitempty"` // number of earlier notices that were merged into this one
	NextAt         time.Time `json:"next_at"`           // when the first send is due
	// DueAt is when the next send is due, by target; NextAt for a target that is not in it.
	DueAt map[string]time.Time `json:"due_at,omitempty"`
	// Begun is not empty once the sender has begun to send a digest of findings.
	Begun string `json:"node"`
}

func (*Alert) EntityKind() entity.Kind { return entity.KindAlert }

// IsPending: it has messages to send.
func (a *Alert) IsPending() bool { return len(a.Notices) > 0 }
func (a *Alert) Validate() error { return require.Range("notices", len(a.Notices), 0, MaxAlertNotices) }

// TargetDue returns when a pending target is tried next.
func (n *AlertNotice) TargetDue(to string) time.Time {
	if at, ok := n.DueAt[to]; ok {
		return at
	}
	return n.NextAt
}

// FindingGroup counts findings of one rule and severity.
type FindingGroup struct {
	Severity finding.Severity `json:"severity"`
	Rule     string           `json:"rule"`
	App      string           `json:"app,omitempty"` // of the first of them: untrusted text
	Count    int              `json:"count"`
}

// MaxAlertNotices bounds the messages that wait while channels are unavailable and an alert keeps changing. The oldest
// is merged into the next one.
const MaxAlertNotices = 16

// Alert returns the state of an alert; nil if it has never changed.
func (c Store) Alert(id string) *Alert {
	a, _ := entity.Get[Alert](c, id)
	return a
}

// Alerts returns the alerts for which keep returns true, newest first.
func (c Store) Alerts(keep func(*Alert) bool) []*Alert {
	page, _ := entity.List(c, c.Account().ID, 0, entity.Unlimited, keep)
	return page
}

// AlertPage returns at most limit alerts of an account for which keep returns true; see List.
func (c Store) AlertPage(account string, beforeSeq int64, limit int, keep func(*Alert) bool) ([]*Alert, bool) {
	return entity.List(c, account, beforeSeq, limit, keep)
}

// AlertsWithNotices returns the alerts with messages that are not sent yet and for which keep returns true (nil = all),
// newest first. It reads no other alert.
func (c Store) AlertsWithNotices(keep func(*Alert) bool) []*Alert {
	return entity.ValuesOf(c.Core, c.View().Pending(entity.KindAlert), keep)
}

// ErrAlertUnchanged is returned by alter when an alert need not change any more.
var ErrAlertUnchanged = errors.New("the alert does not change")

// ChangeAlert changes or creates an alert with a conditional record. alter is called again with the newer state when
// another node wins. When alter returns ErrAlertUnchanged, nothing is written and ChangeAlert returns nil. It does not
// wait for other nodes.
func (c Store) ChangeAlert(ctx context.Context, id string, alter func(*Alert) error) (*Alert, error) {
	first := func() *Alert {
		return &Alert{Meta: entity.Meta{ID: id, Account: c.Account().ID, CreatedAt: c.Clock().UTC()}}
	}
	a, _, err := entity.UpdateOrCreate(ctx, c.Core, first, func(a *Alert) error {
		defer a.MergeNotices()
		return alter(a)
	})
	if errors.Is(err, ErrAlertUnchanged) {
		return nil, nil
	}
	return a, err
}

// MergeNotices merges the oldest messages into the next until at most MaxAlertNotices are left.
func (a *Alert) MergeNotices() {
	for len(a.Notices) > MaxAlertNotices {
		oldest, next := a.Notices[0], &a.Notices[1]
		next.Merged += oldest.Merged + 1
		next.Count += oldest.Count
		for _, to := range oldest.PendingTargets {
			if !slices.Contains(next.PendingTargets, to) {
				next.PendingTargets = append(next.PendingTargets, to)
			}
		}
		a.Notices = a.Notices[1:]
	}
}

// ForgetAlert removes an alert. The caller checks that it has been resolved for long enough.
func (c Store) ForgetAlert(ctx context.Context, id string) error {
	return c.Forget(ctx, entity.KindAlert, id)
}

// Bounds of alert channels. Newer versions may know more kinds than this one.
const (
	MaxAlertChannels  = 20
	MaxAlertAddresses = 20 // addresses of one channel
)

func (s *AlertSettings) Validate() error {
	errs := []error{require.Range("channels", len(s.Channels), 0, MaxAlertChannels)}
	for i := range s.Channels {
		c := &s.Channels[i]
		errs = append(errs, require.Range("channels.to", len(c.To), 0, MaxAlertAddresses))
		if s.Channel(c.Kind) != c {
			errs = append(errs, fmt.Errorf("channels contains %.100q twice", c.Kind))
		}
	}
	return errors.Join(errs...)
}

// Ids of the two alerts that hold a budget instead of the state of a rule.
const (
	AlertMailBudget = "budget/mail"
	AlertTestBudget = "budget/test"
)

// AlertBudget counts sent messages for the limits of alert messages. It is stored in an Alert that never fires, so that
// all nodes share it and it survives restarts. A budget that has not changed for 25 hours is removed like any resolved
// alert.
type AlertBudget struct {
	Sent []AlertSent `json:"sent,omitempty"` // within the last hour, oldest first
	// Holder is the node that has the lease until HeldUntil: the sender of notices, or the node that runs a test.
	Holder    string    `json:"holder,omitempty"`
	HeldUntil time.Time `json:"held_until,omitzero"`
	NextAt    time.Time `json:"next_at,omitzero"` // earliest time of the next digest
}

// AlertSent is one sent message or test.
type AlertSent struct {
	ID    string    `json:"id,omitempty"` // id of the notice
	At    time.Time `json:"at"`
	Mails int       `json:"mails,omitempty"` // number of recipients of a test mail
}

// budgetWindow is how long a sent message is counted.
const budgetWindow = time.Hour

// RecordSent adds a sent message and drops those older than an hour.
func (b *AlertBudget) RecordSent(s AlertSent) {
	b.Sent = slices.DeleteFunc(b.Sent, func(old AlertSent) bool { return s.At.Sub(old.At) >= budgetWindow })
	b.Sent = append(b.Sent, s)
}

// SentWithin returns what was sent in the window before now, an hour at most. b may be nil.
func (b *AlertBudget) SentWithin(now time.Time, window time.Duration) []AlertSent {
	if b == nil {
		return nil
	}
	i := slices.IndexFunc(b.Sent, func(s AlertSent) bool { return now.Sub(s.At) < min(window, budgetWindow) })
	if i < 0 {
		return nil
	}
	return b.Sent[i:]
}

// Held reports whether a node has the lease. b may be nil.
func (b *AlertBudget) Held(now time.Time) bool { return b != nil && now.Before(b.HeldUntil) }

// ChangeBudget calls alter with the budget of the alert, which is empty at first.
func (a *Alert) ChangeBudget(alter func(*AlertBudget) error) error {
	if a.Budget == nil {
		a.Budget = &AlertBudget{}
	}
	return alter(a.Budget)
}
