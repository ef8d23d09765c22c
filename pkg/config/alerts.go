package config

import (
	"context"
	"errors"
	"slices"
	"time"
)

// alerts reads and changes the alerts and their settings.
type alerts struct{ *core }

// AlertSettings are an account's channels and rules. There is one, its id is that of the account.
type AlertSettings struct {
	Meta
	Channels        []AlertChannel `json:"channels,omitempty"` // at most one of a kind
	Rules           AlertRules     `json:"rules"`
	CooldownSeconds int            `json:"cooldown_seconds"` // between two firings of one alert
}

// AlertChannel is a saved channel. What its kind needs is in the table of package notify; the other members are empty.
type AlertChannel struct {
	Kind    string   `json:"kind"`
	Enabled bool     `json:"enabled"`
	To      []string `json:"to,omitempty"`     // mail addresses
	URL     Sealed   `json:"url,omitempty"`    // its path is often all that protects it
	Secret  Sealed   `json:"secret,omitempty"` // signs what is posted
}

// FieldAlertURL is the field under which the URL of a channel is sealed; the entity is the account.
func FieldAlertURL(kind string) string { return "alerts/" + kind }

// FieldAlertSecret is that of the secret of a channel.
func FieldAlertSecret(kind string) string { return FieldAlertURL(kind) + "/secret" }

// Channel returns the channel of a kind, nil when none is saved.
func (s *AlertSettings) Channel(kind string) *AlertChannel {
	i := slices.IndexFunc(s.Channels, func(c AlertChannel) bool { return c.Kind == kind })
	if i < 0 {
		return nil
	}
	return &s.Channels[i]
}

// SaveChannel adds a channel, or puts it in the place of the one of its kind.
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

// AlertRules say what is announced. Their JSON is that of the API.
type AlertRules struct {
	DeliveryFailed      AlertRule           `json:"delivery_failed"`
	ConsecutiveFailures AlertThresholdRule  `json:"consecutive_failures"`
	FailureRate         AlertRateRule       `json:"failure_rate"`
	BacklogAge          AlertAgeRule        `json:"backlog_age"`
	DestinationState    AlertRule           `json:"destination_state"`
	VerificationFailed  AlertThresholdRule  `json:"verification_failed"`
	Usage               AlertUsageRule      `json:"usage"`
	Finding             AlertFindingRule    `json:"finding"`
	Recovery            AlertRule           `json:"recovery"`
	ProcessingMissing   AlertProcessingRule `json:"processing_missing"`
}

// AlertRule is a rule without a number.
type AlertRule struct {
	Enabled bool `json:"enabled"`
}

// AlertThresholdRule fires at a count.
type AlertThresholdRule struct {
	Enabled   bool `json:"enabled"`
	Threshold int  `json:"threshold"`
}

// AlertRateRule fires when a part of the attempts of a window failed.
type AlertRateRule struct {
	Enabled       bool `json:"enabled"`
	Percent       int  `json:"percent"`
	WindowSeconds int  `json:"window_seconds"`
	MinAttempts   int  `json:"min_attempts"` // fewer tell nothing
}

// AlertAgeRule fires when something is that old.
type AlertAgeRule struct {
	Enabled bool `json:"enabled"`
	Seconds int  `json:"seconds"`
}

// AlertUsageRule fires at shares of the allowance.
type AlertUsageRule struct {
	Enabled bool  `json:"enabled"`
	Percent []int `json:"percent"` // ascending
}

// AlertFindingRule fires for leaked keys of a severity and above.
type AlertFindingRule struct {
	Enabled     bool   `json:"enabled"`
	MinSeverity string `json:"min_severity"`
}

// AlertProcessingRule fires when an event was delivered that long ago and nobody said it was processed.
type AlertProcessingRule struct {
	Enabled bool `json:"enabled"`
	Minutes int  `json:"minutes"`
}

