package entity

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
)

// Kind is the type of an entity.
type Kind = conflog.Kind

// Numbers of the kinds, as records have them. Their order is that of the entities in a snapshot.
const (
	KindLog     = conflog.KindLog
	KindAccount = conflog.FirstCallerKind - 1 + iota
	KindEndpoint
	KindKey
	KindRun
	KindAnswer
	KindRecovery
	KindAlertSettings
	KindAlert
	KindUser
	KindErasure
	KindSettings
	KindServiceSecret
	KindFinding
	KindDrain
	KindDSN
	KindDomain
	KindScan
	KindTripwire
	KindAction
	KindFixture
	KindTenant
	KindPortalSession
	KindEventType
	KindIssue
	NumKinds // number of kinds, the log's own included
)

// KindInfo describes a kind.
type KindInfo struct {
	conflog.KindInfo
	Empty  func() Value // returns a value to decode into
	traits Traits
}

// Traits are properties of all values of a kind.
type Traits uint8

// Traits.
const (
	Exported          Traits = 1 << iota // part of an export: configuration, not remembered requests
	HoldsSecrets                         // may hold sealed secrets; Value.EachSealed finds them
	NeedsHash                            // has Value.Hashed
	Expires                              // is removed after Value.EndsAt, which is in about the order of creation
	ExpiresInAnyOrder                    // is removed after Value.EndsAt, and counts as deleted from then on
)

// Table describes the kinds, each at its number.
type Table [NumKinds]KindInfo

// Has reports whether a kind has one of the traits.
func (t *Table) Has(k Kind, any Traits) bool { return t[k].traits&any != 0 }

// Row returns the description of a kind with values of type *T that exists at level 1.
func Row[T any, P Pointer[T]](name string, audited conflog.Audited, t Traits, bounds conflog.Bounds) KindInfo {
	info := conflog.KindInfo{Name: name, Level: 1, Audited: audited, Bounds: bounds}
	return KindInfo{info, func() Value { return P(new(T)) }, t}
}

// AtLevel returns the description of a kind that exists from a level of the log on.
func (k KindInfo) AtLevel(level int) KindInfo {
	k.Level = level
	return k
}

// TooMany returns the error of a bound.
func TooMany(most int, what string) error {
	return fmt.Errorf("the maximum of %d %s is reached", most, what)
}

// Value is the decoded value of an entity. Meta and Plain provide the default methods; a kind overrides those in which
// it differs.
type Value interface {
	EntityKind() Kind
	Common() CommonFields
	// Hashed returns the hash by which the entity is found, unique within its kind, and the secret that it is of.
	Hashed() HashedSecret
	// FormerHash returns a second hash by which the entity is found; nil = none.
	FormerHash() []byte
	// EachSealed calls f with every secret of the value, and with the entity and field under which it is sealed. f may
	// change the secret in the value. The secret may be empty: not set.
	EachSealed(f func(entity, field string, s *seal.Secret))
	// ChangeCount returns the number of the value's changes, from 1, which the functions of entity.go count; nil: they do
	// not.
	ChangeCount() *int
	// Derive sets the fields that follow from others, or that an update keeps. was is the value before; nil: it is new.
	Derive(c *Core, was Value) error
	// Restricts reports whether replacing the value by next stops something: a change that does so returns only when no
	// node acts on the value any more. next is nil for a deletion.
	Restricts(next Value) bool
	// OnlyRestricts reports whether replacing the value by next only restricts or revokes something, so that it is
	// allowed when a bound is reached. Such a change may enlarge an entity by a few bytes, once.
	OnlyRestricts(next Value) bool
	// EndsAt returns when the value expires and is removed; see the traits Expires and ExpiresInAnyOrder.
	EndsAt(c *Core) time.Time
	// IsPending reports whether the value has unfinished work, so that those that have can be listed often.
	IsPending() bool
	// Attributes are conflog.Index.Attributes.
	Attributes() uint64
	// MadeAtStart reports whether a node created the entity by itself at its start.
	MadeAtStart() bool
	// Upgrade sets fields that values of older versions lack.
	Upgrade()
	// Validate validates a value of an import, and sets members that the service never leaves empty.
	Validate() error
}

// HashedSecret is a hash and, if the hash follows from a sealed secret of the value, that secret and its field.
type HashedSecret struct {
	Hash   *[]byte // SHA-256; nil: the value has none
	Field  string  // empty: the kind sets the hash by itself
	Sealed seal.Secret
}

// Plain provides the default methods of a value.
type Plain struct{}

func (*Plain) Hashed() HashedSecret                         { return HashedSecret{} }
func (*Plain) FormerHash() []byte                           { return nil }
func (*Plain) EachSealed(func(_, _ string, _ *seal.Secret)) {}
func (*Plain) ChangeCount() *int                            { return nil }
func (*Plain) Derive(*Core, Value) error                    { return nil }
func (*Plain) Restricts(next Value) bool                    { return next == nil }
func (*Plain) OnlyRestricts(Value) bool                     { return false }
func (*Plain) EndsAt(*Core) time.Time                       { return time.Time{} }
func (*Plain) IsPending() bool                              { return false }
func (*Plain) Attributes() uint64                           { return 0 }
func (*Plain) MadeAtStart() bool                            { return false }
func (*Plain) Upgrade()                                     {}
func (*Plain) Validate() error                              { return nil }

// Decode decodes a value and checks the length of its hash, on which the index of pkg/conflog relies.
func (t *Table) Decode(k Kind, b []byte) (Value, error) {
	v := t[k].Empty()
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("decode %s: %w", t[k].Name, err)
	}
	if h := HashOfValue(v); len(h) != conflog.HashLen && (t.Has(k, NeedsHash) || len(h) > 0) {
		return nil, fmt.Errorf("decode %s: hash of %d bytes", t[k].Name, len(h))
	}
	v.Upgrade()
	return v, nil
}

// Registered returns the kinds that are registered with the log.
func (t *Table) Registered() (all []conflog.KindInfo) {
	for k := conflog.FirstCallerKind; k < NumKinds; k++ {
		all = append(all, t[k].KindInfo)
	}
	return all
}

// HashOfValue returns the hash by which an entity is found; nil = none.
func HashOfValue(v Value) []byte {
	if hash := v.Hashed().Hash; hash != nil {
		return *hash
	}
	return nil
}
