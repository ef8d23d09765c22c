package config

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/metric"
)

// The traits of the table.
const (
	exported          = entity.Exported
	holdsSecrets      = entity.HoldsSecrets
	needsHash         = entity.NeedsHash
	expires           = entity.Expires
	expiresInAnyOrder = entity.ExpiresInAnyOrder
)

// kindTable has every kind.
var kindTable = &entity.Table{
	// registered by the log itself
	entity.KindLog:     entity.Row[LogSecret]("log", conflog.AuditNone, holdsSecrets, conflog.Bounds{}),
	entity.KindAccount: entity.Row[entity.Account]("account", conflog.AuditAll, exported, conflog.Bounds{Singleton: true}),
	entity.KindEndpoint: entity.Row[Endpoint]("endpoint", conflog.AuditAll, exported|holdsSecrets|needsHash,
		conflog.Bounds{MaxCount: MaxEndpoints, ErrCount: ErrTooManyEndpoints}),
	entity.KindKey: entity.Row[Key]("key", conflog.AuditAll, exported|needsHash, conflog.Bounds{}),
	// Creating and cancelling a run is audited; its progress is not.
	entity.KindRun: entity.Row[jobs.Run]("run", conflog.AuditRequested, expires,
		conflog.Bounds{AllowGrowthWhenFull: true}),
	entity.KindAnswer: entity.Row[Answer]("answer", conflog.AuditNone, holdsSecrets|expires,
		conflog.Bounds{MaxBytes: MaxAnswersBytes, ReservedBytes: answersReserve, ErrBytes: ErrAnswersFull}),
	entity.KindRecovery: entity.Row[jobs.Recovery]("recovery", conflog.AuditRequested, exported,
		conflog.Bounds{MaxCount: MaxRecoveries, ErrCount: ErrRecoveryHistoryFull, AllowGrowthWhenFull: true}),
	entity.KindAlertSettings: entity.Row[alerting.AlertSettings]("alert_settings", conflog.AuditAll, exported|holdsSecrets,
		conflog.Bounds{}),
	// Alerts are small, and alerting must work when the configuration is full.
	entity.KindAlert: entity.Row[alerting.Alert]("alert", conflog.AuditNone, exported,
		conflog.Bounds{MaxCount: maxAlerts, ErrCount: ErrStateFull, AllowWhenFull: true}),
	entity.KindUser: entity.Row[User]("user", conflog.AuditAll, exported,
		conflog.Bounds{MaxCount: MaxUsers, ErrCount: ErrTooManyUsers}),
	// Erasures are small, and must always be possible.
	entity.KindErasure: entity.Row[Erasure]("erasure", conflog.AuditCreateDelete, exported|expires,
		conflog.Bounds{MaxCount: MaxErasures, ErrCount: ErrTooManyErasures, AllowWhenFull: true, AllowWhenOutboxFull: true}),
	entity.KindSettings: entity.Row[Settings]("settings", conflog.AuditAll, exported, conflog.Bounds{}),
	entity.KindServiceSecret: entity.Row[ServiceSecret]("service_secret", conflog.AuditAll, exported|holdsSecrets,
		conflog.Bounds{}),
	// Changes that the service makes by itself are not audited. The status of a finding can always be changed: it grows
	// by a few bytes.
	entity.KindFinding: entity.Row[leak.Finding]("finding", conflog.AuditRequested, exported,
		conflog.Bounds{MaxCount: leak.MaxFindings, ErrCount: leak.ErrTooManyFindings, AllowGrowthWhenFull: true,
			MaxPending: leak.MaxOutstandingFindings, ErrPending: leak.ErrTooManyFindings}),
	entity.KindDrain: entity.Row[leak.Drain]("drain", conflog.AuditAll, exported|holdsSecrets|needsHash,
		conflog.Bounds{MaxCount: leak.MaxDrains, ErrCount: leak.ErrTooManyDrains}),
	entity.KindDSN: entity.Row[leak.DSN]("dsn", conflog.AuditAll, exported|holdsSecrets|needsHash,
		conflog.Bounds{MaxCount: leak.MaxDSNs, ErrCount: leak.ErrTooManyDSNs}),
	// The daily checks are not audited, and must be possible when the configuration is full: a domain may expire.
	entity.KindDomain: entity.Row[leak.Domain]("domain", conflog.AuditRequested, exported|needsHash,
		conflog.Bounds{MaxCount: leak.MaxDomains, ErrCount: leak.ErrTooManyDomains, AllowGrowthWhenFull: true}),
	entity.KindScan: entity.Row[leak.Scan]("scan", conflog.AuditRequested, exported,
		conflog.Bounds{MaxCount: leak.MaxStoredScans, ErrCount: leak.ErrTooManyScans, AllowGrowthWhenFull: true}),
	// Trips are not audited, and are recorded even when the configuration is full.
	entity.KindTripwire: entity.Row[leak.Tripwire]("tripwire", conflog.AuditRequested, exported|needsHash,
		conflog.Bounds{MaxCount: leak.MaxDomains * leak.MaxTripwires, ErrCount: leak.ErrTooManyTripwires,
			AllowGrowthWhenFull: true}),
	// The end of an action, which a node may record by itself, is not audited: the change that it made is.
	entity.KindAction: entity.Row[Action]("act", conflog.AuditRequested, expires,
		conflog.Bounds{MaxCount: MaxActions, ErrCount: ErrTooManyActions, AllowGrowthWhenFull: true}),
	// Removing expired fixtures is not audited: their creation says when they expire.
	entity.KindFixture: entity.Row[Fixture]("fixture", conflog.AuditRequested, exported|expiresInAnyOrder,
		conflog.Bounds{MaxCount: MaxFixtures, ErrCount: ErrTooManyFixtures, MaxBytes: MaxFixturesBytes,
			ErrBytes: ErrFixturesFull}),
	// A node that does not know tenants would give their keys the whole account.
	entity.KindTenant: entity.Row[Tenant]("tenant", conflog.AuditAll, exported, conflog.Bounds{}).AtLevel(3),
	// What ends by its time is not audited. A link that was created can be opened when the configuration is full.
	entity.KindPortalSession: entity.Row[PortalSession]("portal_session", conflog.AuditRequested,
		expiresInAnyOrder, conflog.Bounds{MaxCount: MaxPortalSessions, ErrCount: ErrTooManyPortalSessions,
			AllowGrowthWhenFull: true}).AtLevel(3),
	entity.KindEventType: entity.Row[EventType]("event_type", conflog.AuditAll, exported,
		conflog.Bounds{MaxCount: MaxEventTypes, ErrCount: ErrTooManyEventTypes, MaxBytes: MaxEventTypesBytes,
			ErrBytes: ErrEventTypesFull}).AtLevel(3),
	// What was counted is not audited, and must be possible when the configuration is full.
	entity.KindIssue: entity.Row[alerting.Issue]("issue", conflog.AuditRequested, exported|expiresInAnyOrder,
		conflog.Bounds{MaxCount: alerting.MaxIssues, ErrCount: alerting.ErrTooManyIssues,
			AllowGrowthWhenFull: true}).AtLevel(3),
}

