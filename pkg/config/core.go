package config

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/config/argon"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/id"
)

// Errors that callers branch on.
var (
	ErrNotFound       = conflog.ErrNotFound
	ErrConflict       = conflog.ErrConflict
	ErrLease          = conflog.ErrLease
	ErrUnavailable    = conflog.ErrUnavailable
	ErrLevel          = conflog.ErrLevel
	ErrEntityTooLarge = conflog.ErrEntityTooLarge
	ErrStateFull      = conflog.ErrStateFull

	ErrInvalidKey = errors.New("unknown, expired or revoked API key")
)

// Origin is the caller of a change and its request; see conflog.Origin.
type Origin = conflog.Origin

// WithOrigin returns a context with the origin of the changes that are made with it, for the audit log.
func WithOrigin(ctx context.Context, from Origin) context.Context {
	return conflog.WithOrigin(ctx, from)
}

// OriginOf returns the origin of the changes that are made with a context; zero for none.
func OriginOf(ctx context.Context) Origin { return conflog.OriginOf(ctx) }

// Methods, grouped by subject.
type (
	endpoints struct{ *core } // endpoints, fixtures and erasures of their events, and settings
	callers   struct{ *core } // API keys, users, and the service secret
	tenants   struct{ *core } // tenants, and the portal
	requests  struct{ *core } // actions of agents, and remembered answers
	notices   struct{ *core } // findings with their alerts
	documents struct{ *core } // export, import and rewrap
)

// core is what the groups of methods share.
type core struct {
	*entity.Core
	cfg             Config
	log             *slog.Logger
	bootstrapScopes map[[conflog.HashLen]byte]Scope // of the bootstrap keys in the environment, by the hash of the key
	sweepInterval   time.Duration                   // between two removals of expired entities
	passwords       *argon.Hasher
	keyIndex        atomic.Pointer[keyIndex]
	erasures        erasureCounts
	actionMu        sync.Mutex   // held from counting actions until one is created
	usedKeys        chan usedKey // keys whose fingerprints recordKeyUses has to check
	// by id of a key: the entity of the service secret under which this node has checked its fingerprint
	fingerprintedKeys sync.Map
}

// keyIndex finds API keys by their fingerprint.
type keyIndex struct {
	changed       <-chan struct{} // closed when a key was changed since
	byFingerprint map[string]string
}

// usedKey is an API key that was used: its text, or that a browser has sent it.
type usedKey struct {
	id, text    string
	fromBrowser bool
}

// erasureCounts are the numbers of erasures that keys of tenants asked for.
type erasureCounts struct {
	mu       sync.Mutex // guards what follows
	since    time.Time  // when all were counted
	seq      int64      // Seq of the newest that is counted
	all      int
	byTenant map[uint64]int // by Erasure.Attributes
}

// Scope is what an API key or a user may do.
type Scope string

// Scopes.
const (
	Read      Scope = "read"
	ReadWrite Scope = "read_write"
)

func errScope() error {
	return &entity.InvalidError{Param: "scope", Message: "must be read or read_write"}
}

// derivedID returns the id that follows from a text: nodes that create an entity together do not create it twice.
func derivedID(prefix, text string) string {
	sum := entity.HashOf(text)
	return id.ID(sum[:16]).Text(prefix)
}

func (c *core) ensureAccount(ctx context.Context) error {
	if c.Account() != nil {
		return nil
	}
	_, err := c.Insert(ctx, &entity.Account{ID: id.Random(id.Account), CreatedAt: c.Clock().UTC()})
	if errors.Is(err, ErrConflict) {
		return nil // another node created it
	}
	return err
}
