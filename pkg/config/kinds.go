package config

import (
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
)

// kindTable has every kind.
var kindTable = &Table{
	// registered by the log itself
	kindLog:     row[LogSecret]("log", conflog.AuditNone, holdsSecrets, conflog.Bounds{}),
	kindAccount: row[Account]("account", conflog.AuditAll, exported, conflog.Bounds{Singleton: true}),
	kindEndpoint: row[Endpoint]("endpoint", conflog.AuditAll, exported|holdsSecrets|needsHash,
		conflog.Bounds{MaxCount: MaxEndpoints, ErrCount: ErrTooManyEndpoints}),
	kindKey: row[Key]("key", conflog.AuditAll, exported|needsHash, conflog.Bounds{}),
	// Creating and cancelling a run is audited; its progress is not.
	kindRun: row[Run]("run", conflog.AuditRequested, expires, conflog.Bounds{AllowGrowthWhenFull: true}),
	kindAnswer: row[Answer]("answer", conflog.AuditNone, holdsSecrets|expires,
		conflog.Bounds{MaxBytes: MaxAnswersBytes, ReservedBytes: answersReserve, ErrBytes: ErrAnswersFull}),
	kindRecovery: row[Recovery]("recovery", conflog.AuditRequested, exported,
		conflog.Bounds{MaxCount: MaxRecoveries, ErrCount: ErrRecoveryHistoryFull, AllowGrowthWhenFull: true}),
	kindAlertSettings: row[AlertSettings]("alert_settings", conflog.AuditAll, exported|holdsSecrets, conflog.Bounds{}),
	// Alerts are small, and alerting must work when the configuration is full.
	kindAlert: row[Alert]("alert", conflog.AuditNone, exported,
		conflog.Bounds{MaxCount: maxAlerts, ErrCount: ErrStateFull, AllowWhenFull: true}),
	kindUser: row[User]("user", conflog.AuditAll, exported,
		conflog.Bounds{MaxCount: MaxUsers, ErrCount: ErrTooManyUsers}),
	// Erasures are small, and must always be possible.
	kindErasure: row[Erasure]("erasure", conflog.AuditCreateDelete, exported|expires,
		conflog.Bounds{MaxCount: MaxErasures, ErrCount: ErrTooManyErasures, AllowWhenFull: true, AllowWhenOutboxFull: true}),
	kindSettings:      row[Settings]("settings", conflog.AuditAll, exported, conflog.Bounds{}),
	kindServiceSecret: row[ServiceSecret]("service_secret", conflog.AuditAll, exported|holdsSecrets, conflog.Bounds{}),
	// Changes that the service makes by itself are not audited. The status of a finding can always be changed: it grows
	// by a few bytes.
	kindFinding: row[Finding]("finding", conflog.AuditRequested, exported,
		conflog.Bounds{MaxCount: MaxFindings, ErrCount: ErrTooManyFindings, AllowGrowthWhenFull: true,
			MaxPending: MaxOutstandingFindings, ErrPending: ErrTooManyFindings}),
	kindDrain: row[Drain]("drain", conflog.AuditAll, exported|holdsSecrets|needsHash,
		conflog.Bounds{MaxCount: MaxDrains, ErrCount: ErrTooManyDrains}),
	kindDSN: row[DSN]("dsn", conflog.AuditAll, exported|holdsSecrets|needsHash,
		conflog.Bounds{MaxCount: MaxDSNs, ErrCount: ErrTooManyDSNs}),
	// The daily checks are not audited, and must be possible when the configuration is full: a domain may expire.
	kindDomain: row[Domain]("domain", conflog.AuditRequested, exported|needsHash,
		conflog.Bounds{MaxCount: MaxDomains, ErrCount: ErrTooManyDomains, AllowGrowthWhenFull: true}),
	kindScan: row[Scan]("scan", conflog.AuditRequested, exported,
		conflog.Bounds{MaxCount: maxScans, ErrCount: ErrTooManyScans, AllowGrowthWhenFull: true}),
	// That it was tripped is not audited, and must be recorded when the configuration is full.
	kindTripwire: row[Tripwire]("tripwire", conflog.AuditRequested, exported|needsHash,
		conflog.Bounds{MaxCount: MaxDomains * MaxTripwires, ErrCount: ErrTooManyTripwires, AllowGrowthWhenFull: true}),
	// The end of an action, which a node may record by itself, is not audited: the change that it made is.
	kindAction: row[Action]("act", conflog.AuditRequested, expires,
		conflog.Bounds{MaxCount: MaxActions, ErrCount: ErrTooManyActions, AllowGrowthWhenFull: true}),
	// Removing expired fixtures is not audited: their creation says when they expire.
	kindFixture: row[Fixture]("fixture", conflog.AuditRequested, exported|expiresInAnyOrder,
		conflog.Bounds{MaxCount: MaxFixtures, ErrCount: ErrTooManyFixtures, MaxBytes: MaxFixturesBytes,
			ErrBytes: ErrFixturesFull}),
}

func (*LogSecret) EntityKind() kind     { return kindLog }
func (*Account) EntityKind() kind       { return kindAccount }
func (*Endpoint) EntityKind() kind      { return kindEndpoint }
func (*Key) EntityKind() kind           { return kindKey }
func (*Run) EntityKind() kind           { return kindRun }
func (*Answer) EntityKind() kind        { return kindAnswer }
func (*Recovery) EntityKind() kind      { return kindRecovery }
func (*AlertSettings) EntityKind() kind { return kindAlertSettings }
func (*Alert) EntityKind() kind         { return kindAlert }
func (*User) EntityKind() kind          { return kindUser }
func (*Erasure) EntityKind() kind       { return kindErasure }
func (*Settings) EntityKind() kind      { return kindSettings }
func (*ServiceSecret) EntityKind() kind { return kindServiceSecret }
func (*Finding) EntityKind() kind       { return kindFinding }
func (*Drain) EntityKind() kind         { return kindDrain }
func (*DSN) EntityKind() kind           { return kindDSN }
func (*Domain) EntityKind() kind        { return kindDomain }
func (*Scan) EntityKind() kind          { return kindScan }
func (*Tripwire) EntityKind() kind      { return kindTripwire }
func (*Action) EntityKind() kind        { return kindAction }
func (*Fixture) EntityKind() kind       { return kindFixture }

// LogSecret is the value of the first record of the configuration log, which pkg/conflog creates. The secret is sealed.
type LogSecret struct {
	plain
	ID     string      `json:"id"`
	Secret seal.Secret `json:"secret"`
}

func (l *LogSecret) Common() commonFields { return commonFields{ID: &l.ID} }

func (l *LogSecret) EachSealed(f func(entity, field string, s *seal.Secret)) {
	f(l.ID, FieldLogSecret, &l.Secret)
}
