package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/config/seal"
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
	kindAction
	kindFixture
	kinds // number of kinds, the log's own included
)

// kindInfo describes a kind.
type kindInfo struct {
	conflog.KindInfo
	empty  func() value // returns a value to decode into
	traits traits
}

// traits are properties of all values of a kind.
type traits uint8

const (
	exported          traits = 1 << iota // part of an export: configuration, not remembered requests
	holdsSecrets                         // may hold sealed secrets; value.eachSealed finds them
	needsHash                            // has value.hashed
	expires                              // is removed after value.endsAt, which is in about the order of creation
	expiresInAnyOrder                    // is removed after value.endsAt, and counts as deleted from then on
)

// has reports whether a kind has one of the traits.
func has(k kind, t traits) bool { return kindTable[k].traits&t != 0 }

// kindTable has every kind.
var kindTable = [kinds]kindInfo{
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

// row returns the description of a kind with values of type *T that exists at level 1.
func row[T any, P entity[T]](name string, audited conflog.Audited, t traits, bounds conflog.Bounds) kindInfo {
	info := conflog.KindInfo{Name: name, Level: 1, Audited: audited, Bounds: bounds}
	return kindInfo{info, func() value { return P(new(T)) }, t}
}

func registeredKinds() (all []conflog.KindInfo) {
	for k := conflog.FirstCallerKind; k < kinds; k++ {
		all = append(all, kindTable[k].KindInfo)
	}
	return all
}

// value is the decoded value of an entity. Meta and plain provide the default methods; a kind overrides those in which
// it differs.
type value interface {
	kind() kind
	common() commonFields
	// hashed returns the hash by which the entity is found, unique within its kind, and the secret that it is of.
	hashed() hashedSecret
	// formerHash returns a second hash by which the entity is found; nil = none.
	formerHash() []byte
	// eachSealed calls f with every secret of the value, and with the entity and field under which it is sealed. f may
	// change the secret in the value. The secret may be empty: not set.
	eachSealed(f func(entity, field string, s *seal.Secret))
	// version returns the number of the value's changes, from 1, which the functions of entity.go count; nil: they do not.
	version() *int
	// derive sets the fields that follow from others, or that an update keeps. was is the value before; nil: it is new.
	derive(c *core, was value) error
	// restricts reports whether replacing the value by next stops something: a change that does so returns only when no
	// node acts on the value any more. next is nil for a deletion.
	restricts(next value) bool
	// onlyRestricts reports whether replacing the value by next only restricts or revokes something, so that it is
	// allowed when a bound is reached. Such a change may enlarge an entity by a few bytes, once.
	onlyRestricts(next value) bool
	// endsAt returns when the value expires and is removed; see the traits expires and expiresInAnyOrder.
	endsAt(c *core) time.Time
	// isPending reports whether the value has unfinished work, so that those that have can be listed often.
	isPending() bool
	// attributes are conflog.Index.Attributes.
	attributes() uint64
	// madeAtStart reports whether a node created the entity by itself at its start.
	madeAtStart() bool
	// validate validates a value of an import, and sets members that the service never leaves empty.
	validate() error
}

// hashedSecret is a hash and, if the hash follows from a sealed secret of the value, that secret and its field.
type hashedSecret struct {
	hash   *[]byte // SHA-256; nil: the value has none
	field  string  // empty: the kind sets the hash by itself
	sealed seal.Secret
}

// plain provides the default methods of a value.
type plain struct{}

func (*plain) hashed() hashedSecret                         { return hashedSecret{} }
func (*plain) formerHash() []byte                           { return nil }
func (*plain) eachSealed(func(_, _ string, _ *seal.Secret)) {}
func (*plain) version() *int                                { return nil }
func (*plain) derive(*core, value) error                    { return nil }
func (*plain) restricts(next value) bool                    { return next == nil }
func (*plain) onlyRestricts(value) bool                     { return false }
func (*plain) endsAt(*core) time.Time                       { return time.Time{} }
func (*plain) isPending() bool                              { return false }
func (*plain) attributes() uint64                           { return 0 }
func (*plain) madeAtStart() bool                            { return false }
func (*plain) validate() error                              { return nil }
func (*LogSecret) kind() kind                               { return kindLog }
func (*Account) kind() kind                                 { return kindAccount }
func (*Endpoint) kind() kind                                { return kindEndpoint }
func (*Key) kind() kind                                     { return kindKey }
func (*Run) kind() kind                                     { return kindRun }
func (*Answer) kind() kind                                  { return kindAnswer }
func (*Recovery) kind() kind                                { return kindRecovery }
func (*AlertSettings) kind() kind                           { return kindAlertSettings }
func (*Alert) kind() kind                                   { return kindAlert }
func (*User) kind() kind                                    { return kindUser }
func (*Erasure) kind() kind                                 { return kindErasure }
func (*Settings) kind() kind                                { return kindSettings }
func (*ServiceSecret) kind() kind                           { return kindServiceSecret }
func (*Finding) kind() kind                                 { return kindFinding }
func (*Drain) kind() kind                                   { return kindDrain }
func (*DSN) kind() kind                                     { return kindDSN }
func (*Domain) kind() kind                                  { return kindDomain }
func (*Scan) kind() kind                                    { return kindScan }
func (*Tripwire) kind() kind                                { return kindTripwire }
func (*Action) kind() kind                                  { return kindAction }
func (*Fixture) kind() kind                                 { return kindFixture }

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

// decodeValue decodes a value and checks the length of its hash, on which the index of pkg/conflog relies. Users of the
// first versions had no scope.
func decodeValue(k kind, b []byte) (value, error) {
	v := kindTable[k].empty()
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("decode %s: %w", kindTable[k].Name, err)
	}
	if h := hashOfValue(v); len(h) != conflog.HashLen && (has(k, needsHash) || len(h) > 0) {
		return nil, fmt.Errorf("decode %s: hash of %d bytes", kindTable[k].Name, len(h))
	}
	if u, ok := v.(*User); ok {
		u.Scope = cmp.Or(u.Scope, ReadWrite)
	}
	return v, nil
}

// hashOfValue returns the hash by which an entity is found; nil = none.
func hashOfValue(v value) []byte {
	if hash := v.hashed().hash; hash != nil {
		return *hash
	}
	return nil
}