// DefaultAlertRules are the rules of an account that says nothing.
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
	}
}

// DefaultAlertCooldown is the cooldown of an account that says nothing, in seconds.
const DefaultAlertCooldown = 900

// EndpointAlerts is what an endpoint wants other than its account; nil numbers and channels are the account's.
type EndpointAlerts struct {
	Enabled             bool      `json:"enabled"`
	Channels            []string  `json:"channels,omitzero"` // nil = all; empty = none
	ConsecutiveFailures *int      `json:"consecutive_failures,omitempty"`
	FailureRatePercent  *int      `json:"failure_rate_percent,omitempty"`
	MutedUntil          time.Time `json:"muted_until,omitzero"`
}

// AlertsOrDefault are the endpoint's alerts, which a nil Alerts leaves all to the account.
func (e *Endpoint) AlertsOrDefault() EndpointAlerts {
	if e.Alerts == nil {
		return EndpointAlerts{Enabled: true}
	}
	return *e.Alerts
}

// AlertSettings returns the settings, those of an account that has set none included. It is called after Ready.
func (c alerts) AlertSettings() *AlertSettings {
	a := c.Account()
	if s, presence := findEntity[*AlertSettings](c.core, kindAlertSettings, a.ID); presence == Present {
		return s
	}
	return &AlertSettings{
		Meta:  Meta{ID: a.ID, Account: a.ID, CreatedAt: a.CreatedAt, UpdatedAt: a.CreatedAt},
		Rules: DefaultAlertRules(), CooldownSeconds: DefaultAlertCooldown,
	}
}

// UpdateAlertSettings changes the settings. alter gets a copy, which it may alter freely; it is called again with a
// newer one when another writer came first, and its error is returned as it is.
func (c alerts) UpdateAlertSettings(ctx context.Context, alter func(*AlertSettings) error) (*AlertSettings, error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, err
	}
	for {
		s, err := updateEntity(ctx, c.core, kindAlertSettings, c.Account().ID, alter)
		if !errors.Is(err, ErrNotFound) {
			return s, err
		}
		first := *c.AlertSettings()
		if err := alter(&first); err != nil {
			return nil, err
		}
		first.UpdatedAt = c.now().UTC()
		if s, err = addEntity(ctx, c.core, kindAlertSettings, &first); !errors.Is(err, ErrConflict) {
			return s, err
		}
	}
}

// eachSealed calls f with every secret of the settings; see the function of that name.
func (s *AlertSettings) eachSealed(f func(entity, field string, s *Sealed)) {
	for i := range s.Channels {
		c := &s.Channels[i]
		if c.URL != "" {
			f(s.ID, FieldAlertURL(c.Kind), &c.URL)
		}
		if c.Secret != "" {
			f(s.ID, FieldAlertSecret(c.Kind), &c.Secret)
		}
	}
}

// Alert is the state of one rule for one thing; a transition is a conditional change of it, so that one node of all
// announces it. Its id is the rule and what it is about.
type Alert struct {
	Meta
	Rule        string    `json:"rule"`
	Endpoint    string    `json:"endpoint,omitempty"`
	Destination string    `json:"destination,omitempty"`
	Subject     string    `json:"subject,omitempty"` // what it is about beside these
	Firing      bool      `json:"firing"`
	Since       time.Time `json:"since"`             // of the last transition
	FiredAt     time.Time `json:"fired_at,omitzero"` // the last time it fired
	// Partition and Position say up to where the log was known when it changed last: what stood before cannot change
	// it again, so reading it twice is harmless.
	Partition int32 `json:"partition,omitempty"`
	Position  int64 `json:"position,omitempty"`
	// Notices are what is still to be announced, oldest first.
	Notices []AlertNotice `json:"notices,omitempty"`
	Budget  *AlertBudget  `json:"budget,omitempty"` // of the two alerts that hold one
}

