package config

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/eventrelay/relay/pkg/conflog"
)

// kind is the type of an entity.
type kind = conflog.Kind

const (
	kindLog      = conflog.KindLog
	kindAccount  = conflog.FirstCallerKind - 1 + iota
	kindEndpoint // the order is that of the entities in a snapshot
	kindKey
	kindRun
	kindAnswer
	kindRecovery
	kindAlertSettings
	kindAlert
	kindUser
	kindErasure
	kindSettings
	kindServiceSecret
	kindFinding
	kindDrain
	kindDSN
	kindDomain
	kindScan
	kindTripwire
	kindAct
	kindFixture
	kinds // number of kinds, the log's own included
)

// kindInfo describes a kind.
type kindInfo struct {
	conflog.KindInfo
	empty        func() value // returns a value to decode into
	exported     bool         // part of an export: configuration, not remembered requests
	holdsSecrets bool         // values may hold sealed secrets; eachSealed finds them
}

// kindTable has every kind.
var kindTable = [kinds]kindInfo{
	// registered by the log itself
	kindLog: {conflog.KindInfo{Name: "log"}, func() value { return &LogSecret{} }, false, true},
	kindAccount: {info("account", conflog.AuditAll, conflog.Bounds{Singleton: true}), func() value {
		return &Account{}
	}, true, false},
	kindEndpoint: {
		info("endpoint", conflog.AuditAll, conflog.Bounds{MaxCount: MaxEndpoints, ErrCount: ErrTooManyEndpoints}),
		func() value { return &Endpoint{} }, true, true},
	kindKey: {info("key", conflog.AuditAll, conflog.Bounds{}), func() value { return &Key{} }, true, false},
	// Creating and cancelling a run is audited; its progress is not.
	kindRun: {info("run", conflog.AuditRequested, conflog.Bounds{AllowGrowthWhenFull: true}), func() value {
		return &Run{}
	}, false, false},
	kindAnswer: {info("answer", conflog.AuditNone,
		conflog.Bounds{MaxBytes: MaxAnswersBytes, ReservedBytes: answersReserve, ErrBytes: ErrAnswersFull}), func() value {
		return &Answer{}
	}, false, true},
	kindRecovery: {info("recovery", conflog.AuditRequested,
		conflog.Bounds{MaxCount: MaxRecoveries, ErrCount: ErrRecoveryHistoryFull, AllowGrowthWhenFull: true}), func() value {
		return &Recovery{}
	}, true, false},
	kindAlertSettings: {info("alert_settings", conflog.AuditAll, conflog.Bounds{}), func() value {
		return &AlertSettings{}
	}, true, true},
	// Alerts are small, and alerting must work when the configuration is full.
	kindAlert: {
		info("alert", conflog.AuditNone, conflog.Bounds{MaxCount: maxAlerts, ErrCount: ErrStateFull, AllowWhenFull: true}),
		func() value { return &Alert{} }, true, false},
	kindUser: {
		info("user", conflog.AuditAll, conflog.Bounds{MaxCount: MaxUsers, ErrCount: ErrTooManyUsers}),
		func() value { return &User{} }, true, false},
	kindServiceSecret: {info("service_secret", conflog.AuditAll, conflog.Bounds{}), func() value {
		return &ServiceSecret{}
	}, true, true},
	// Erasures are small, and must always be possible.
	kindErasure: {info("erasure", conflog.AuditCreateDelete,
		conflog.Bounds{MaxCount: MaxErasures, ErrCount: ErrTooManyErasures, AllowWhenFull: true, AllowWhenOutboxFull: true}),
		func() value {
			return &Erasure{}
		}, true, false},

	kindDrain: {
		info("drain", conflog.AuditAll, conflog.Bounds{MaxCount: MaxDrains, ErrCount: ErrTooManyDrains}),
		func() value { return &Drain{} }, true, true},

	kindSettings: {info("settings", conflog.AuditAll, conflog.Bounds{}), func() value { return &Settings{} }, true, false},
	// Changes that the service makes by itself are not audited. A finding can always be moved: it grows by a few bytes.
	kindFinding: {
		info("finding", conflog.AuditRequested, conflog.Bounds{
			MaxCount: MaxFindings, ErrCount: ErrTooManyFindings, AllowGrowthWhenFull: true,
			MaxPending: MaxOutstandingFindings, ErrPending: ErrTooManyFindings}),
		func() value { return &Finding{} }, true, false},
	kindDSN: {
		info("dsn", conflog.AuditAll, conflog.Bounds{MaxCount: MaxDSNs, ErrCount: ErrTooManyDSNs}),
		func() value { return &DSN{} }, true, true},
	// The daily checks are not audited, and must be possible when the configuration is full: a domain may expire.
	kindDomain: {
		info("domain", conflog.AuditRequested, conflog.Bounds{
			MaxCount: MaxDomains, ErrCount: ErrTooManyDomains, AllowGrowthWhenFull: true}),
		func() value { return &Domain{} }, true, false},
	kindScan: {
		info("scan", conflog.AuditRequested, conflog.Bounds{
			MaxCount: maxScans, ErrCount: ErrTooManyScans, AllowGrowthWhenFull: true}),
		func() value { return &Scan{} }, true, false},
	// That it was tripped is not audited, and must be recorded when the configuration is full.
	kindTripwire: {
		info("tripwire", conflog.AuditRequested, conflog.Bounds{
			MaxCount: MaxDomains * MaxTripwires, ErrCount: ErrTooManyTripwires, AllowGrowthWhenFull: true}),
		func() value { return &Tripwire{} }, true, false},
	// The end of an act, which a node may record by itself, is not audited: the change that it made is.
	kindAct: {
		info("act", conflog.AuditRequested, conflog.Bounds{MaxCount: MaxActs, ErrCount: ErrTooManyActs,
			AllowGrowthWhenFull: true}),
		func() value { return &Act{} }, false, false},
	// Removing expired fixtures is not audited: their creation says when they expire.
	kindFixture: {
		info("fixture", conflog.AuditRequested, conflog.Bounds{MaxCount: MaxFixtures, ErrCount: ErrTooManyFixtures,
			MaxBytes: MaxFixturesBytes, ErrBytes: ErrFixturesFull}),
		func() value { return &Fixture{} }, true, false},
}

