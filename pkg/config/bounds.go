package config

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/metric"
)

// Bounds of the kinds; see conflog.Bounds.
const (
	// MaxSources is the maximum number of endpoints with a source or a reconciliation, each with a client of some MiB.
	MaxSources = 100
	// MaxTenantSources is that of the endpoints of one tenant.
	MaxTenantSources = 5
	// MaxEndpoints is the maximum number of endpoints.
	MaxEndpoints = 200_000
	// MaxAnswersBytes is the room for remembered answers in bytes. New claims leave answersReserve of it for the
	// answers to existing claims.
	MaxAnswersBytes = 64 << 20
	answersReserve  = 1 << 20
	// MaxRecoveries is the maximum number of recovery jobs in 30 days, which is how long one is kept.
	MaxRecoveries = 5_000
	// maxAlerts is the maximum number of alerts.
	maxAlerts = 100_000
	// MaxUsers is the maximum number of users. A sign-in link is searched for among all of them.
	MaxUsers = 1000
)

// Errors of the bounds. Changes that only restrict or revoke something never return them.
var (
	// ErrAnswersFull means that the remembered answers fill the room that the claim or answer may use; see ClaimAnswer.
	ErrAnswersFull = errors.New("the room for remembered answers is full")

	ErrRecoveryHistoryFull = entity.TooMany(MaxRecoveries, "recovery jobs in 30 days")
	ErrTooManyEndpoints    = entity.TooMany(MaxEndpoints, "endpoints")
	ErrTooManyUsers        = entity.TooMany(MaxUsers, "users")
	ErrTooManyFixtures     = entity.TooMany(MaxFixtures, "fixtures")
)

// OnlyRestricts: a password was removed, sessions were ended, or the scope is now read. With a password a new link may
// take its place.
func (u *User) OnlyRestricts(next entity.Value) bool {
	want, now := *u, next.(*User)
	want.UpdatedAt = now.UpdatedAt
	if now.Password == "" {
		want.Password, want.Link, want.ChoosePassword = "", now.Link, false
	}
	if now.Epoch > u.Epoch {
		want.Epoch, want.EndedSessions = now.Epoch, now.EndedSessions
	}
	if keepsEnded(u.EndedSessions, now.EndedSessions, now.UpdatedAt) {
		want.EndedSessions = now.EndedSessions
	}
	if now.Scope == Read {
		want.Scope = Read
	}
	return entity.SameJSON(&want, now)
}

// keepsEnded reports whether after has the ended sessions of before that had not ended by their age at now.
func keepsEnded(before, after []EndedSession, now time.Time) bool {
	return !slices.ContainsFunc(before, func(s EndedSession) bool {
		return !s.Until.Before(now) && !slices.Contains(after, s)
	})
}

// OnlyRestricts: something was disabled, paused, purged or removed, or tokens and signing secrets were replaced.
func (e *Endpoint) OnlyRestricts(next entity.Value) bool {
	want, after := *e, next.(*Endpoint)
	want.UpdatedAt = after.UpdatedAt
	want.Enabled, want.Paused = e.Enabled && after.Enabled, e.Paused || after.Paused
	want.Token, want.TokenHash, want.FormerToken, want.TokenRotatedBy = after.Token, after.TokenHash, after.FormerToken,
		after.TokenRotatedBy
	want.Destinations = nil
	for _, d := range e.Destinations {
		now := after.Destination(d.ID)
		if now == nil {
			continue
		}
		d.Enabled, d.Paused = d.Enabled && now.Enabled, d.Paused || now.Paused
		if now.PurgeBefore.After(d.PurgeBefore) {
			d.PurgeBefore = now.PurgeBefore
		}
		if !now.Enabled {
			d.StateReason, d.GoneAt = now.StateReason, now.GoneAt
		}
		d.Secrets = now.Secrets
		want.Destinations = append(want.Destinations, d)
	}
	return entity.SameJSON(&want, after)
}

// BoundUsage is how much of a bound is used.
type BoundUsage struct {
	Name        string
	Used, Limit int64
}

// Names of the bounds without which no finding is opened.
const (
	boundState       = "bytes of configuration"
	boundFindings    = "findings"
	boundOutstanding = "findings neither resolved nor ignored"
)

// StopsFindings reports whether the bound is reached and keeps new findings from being opened.
func (u BoundUsage) StopsFindings() bool {
	return u.Used >= u.Limit && slices.Contains([]string{boundState, boundFindings, boundOutstanding}, u.Name)
}

// BoundsUsage returns the usage of the bounds that callers of the API can reach.
func (c *core) BoundsUsage() []BoundUsage {
	v := c.View()
	return []BoundUsage{
		{boundState, v.TotalBytes(), conflog.MaxStateBytes},
		{"endpoints", int64(v.Len(entity.KindEndpoint)), MaxEndpoints},
		{"bytes of remembered answers", v.Bytes(entity.KindAnswer), MaxAnswersBytes},
		{"recovery jobs of 30 days", int64(v.Len(entity.KindRecovery)), MaxRecoveries},
		{"erased payloads", int64(v.Len(entity.KindErasure)), MaxErasures},
		{boundFindings, int64(v.Len(entity.KindFinding)), leak.MaxFindings},
		{"fixtures", int64(v.Len(entity.KindFixture)), MaxFixtures},
		{"bytes of fixtures", v.Bytes(entity.KindFixture), MaxFixturesBytes},
		{boundOutstanding, int64(v.PendingLen(entity.KindFinding)), leak.MaxOutstandingFindings},
	}
}

func (c *core) registerMetrics(reg prometheus.Registerer) {
	gauge := func(name, help string, read func() float64) { metric.GaugeOf(reg, name, help, read) }
	count := func(k entity.Kind) func() float64 { return func() float64 { return float64(c.View().Len(k)) } }
	bound := func(n float64) func() float64 { return func() float64 { return n } }
	gauge("relay_control_endpoints", "Number of endpoints.", count(entity.KindEndpoint))
	gauge("relay_control_endpoints_limit", "Maximum number of endpoints.", bound(MaxEndpoints))
	gauge("relay_control_idempotency_bytes", "Size of the answers remembered for Idempotency-Keys.",
		func() float64 { return float64(c.View().Bytes(entity.KindAnswer)) })
	gauge("relay_control_idempotency_limit_bytes", "Maximum size of the answers remembered for Idempotency-Keys.",
		bound(MaxAnswersBytes))
	gauge("relay_control_recoveries", "Recovery jobs created in the last 30 days.", count(entity.KindRecovery))
	gauge("relay_control_findings", "Number of findings.", count(entity.KindFinding))
	gauge("relay_control_findings_limit", "Maximum number of findings.", bound(leak.MaxFindings))
	gauge("relay_control_findings_outstanding", "Number of findings that are neither resolved nor ignored.",
		func() float64 { return float64(c.View().PendingLen(entity.KindFinding)) })
	gauge("relay_control_findings_outstanding_limit",
		"Maximum number of findings that are neither resolved nor ignored.", bound(leak.MaxOutstandingFindings))
	gauge("relay_control_recoveries_limit", "Maximum number of recovery jobs created in 30 days.", bound(MaxRecoveries))
}
