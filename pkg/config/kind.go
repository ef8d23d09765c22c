package config

import (
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
	NumKinds // number of kinds, the log's own included
)

// KindInfo describes a kind.
type KindInfo struct {
	conflog.KindInfo
	empty  func() value // returns a value to decode into
	traits Traits
}

// Traits are properties of all values of a kind.
type Traits uint8

const (
	exported          Traits = 1 << iota // part of an export: configuration, not remembered requests
	holdsSecrets                         // may hold sealed secrets; value.eachSealed finds them
	needsHash                            // has value.hashed
	expires                              // is removed after value.endsAt, which is in about the order of creation
	expiresInAnyOrder                    // is removed after value.endsAt, and counts as deleted from then on
)

// Table describes the kinds, each at its number.
type Table [NumKinds]KindInfo

// has reports whether a kind has one of the traits.
func (t *Table) has(k kind, any Traits) bool { return t[k].traits&any != 0 }

// row returns the description of a kind with values of type *T that exists at level 1.
func row[T any, P Pointer[T]](name string, audited conflog.Audited, t Traits, bounds conflog.Bounds) KindInfo {
	info := conflog.KindInfo{Name: name, Level: 1, Audited: audited, Bounds: bounds}
	return KindInfo{info, func() value { return P(new(T)) }, t}
}

// value is the decoded value of an entity. Meta and plain provide the default methods; a kind overrides those in which
// it differs.
type value interface {
	EntityKind() kind
	Common() commonFields
	// hashed returns the hash by which the entity is found, unique within its kind, and the secret that it is of.
	Hashed() hashedSecret
	// formerHash returns a second hash by which the entity is found; nil = none.
	FormerHash() []byte
	// eachSealed calls f with every secret of the value, and with the entity and field under which it is sealed. f may
	// change the secret in the value. The secret may be empty: not set.
	EachSealed(f func(entity, field string, s *seal.Secret))
	// version returns the number of the value's changes, from 1, which the functions of entity.go count; nil: they do not.
	ChangeCount() *int
	// derive sets the fields that follow from others, or that an update keeps. was is the value before; nil: it is new.
	Derive(c *Core, was value) error
	// restricts reports whether replacing the value by next stops something: a change that does so returns only when no
	// node acts on the value any more. next is nil for a deletion.
	Restricts(next value) bool
	// onlyRestricts reports whether replacing the value by next only restricts or revokes something, so that it is
	// allowed when a bound is reached. Such a change may enlarge an entity by a few bytes, once.
	OnlyRestricts(next value) bool
	// endsAt returns when the value expires and is removed; see the traits expires and expiresInAnyOrder.
	EndsAt(c *Core) time.Time
	// isPending reports whether the value has unfinished work, so that those that have can be listed often.
	IsPending() bool
	// attributes are conflog.Index.Attributes.
	Attributes() uint64
	// madeAtStart reports whether a node created the entity by itself at its start.
	MadeAtStart() bool
	// upgrade sets fields that values of older versions lack.
	Upgrade()
	// validate validates a value of an import, and sets members that the service never leaves empty.
	Validate() error
}

// hashedSecret is a hash and, if the hash follows from a sealed secret of the value, that secret and its field.
type hashedSecret struct {
	hash   *[]byte // SHA-256; nil: the value has none
	field  string  // empty: the kind sets the hash by itself
	sealed seal.Secret
}

// plain provides the default methods of a value.
type plain struct{}

func (*plain) Hashed() hashedSecret                         { return hashedSecret{} }
func (*plain) FormerHash() []byte                           { return nil }
func (*plain) EachSealed(func(_, _ string, _ *seal.Secret)) {}
func (*plain) ChangeCount() *int                            { return nil }
func (*plain) Derive(*Core, value) error                    { return nil }
func (*plain) Restricts(next value) bool                    { return next == nil }
func (*plain) OnlyRestricts(value) bool                     { return false }
func (*plain) EndsAt(*Core) time.Time                       { return time.Time{} }
func (*plain) IsPending() bool                              { return false }
func (*plain) Attributes() uint64                           { return 0 }
func (*plain) MadeAtStart() bool                            { return false }
func (*plain) Upgrade()                                     {}
func (*plain) Validate() error                              { return nil }

// decode decodes a value and checks the length of its hash, on which the index of pkg/conflog relies.
func (t *Table) decode(k kind, b []byte) (value, error) {
	v := t[k].empty()
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("decode %s: %w", t[k].Name, err)
	}
	if h := hashOfValue(v); len(h) != conflog.HashLen && (t.has(k, needsHash) || len(h) > 0) {
		return nil, fmt.Errorf("decode %s: hash of %d bytes", t[k].Name, len(h))
	}
	v.Upgrade()
	return v, nil
}

// registered returns the kinds that are registered with the log.
func (t *Table) registered() (all []conflog.KindInfo) {
	for k := conflog.FirstCallerKind; k < NumKinds; k++ {
		all = append(all, t[k].KindInfo)
	}
	return all
}

// hashOfValue returns the hash by which an entity is found; nil = none.
func hashOfValue(v value) []byte {
	if hash := v.Hashed().hash; hash != nil {
		return *hash
	}
	return nil
}
