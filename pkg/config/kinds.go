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

func (*LogSecret) kind() kind     { return kindLog }
func (*Account) kind() kind       { return kindAccount }
func (*Endpoint) kind() kind      { return kindEndpoint }
func (*Key) kind() kind           { return kindKey }
func (*Run) kind() kind           { return kindRun }
func (*Answer) kind() kind        { return kindAnswer }
func (*Recovery) kind() kind      { return kindRecovery }
func (*AlertSettings) kind() kind { return kindAlertSettings }
func (*Alert) kind() kind         { return kindAlert }
func (*User) kind() kind          { return kindUser }
func (*Erasure) kind() kind       { return kindErasure }
func (*Settings) kind() kind      { return kindSettings }
func (*ServiceSecret) kind() kind { return kindServiceSecret }
func (*Finding) kind() kind       { return kindFinding }
func (*Drain) kind() kind         { return kindDrain }
func (*DSN) kind() kind           { return kindDSN }
func (*Domain) kind() kind        { return kindDomain }
func (*Scan) kind() kind          { return kindScan }
func (*Tripwire) kind() kind      { return kindTripwire }
func (*Action) kind() kind        { return kindAction }
func (*Fixture) kind() kind       { return kindFixture }

// LogSecret is the value of the first record of the configuration log, which pkg/conflog creates. The secret is sealed.
type LogSecret struct {
	plain
	ID     string      `json:"id"`
	Secret seal.Secret `json:"secret"`
}

func (l *LogSecret) common() commonFields { return commonFields{id: &l.ID} }

func (l *LogSecret) eachSealed(f func(entity, field string, s *seal.Secret)) {
	f(l.ID, FieldLogSecret, &l.Secret)
}
