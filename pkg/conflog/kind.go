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
