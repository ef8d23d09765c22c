package conflog

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Kind says what an entity is. The log has two of its own; its user registers the others.
type Kind uint8

// Kinds of the log's own.
const (
	KindLog       Kind = iota // the first record, with the log's secret
	KindOutbox                // changes whose audit rows are not in Kafka yet
	FirstUserKind             // the first one of the user
)

// Entities is what the log has to ask about entities, whose values are bytes to it. The answers of Index decide what
// apply does: they depend on the arguments alone, and nodes of two versions give the same ones at the same level.
type Entities interface {
	// Index reads the JSON of a value; an error means that no node takes it.
	Index(k Kind, value []byte) (Index, error)
	// ActorName is the name of a key or a user at this moment, for the audit log; empty when there is none.
	ActorName(v *View, id string) string
	// AccountID is the account that audit entries belong to.
	AccountID(v *View) string
}

// Index is by what a value is found.
type Index struct {
	ID string
	// Hash is the SHA-256 of its secret, unique among its kind; zero = none. Former is a second one; nil = none.
	Hash       [HashLen]byte
	FormerHash *[HashLen]byte
	Pending    bool // something is still to be done for it: View.Open finds it

	sealedSecret string // the secret of the log that the record begins, or seals anew
}

// HashLen is the length of a SHA-256.
const HashLen = 32

// KindInfo is what the log knows of a kind. All of it decides what apply does: it may change with a level only.
type KindInfo struct {
	Name    string
	Level   int // the first level at which there may be entities of it
	Audited Audited
	Bounds
}

// Bounds of a kind, which apply judges. The zero value has none of its own: its entities share MaxStateBytes.
type Bounds struct {
	MaxCount int   // entities; 0 = any number
	ErrCount error // says that there are as many
	// Room is how many bytes the kind has for itself, outside of MaxStateBytes, of which a new entity leaves Reserve.
	MaxBytes, ReservedBytes int64
	ErrBytes                error
	AllowWhenFull           bool // small ones, bounded by Most, which a full configuration does not refuse
	AllowWhenOutboxFull     bool // written also while the outbox is full: Most bounds what that adds to it
	AllowGrowthWhenFull     bool // an entity may grow once it is there: what has begun goes on
	Singleton               bool // there is one at most
}

// Audited says which changes of a kind the audit log shows.
type Audited uint8

// The choices.
const (
	AuditNone         Audited = iota // state of the service's own, no configuration
	AuditAll                         // every change
	AuditCreateDelete                // that there is one, and its end
	AuditRequested                   // what somebody has asked for, not how it goes on by itself
)

// kinds are the registered kinds.
type kinds struct {
	infos         []KindInfo // by Kind
	byName        map[string]Kind
	newestLevel   int   // the highest level of any
	maxStateBytes int64 // for all of them, but for those with Room of their own
}

// newKinds registers the kinds of a user after the log's own.
func newKinds(users []KindInfo, room int64) (*kinds, error) {
	ks := &kinds{byName: make(map[string]Kind), newestLevel: baseLevel, maxStateBytes: room}
	ks.infos = append(ks.infos, KindInfo{Name: "log", Level: baseLevel, Bounds: Bounds{Singleton: true}},
		KindInfo{Name: "outbox", Level: baseLevel})
	ks.infos = append(ks.infos, users...)
	for k, info := range ks.infos {
		if _, twice := ks.byName[info.Name]; twice || info.Name == "" || info.Level < baseLevel {
			return nil, fmt.Errorf("kind %q: has no name and level of its own", info.Name)
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

// index asks the user about a value, but for the log's own kinds.
func (p *parser) index(k Kind, value []byte) (Index, error) {
	switch k {
	case KindLog:
		var first firstRecord
		if err := json.Unmarshal(value, &first); err != nil {
			return Index{}, fmt.Errorf("decode %s: %w", p.kinds.name(k), err)
		}
		return Index{ID: first.ID, sealedSecret: first.Secret}, nil
	case KindOutbox:
		return Index{}, errors.New("the outbox takes no values")
	default:
		return p.entities.Index(k, value)
	}
}
