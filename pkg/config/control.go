// Package config is the configuration of the service: account, endpoints, destinations, API keys and the like, as
// entities of the replicated log of pkg/conflog.
//
// Secrets that must be shown or used again are sealed in records, in snapshots and in memory; keys and tokens are kept
// as SHA-256.
//
// Invariants, each with its test:
//   - a revoked key is refused everywhere once the revocation is answered (TestKeys, TestRevocation… of pkg/conflog);
//   - no secret stands in clear in a record, a snapshot or a log line (TestNoSecretInClear);
//   - members that a newer node has written survive a change by this one (TestUnknownMembersSurvive…);
//   - 200,000 endpoints are ready in 5 s and take less than 300 MB (TestCeiling).
package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/conflog"
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

// Sealed is a secret under one of the master keys: "key name:base64(nonce, AES-GCM ciphertext)".
type Sealed string

// Node is a node that was heard of in the last 5 s.
type Node = conflog.Node

// Origin is who asks for a change; see conflog.
type Origin = conflog.Origin

// WithOrigin says where the changes come from that are made with the context.
func WithOrigin(ctx context.Context, from Origin) context.Context {
	return conflog.WithOrigin(ctx, from)
}

// Control is the configuration as this node knows it, and the way to change it: the log, and what can be done to the
// entities of each kind.
type Control struct {
	*core
	endpoints
	keys
	runs
	answers
	recoveries
	alerts
	users
	erasures
	documents
}

// core is what all of them work with.
type core struct {
	*conflog.Log
	cfg             Config
	log             *slog.Logger
	keyring         *Keyring
	now             func() time.Time
	bootstrapScopes map[[conflog.HashLen]byte]Scope // by hash: what the environment names
	sweepInterval   time.Duration                   // between looks for what has ended by age
	cache           cache
}

// New validates and starts nothing.
func New(cfg Config, deps Deps) (*Control, error) { return build(cfg, deps, conflog.Config{}) }

// build is New with what tests alter of the log.
func build(cfg Config, deps Deps, log conflog.Config) (*Control, error) {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	core := &core{
		cfg: cfg, log: deps.Log, keyring: deps.Keyring, now: deps.Now, bootstrapScopes: cfg.bootstrapScopes(),
		sweepInterval: time.Minute,
	}
	c := &Control{
		core: core, endpoints: endpoints{core}, keys: keys{core}, runs: runs{core}, answers: answers{core},
		recoveries: recoveries{core}, alerts: alerts{core}, users: users{core}, erasures: erasures{core},
		documents: documents{core},
	}
	var err error
	log.Node, log.Version, log.SingleNode, log.Unverified = cfg.Node, cfg.Version, cfg.SingleNode, cfg.Unverified
	log.SnapshotEvery, log.Kinds, log.CompressionDict = cfg.SnapshotEvery, registeredKinds(), compressionDict()
	core.Log, err = conflog.New(log, conflog.Deps{
		Log: deps.Log, Stream: deps.Stream, Entities: entities{core}, Keys: logKeys{deps.Keyring}, Now: deps.Now,
		Metrics: deps.Metrics, StartSteps: []conflog.Step{
			{Name: "create the account", Do: c.ensureAccount}, {Name: "enter the bootstrap keys", Do: c.ensureBootstrapKeys},
			{Name: "enter the first user", Do: c.ensureAdmin},
		},
	})
	if deps.Keyring == nil {
		err = errors.Join(err, errors.New("master keys: must be set"))
	}
	if err := errors.Join(cfg.Validate(), err); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	core.registerMetrics(deps.Metrics)
	return c, nil
}

// Run follows the log until ctx ends, or until it cannot go on. It is called once.
func (c *Control) Run(ctx context.Context) error {
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return c.Log.Run(running) })
	group.Go(func() error { return c.sweep(running) })
	return group.Wait()
}

// Inspect reads the configuration log as it stands without taking part: nothing is written, and no node
// hears of it. What it returns answers reads, is never up to date again, and takes no changes. Close it.
func Inspect(ctx context.Context, cfg Config, deps Deps) (*Control, error) {
	c, err := New(cfg, deps)
	if err != nil {
		return nil, err
	}
	if err := c.Inspect(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Finalize raises the log to the newest level that this program knows, and returns the level before. It is refused
// while a node is heard of whose program does not know that level. An empty log needs nothing.
func Finalize(ctx context.Context, cfg Config, deps Deps) (before int, err error) {
	c, err := Inspect(ctx, cfg, deps)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return c.Finalize(ctx)
}

// entities tells the log about them.
type entities struct{ *core }

// Index is asked for each record that is applied.
func (x entities) Index(k kind, raw []byte) (conflog.Index, error) {
	v, err := decodeValue(k, raw)
	if err != nil {
		return conflog.Index{}, err
	}
	i := conflog.Index{ID: v.entityID(), FormerHash: formerTokenHash(v), Pending: isPending(v)}
	copy(i.Hash[:], v.secretHash())
	return i, nil
}

// ActorName is the name of a key, or the address of a user.
func (x entities) ActorName(v *conflog.View, id string) string {
	if e := v.FindLiving(kindKey, id); e != nil {
		return x.key(e).Name
	}
	if e := v.FindLiving(kindUser, id); e != nil {
		return x.value(e).(*User).Email
	}
	return ""
}

// AccountID is that of the one account.
func (x entities) AccountID(v *conflog.View) string { return v.Newest(kindAccount).ID }
