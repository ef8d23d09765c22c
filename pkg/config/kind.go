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

// Table describes the kinds, each at its number.
type Table [kinds]kindInfo

// has reports whether a kind has one of the traits.
func (t *Table) has(k kind, any traits) bool { return t[k].traits&any != 0 }

// row returns the description of a kind with values of type *T that exists at level 1.
func row[T any, P Pointer[T]](name string, audited conflog.Audited, t traits, bounds conflog.Bounds) kindInfo {
	info := conflog.KindInfo{Name: name, Level: 1, Audited: audited, Bounds: bounds}
	return kindInfo{info, func() value { return P(new(T)) }, t}
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
	derive(c *Core, was value) error
	// restricts reports whether replacing the value by next stops something: a change that does so returns only when no
	// node acts on the value any more. next is nil for a deletion.
	restricts(next value) bool
	// onlyRestricts reports whether replacing the value by next only restricts or revokes something, so that it is
	// allowed when a bound is reached. Such a change may enlarge an entity by a few bytes, once.
	onlyRestricts(next value) bool
	// endsAt returns when the value expires and is removed; see the traits expires and expiresInAnyOrder.
	endsAt(c *Core) time.Time
	// isPending reports whether the value has unfinished work, so that those that have can be listed often.
	isPending() bool
	// attributes are conflog.Index.Attributes.
	attributes() uint64
	// madeAtStart reports whether a node created the entity by itself at its start.
	madeAtStart() bool
	// upgrade sets fields that values of older versions lack.
	upgrade()
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
func (*plain) derive(*Core, value) error                    { return nil }
func (*plain) restricts(next value) bool                    { return next == nil }
func (*plain) onlyRestricts(value) bool                     { return false }
func (*plain) endsAt(*Core) time.Time                       { return time.Time{} }
func (*plain) isPending() bool                              { return false }
func (*plain) attributes() uint64                           { return 0 }
func (*plain) madeAtStart() bool                            { return false }
func (*plain) upgrade()                                     {}
func (*plain) validate() error                              { return nil }

// decode decodes a value and checks the length of its hash, on which the index of pkg/conflog relies.
func (t *Table) decode(k kind, b []byte) (value, error) {
	v := t[k].empty()
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("decode %s: %w", t[k].Name, err)
	}
	if h := hashOfValue(v); len(h) != conflog.HashLen && (t.has(k, needsHash) || len(h) > 0) {
		return nil, fmt.Errorf("decode %s: hash of %d bytes", t[k].Name, len(h))
	}
	v.upgrade()
	return v, nil
}

// registered returns the kinds that are registered with the log.
func (t *Table) registered() (all []conflog.KindInfo) {
	for k := conflog.FirstCallerKind; k < kinds; k++ {
		all = append(all, t[k].KindInfo)
	}
	return all
}

// hashOfValue returns the hash by which an entity is found; nil = none.
func hashOfValue(v value) []byte {
	if hash := v.hashed().hash; hash != nil {
		return *hash
	}
	return nil
}
