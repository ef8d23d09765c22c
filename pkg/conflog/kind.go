package conflog

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Kind is the type of an entity. The log has two kinds of its own; the caller registers the others.
type Kind uint8

// Kinds that the log itself uses.
const (
	KindLog         Kind = iota // the first record, which holds the secret of the log
	KindOutbox                  // changes whose audit rows are not in Kafka yet
	FirstCallerKind             // the first kind of the caller
)

// Entities decodes entities for the log. apply depends on the results of Index, so they must depend on the arguments
// alone, and two versions of the program must return the same results at the same level.
type Entities interface {
	// Index extracts the index fields from the JSON of a value. On an error every node refuses the record.
	Index(k Kind, value []byte) (Index, error)
	// Known returns the JSON of a value as this version writes it, without fields that it does not know.
	Known(k Kind, value []byte) []byte
	// ActorName returns the name of an API key or user at this moment, for the audit log; empty when there is none.
	ActorName(v *View, id string) string
	// AccountID returns the account that the audit entries belong to.
	AccountID(v *View) string
}

// Index holds the fields by which an entity is found.
type Index struct {
	ID string
	// Hash is the SHA-256 of the entity's secret, unique within its kind; zero = none. FormerHash is that of the
	// previous secret while it is still valid; nil = none.
	Hash       [HashLen]byte
	FormerHash *[HashLen]byte
	Pending    bool // the entity has unfinished work: View.Pending returns it
	// Attributes are what the caller asks all entities of a kind for so often that it cannot decode their values.
	Attributes uint64

	sealedSecret string // the sealed secret of the log, of KindLog only
}

// HashLen is the length of a SHA-256 in bytes.
const HashLen = 32

// KindInfo describes a kind. apply depends on all of it, so it may change only together with a new level.
type KindInfo struct {
	Name    string
	Level   int // the lowest level of the log at which entities of the kind may exist
	Audited Audited
	Bounds
}

// Bounds limit a kind; apply enforces them. With the zero value the kind has no bounds of its own: its entities share
// MaxStateBytes.
type Bounds struct {
	MaxCount int   // number of entities; 0 = unlimited
	ErrCount error // returned when MaxCount is reached
	// MaxPending bounds the entities with unfinished work, see Index.Pending; 0 = unlimited. Records with Exempt pass.
	MaxPending int
	ErrPending error
	// MaxBytes bounds the entities of the kind in bytes; 0 = no bound of its own. It replaces MaxStateBytes when an entity
	// of the kind is written; other kinds count these bytes towards MaxStateBytes. New entities may use only MaxBytes -
	// ReservedBytes; the reserve is for existing entities that grow.
	MaxBytes, ReservedBytes int64
	ErrBytes                error
	AllowWhenFull           bool // accepted also when MaxStateBytes is reached: small entities, bounded by MaxCount
	AllowWhenOutboxFull     bool // accepted also while the outbox is full; MaxCount bounds what that adds to it
	// an existing entity may grow when MaxStateBytes is reached, so that running work can finish
	AllowGrowthWhenFull bool
	Singleton           bool // at most one entity exists
}

// Audited selects the changes of a kind that are written to the audit log.
type Audited uint8

// Values of Audited.
const (
	AuditNone         Audited = iota // none: internal state, not configuration
	AuditAll                         // every change
	AuditCreateDelete                // creation and deletion
	AuditRequested                   // changes that a caller requested, not those that the service makes by itself
)

// kinds holds the registered kinds.
type kinds struct {
	infos         []KindInfo // by Kind
	byName        map[string]Kind
	newestLevel   int   // the highest level that any kind, or digests, need
	maxStateBytes int64 // see MaxStateBytes; not checked for kinds with MaxBytes
}

// newKinds registers the kinds of the caller after the log's own.
func newKinds(registered []KindInfo, maxStateBytes int64) (*kinds, error) {
	ks := &kinds{byName: make(map[string]Kind), newestLevel: digestLevel, maxStateBytes: maxStateBytes}
	ks.infos = append(ks.infos, KindInfo{Name: "log", Level: baseLevel, Bounds: Bounds{Singleton: true}},
		KindInfo{Name: "outbox", Level: baseLevel})
	ks.infos = append(ks.infos, registered...)
	for k, info := range ks.infos {
		if _, twice := ks.byName[info.Name]; twice || info.Name == "" || info.Level < baseLevel {
			return nil, fmt.Errorf("kind %q: needs a unique name and a level of at least 1", info.Name)
		}
		ks.byName[info.Name] = Kind(k)
		ks.newestLevel = max(ks.newestLevel, info.Level)
	}
	return ks, nil
}