// AlertNotice is one message on its way to the channels.
type AlertNotice struct {
	ID        string    `json:"id"` // the same in every try
	Type      string    `json:"type"`
	At        time.Time `json:"at"`
	Value     any       `json:"value"`
	Threshold any       `json:"threshold"`
	// targets that have not taken it: a channel, or "email:" and an address
	PendingTargets []string  `json:"to"`
	Merged         int       `json:"earlier,omitempty"` // messages before it that it stands for too
	Tries          int       `json:"tries,omitempty"`
	NextAt         time.Time `json:"next_at"`
	// Node sends it, others only from Until on.
	LeaseNode  string    `json:"node"`
	LeaseUntil time.Time `json:"until"`
}

// maxAlertNotices bounds what waits for channels that are away while an alert goes on changing: the oldest goes into
// the next one, which says for how many it stands.
const maxAlertNotices = 16

// Alert returns the state of an alert, nil when it has never changed.
func (c alerts) Alert(id string) *Alert {
	a, _ := findEntity[*Alert](c.core, kindAlert, id)
	return a
}

// Alerts are those that keep agrees to, the newest first.
func (c alerts) Alerts(keep func(*Alert) bool) []*Alert {
	const all = 1 << 30
	page, _ := listEntities(c.core, kindAlert, c.Account().ID, 0, all, keep)
	return page
}

// ErrAlertUnchanged ends a change of an alert that is no longer called for.
var ErrAlertUnchanged = errors.New("the alert does not change")

// ChangeAlert changes an alert by a conditional record, or makes it. alter is called again with the newer state when
// another node came first; with its ErrAlertUnchanged nothing is written, and nil is returned. Nobody waits for other
// nodes: they see it with the log.
func (c alerts) ChangeAlert(ctx context.Context, id string, alter func(*Alert) error) (*Alert, error) {
	for {
		_, after, err := c.change(ctx, kindAlert, id, isExempt, func(old value) (value, error) {
			return changedEntity(c.core, kindAlert, old.(*Alert), func(a *Alert) error {
				defer a.mergeNotices()
				return alter(a)
			})
		})
		if err == nil {
			return c.value(after.Entity).(*Alert), nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, unlessUnchanged(err)
		}
		now := c.now().UTC()
		first := &Alert{Meta: Meta{ID: id, Account: c.Account().ID, CreatedAt: now, UpdatedAt: now}}
		if err := alter(first); err != nil {
			return nil, unlessUnchanged(err)
		}
		res, err := c.create(ctx, kindAlert, first)
		if err == nil {
			return c.value(res.Entity).(*Alert), nil
		}
		if !errors.Is(err, ErrConflict) {
			return nil, err
		}
	}
}

func (a *Alert) mergeNotices() {
	for len(a.Notices) > maxAlertNotices {
		oldest, next := a.Notices[0], &a.Notices[1]
		next.Merged += oldest.Merged + 1
		for _, to := range oldest.PendingTargets {
			if !slices.Contains(next.PendingTargets, to) {
				next.PendingTargets = append(next.PendingTargets, to)
			}
		}
		a.Notices = a.Notices[1:]
	}
}

func unlessUnchanged(err error) error {
	if errors.Is(err, ErrAlertUnchanged) {
		return nil
	}
	return err
}

// EndedRecoveries are the recovery jobs that ended since then, other than by a request, the newest first.
func (c alerts) EndedRecoveries(since time.Time) []*Recovery {
	const all = 1 << 30
	page, _ := listEntities(c.core, kindRecovery, c.Account().ID, 0, all, func(r *Recovery) bool {
		switch r.State {
		case RecoveryCompleted, RecoveryStopped, RecoveryExpired, RecoveryFailed:
			return r.FinishedAt.After(since)
		}
		return false
	})
	return page
}

// ForgetAlert removes an alert that has been quiet for long.
func (c alerts) ForgetAlert(ctx context.Context, id string) error {
	return c.Forget(ctx, kindAlert, id)
}