// info returns the description of a kind that exists at level 1.
func info(name string, audited conflog.Audited, bounds conflog.Bounds) conflog.KindInfo {
	return conflog.KindInfo{Name: name, Level: 1, Audited: audited, Bounds: bounds}
}

// registeredKinds returns the kinds that are registered with the log.
func registeredKinds() (all []conflog.KindInfo) {
	for k := conflog.FirstCallerKind; k < kinds; k++ {
		all = append(all, kindTable[k].KindInfo)
	}
	return all
}

// value is the decoded value of an entity: *Account, *Endpoint, *Key, *LogSecret, or a type with a Meta.
type value interface {
	entityID() string
	// secretHash returns the SHA-256 by which the entity is found, unique within its kind; nil = none.
	secretHash() []byte
}

func (a *Account) entityID() string    { return a.ID }
func (a *Account) secretHash() []byte  { return nil }
func (k *Key) entityID() string        { return k.ID }
func (k *Key) secretHash() []byte      { return k.Hash }
func (e *Endpoint) entityID() string   { return e.ID }
func (e *Endpoint) secretHash() []byte { return e.TokenHash }

// LogSecret is the value of the first record of the configuration log, which pkg/conflog creates. The secret is sealed.
type LogSecret struct {
	ID     string `json:"id"`
	Secret Sealed `json:"secret"`
}

func (l *LogSecret) entityID() string   { return l.ID }
func (l *LogSecret) secretHash() []byte { return nil }

// decodeValue decodes a value and checks the length of its hash, on which apply relies.
func decodeValue(k kind, b []byte) (value, error) {
	v := kindTable[k].empty()
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("decode %s: %w", kindTable[k].Name, err)
	}
	h := v.secretHash()
	needed := k == kindEndpoint || k == kindKey || k == kindDrain || k == kindDomain || k == kindDSN ||
		k == kindTripwire
	if len(h) != conflog.HashLen && (needed || len(h) > 0) {
		return nil, fmt.Errorf("decode %s: hash of %d bytes", kindTable[k].Name, len(h))
	}
	if u, ok := v.(*User); ok {
		u.Scope = cmp.Or(u.Scope, ReadWrite)
	}
	return v, nil
}