func (*LogSecret) EntityKind() entity.Kind     { return entity.KindLog }
func (*Endpoint) EntityKind() entity.Kind      { return entity.KindEndpoint }
func (*Key) EntityKind() entity.Kind           { return entity.KindKey }
func (*Answer) EntityKind() entity.Kind        { return entity.KindAnswer }
func (*User) EntityKind() entity.Kind          { return entity.KindUser }
func (*Erasure) EntityKind() entity.Kind       { return entity.KindErasure }
func (*Settings) EntityKind() entity.Kind      { return entity.KindSettings }
func (*ServiceSecret) EntityKind() entity.Kind { return entity.KindServiceSecret }
func (*Action) EntityKind() entity.Kind        { return entity.KindAction }
func (*Fixture) EntityKind() entity.Kind       { return entity.KindFixture }
func (*Tenant) EntityKind() entity.Kind        { return entity.KindTenant }
func (*PortalSession) EntityKind() entity.Kind { return entity.KindPortalSession }
func (*EventType) EntityKind() entity.Kind     { return entity.KindEventType }

// LogSecret is the value of the first record of the configuration log, which pkg/conflog creates. The secret is sealed.
type LogSecret struct {
	entity.Plain
	ID     string      `json:"id"`
	Secret seal.Secret `json:"secret"`
}

func (l *LogSecret) Common() entity.CommonFields { return entity.CommonFields{ID: &l.ID} }

func (l *LogSecret) EachSealed(f func(entity, field string, s *seal.Secret)) {
	f(l.ID, FieldLogSecret, &l.Secret)
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
