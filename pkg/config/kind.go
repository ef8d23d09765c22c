package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

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
	holdsSecrets bool         // values may hold sealed secrets; value.eachSealed finds them
	needsHash    bool         // every value has value.hashed
	expires      expiry       // whether value.endsAt counts
}

// expiry says how the entities of a kind expire.
type expiry uint8

const (
	never      expiry = iota
	inOrder           // in about the order of their creation: the sweep ends at the first that has not expired
	inAnyOrder        // one that has expired counts as deleted before it is removed
)

// kindTable has every kind.
var kindTable = [kinds]kindInfo{
	// registered by the log itself
	kindLog: {KindInfo: conflog.KindInfo{Name: "log"}, empty: func() value { return &LogSecret{} }, holdsSecrets: true},
	kindAccount: {
		KindInfo: info("account", conflog.AuditAll, conflog.Bounds{Singleton: true}),
		empty:    func() value { return &Account{} }, exported: true,
	},
	kindEndpoint: {
		KindInfo: info("endpoint", conflog.AuditAll,
			conflog.Bounds{MaxCount: MaxEndpoints, ErrCount: ErrTooManyEndpoints}),
		empty: func() value { return &Endpoint{} }, exported: true, holdsSecrets: true, needsHash: true,
	},
	kindKey: {
		KindInfo: info("key", conflog.AuditAll, conflog.Bounds{}),
		empty:    func() value { return &Key{} }, exported: true, needsHash: true,
	},
	// Creating and cancelling a run is audited; its progress is not.
	kindRun: {
		KindInfo: info("run", conflog.AuditRequested, conflog.Bounds{AllowGrowthWhenFull: true}),
		empty:    func() value { return &Run{} },
		expires:  inOrder,
	},
	kindAnswer: {
		KindInfo: info("answer", conflog.AuditNone,
			conflog.Bounds{MaxBytes: MaxAnswersBytes, ReservedBytes: answersReserve, ErrBytes: ErrAnswersFull}),
		empty: func() value { return &Answer{} }, holdsSecrets: true,
		expires: inOrder,
	},
	kindRecovery: {
		KindInfo: info("recovery", conflog.AuditRequested,
			conflog.Bounds{MaxCount: MaxRecoveries, ErrCount: ErrRecoveryHistoryFull, AllowGrowthWhenFull: true}),
		empty: func() value { return &Recovery{} }, exported: true,
	},
	kindAlertSettings: {
		KindInfo: info("alert_settings", conflog.AuditAll, conflog.Bounds{}),
		empty:    func() value { return &AlertSettings{} }, exported: true, holdsSecrets: true,
	},
	// Alerts are small, and alerting must work when the configuration is full.
	kindAlert: {
		KindInfo: info("alert", conflog.AuditNone,
			conflog.Bounds{MaxCount: maxAlerts, ErrCount: ErrStateFull, AllowWhenFull: true}),
		empty: func() value { return &Alert{} }, exported: true,
	},
	kindUser: {
		KindInfo: info("user", conflog.AuditAll, conflog.Bounds{MaxCount: MaxUsers, ErrCount: ErrTooManyUsers}),
		empty:    func() value { return &User{} }, exported: true,
	},
	// Erasures are small, and must always be possible.
	kindErasure: {
		KindInfo: info("erasure", conflog.AuditCreateDelete,
			conflog.Bounds{MaxCount: MaxErasures, ErrCount: ErrTooManyErasures, AllowWhenFull: true, AllowWhenOutboxFull: true}),
		empty: func() value { return &Erasure{} }, exported: true, expires: inOrder,
	},
	kindSettings: {
		KindInfo: info("settings", conflog.AuditAll, conflog.Bounds{}),
		empty:    func() value { return &Settings{} }, exported: true,
	},
	kindServiceSecret: {
		KindInfo: info("service_secret", conflog.AuditAll, conflog.Bounds{}),
		empty:    func() value { return &ServiceSecret{} }, exported: true, holdsSecrets: true,
	},
	// Changes that the service makes by itself are not audited. A finding can always be moved: it grows by a few bytes.
	kindFinding: {
		KindInfo: info("finding", conflog.AuditRequested,
			conflog.Bounds{MaxCount: MaxFindings, ErrCount: ErrTooManyFindings, AllowGrowthWhenFull: true,
				MaxPending: MaxOutstandingFindings, ErrPending: ErrTooManyFindings}),
		empty: func() value { return &Finding{} }, exported: true,
	},
	kindDrain: {
		KindInfo: info("drain", conflog.AuditAll, conflog.Bounds{MaxCount: MaxDrains, ErrCount: ErrTooManyDrains}),
		empty:    func() value { return &Drain{} }, exported: true, holdsSecrets: true, needsHash: true,
	},
	kindDSN: {
		KindInfo: info("dsn", conflog.AuditAll, conflog.Bounds{MaxCount: MaxDSNs, ErrCount: ErrTooManyDSNs}),
		empty:    func() value { return &DSN{} }, exported: true, holdsSecrets: true, needsHash: true,
	},
	// The daily checks are not audited, and must be possible when the configuration is full: a domain may expire.
	kindDomain: {
		KindInfo: info("domain", conflog.AuditRequested,
			conflog.Bounds{MaxCount: MaxDomains, ErrCount: ErrTooManyDomains, AllowGrowthWhenFull: true}),
		empty: func() value { return &Domain{} }, exported: true, needsHash: true,
	},
	kindScan: {
		KindInfo: info("scan", conflog.AuditRequested,
			conflog.Bounds{MaxCount: maxScans, ErrCount: ErrTooManyScans, AllowGrowthWhenFull: true}),
		empty: func() value { return &Scan{} }, exported: true,
	},
	// That it was tripped is not audited, and must be recorded when the configuration is full.
	kindTripwire: {
		KindInfo: info("tripwire", conflog.AuditRequested, conflog.Bounds{
			MaxCount: MaxDomains * MaxTripwires, ErrCount: ErrTooManyTripwires, AllowGrowthWhenFull: true}),
		empty: func() value { return &Tripwire{} }, exported: true, needsHash: true,
	},
	// The end of an act, which a node may record by itself, is not audited: the change that it made is.
	kindAct: {
		KindInfo: info("act", conflog.AuditRequested,
			conflog.Bounds{MaxCount: MaxActs, ErrCount: ErrTooManyActs, AllowGrowthWhenFull: true}),
		empty:   func() value { return &Act{} },
		expires: inOrder,
	},
	// Removing expired fixtures is not audited: their creation says when they expire.
	kindFixture: {
		KindInfo: info("fixture", conflog.AuditRequested, conflog.Bounds{MaxCount: MaxFixtures, ErrCount: ErrTooManyFixtures,
			MaxBytes: MaxFixturesBytes, ErrBytes: ErrFixturesFull}),
		empty: func() value { return &Fixture{} }, exported: true, expires: inAnyOrder,
	},
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

// value is the decoded value of an entity. Meta and plain have the methods of a kind without specialties; a kind has
// those in which it differs.
type value interface {
	kind() kind
	common() commonFields
	// hashed returns the hash by which the entity is found, unique within its kind, and the secret that it is of.
	hashed() hashedSecret
	// formerHash returns a second hash by which the entity is found; nil = none.
	formerHash() []byte
	// eachSealed calls f with every secret of the value, and with the entity and field under which it is sealed. f may
	// change the secret in the value. The secret may be empty: not set.
	eachSealed(f func(entity, field string, s *Sealed))
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
	// endsAt returns when the value expires and is removed; see kindInfo.expires.
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
	sealed Sealed
}

// plain has the methods of a value without specialties.
type plain struct{}

func (*plain) hashed() hashedSecret                    { return hashedSecret{} }
func (*plain) formerHash() []byte                      { return nil }
func (*plain) eachSealed(func(_, _ string, _ *Sealed)) {}
func (*plain) version() *int                           { return nil }
func (*plain) derive(*core, value) error               { return nil }
func (*plain) restricts(next value) bool               { return next == nil }
func (*plain) onlyRestricts(value) bool                { return false }
func (*plain) endsAt(*core) time.Time                  { return time.Time{} }
func (*plain) isPending() bool                         { return false }
func (*plain) attributes() uint64                      { return 0 }
func (*plain) madeAtStart() bool                       { return false }
func (*plain) validate() error                         { return nil }

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
func (*Act) kind() kind           { return kindAct }
func (*Fixture) kind() kind       { return kindFixture }

// LogSecret is the value of the first record of the configuration log, which pkg/conflog creates. The secret is sealed.
type LogSecret struct {
	plain
	ID     string `json:"id"`
	Secret Sealed `json:"secret"`
}

func (l *LogSecret) common() commonFields { return commonFields{id: &l.ID} }

func (l *LogSecret) eachSealed(f func(entity, field string, s *Sealed)) {
	f(l.ID, FieldLogSecret, &l.Secret)
}

// decodeValue decodes a value and checks the length of its hash, on which apply relies.
func decodeValue(k kind, b []byte) (value, error) {
	info := &kindTable[k]
	v := info.empty()
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("decode %s: %w", info.Name, err)
	}
	if h := hashOfValue(v); len(h) != conflog.HashLen && (info.needsHash || len(h) > 0) {
		return nil, fmt.Errorf("decode %s: hash of %d bytes", info.Name, len(h))
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