func (ks *kinds) name(k Kind) string { return ks.infos[k].Name }

// firstRecord is the value of the first record of a log.
type firstRecord struct {
	ID     string `json:"id"`
	Secret string `json:"secret"` // sealed
}

// LogID is the id of the one entity of KindLog.
const LogID = "log"

// index extracts the index fields of a value. It handles the log's own kinds itself and asks Entities about the others.
func (p *parser) index(k Kind, value []byte) (Index, error) {
	switch k {
	case KindLog:
		var first firstRecord
		if err := json.Unmarshal(value, &first); err != nil {
			return Index{}, fmt.Errorf("decode %s: %w", p.kinds.name(k), err)
		}
		return Index{ID: first.ID, sealedSecret: first.Secret}, nil
	case KindOutbox:
		return Index{}, errors.New("the outbox accepts no values")
	default:
		return p.entities.Index(k, value)
	}
}

// Bounds of the configuration, which is in the memory of every node and in every snapshot. They are constants, and
// apply enforces them with nothing but the state and the record: so every node refuses the same records. Sizes are
// bytes of JSON: compressed sizes could change with the version of the compressor. Only growth is refused; an entity
// that is already beyond a bound stays and may shrink. The bounds of a kind are in its [Bounds].
const (
	// MaxEntityBytes is the maximum size of one entity in bytes.
	MaxEntityBytes = 256 << 10
	// MaxStateBytes is the maximum size of all entities together in bytes. Entities of kinds with Bounds.MaxBytes count
	// towards it, but are refused by their own bound only.
	MaxStateBytes = 512 << 20
	// maxTombstones is the maximum number of tombstones of a kind. A deletion is never refused: beyond the maximum the
	// oldest tombstone is dropped early. If it was that of an endpoint, the open deliveries of the endpoint then end at
	// their deadline.
	maxTombstones = 200_000
)

// Errors of the bounds. Changes that only restrict or revoke something never return them.
var (
	// ErrEntityTooLarge means that the entity would exceed MaxEntityBytes.
	ErrEntityTooLarge = fmt.Errorf("the entity would be larger than %d bytes", MaxEntityBytes)
	// ErrStateFull means that the configuration would exceed MaxStateBytes.
	ErrStateFull = errors.New("the configuration would be larger than 512 MiB")
)

// put is what a bound needs to know of the new value of an entity.
type put struct {
	size    int  // bytes of JSON
	pending bool // Index.Pending
	exempt  bool // the record's Exempt
}

// put returns what the bounds need to know of a put.
func (r *record) put() put { return put{int(r.size), r.index.Pending, r.Exempt} }

// checkBounds returns the error of the bound that a put would exceed, or nil. old is the entity that it replaces; nil =
// none.
func (s *state) checkBounds(k Kind, old *Entity, p put) error {
	set, b := s.sets[k], &s.kinds.infos[k].Bounds
	becomesPending := p.pending && (old == nil || !old.Pending) && !p.exempt
	if becomesPending && b.MaxPending > 0 && set.pending.Len >= b.MaxPending {
		return b.ErrPending
	}
	grown := p.size
	if old != nil {
		grown -= int(old.size)
	}
	if old != nil && (grown <= 0 || p.exempt) {
		return nil
	}
	if p.size > MaxEntityBytes {
		return ErrEntityTooLarge
	}
	if old == nil && b.MaxCount > 0 && set.bySeq.Len >= b.MaxCount {
		return b.ErrCount
	}
	if b.MaxBytes > 0 {
		room := b.MaxBytes
		if old == nil {
			room -= b.ReservedBytes
		}
		return errUnless(set.bytes+int64(grown) <= room, b.ErrBytes)
	}
	if b.AllowWhenFull || b.AllowGrowthWhenFull && old != nil {
		return nil
	}
	return errUnless(s.bytes()+int64(grown) <= s.kinds.maxStateBytes, ErrStateFull)
}

// errUnless returns err unless holds is true.
func errUnless(holds bool, err error) error {
	if holds {
		return nil
	}
	return err
}

// bytes returns the JSON bytes of all living entities.
func (s *state) bytes() (n int64) {
	for _, set := range s.sets {
		n += set.bytes
	}
	return n
}
