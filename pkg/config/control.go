// Package config is the configuration of the service: account, endpoints, destinations, API keys, replay runs, recovery
// jobs, alerts, users, erasures, log drains, domains, DSNs, settings, test fixtures, actions of agents, the service
// secret and remembered answers. They are entities of the replicated log in pkg/conflog, so every node has all of them
// in memory.
//
// Secrets that must be shown or used again are sealed (AES-256-GCM under a master key) in records, snapshots and
// memory. API keys and ingest tokens are found by their SHA-256.
//
// Invariants, each with its test:
//   - when a revocation is answered, every node rejects the key (TestKeys, TestRevocation… of pkg/conflog);
//   - when the end of a user's sessions is answered, every node rejects them (TestSessionsEndEverywhere);
//   - no secret is in clear text in a record, a snapshot or a log line (TestNoSecretInClear);
//   - a node that changes an entity keeps the members that a newer version has written (TestUnknownMembersSurvive…);
//   - a node loads 200,000 endpoints in 5 s and keeps them in less than 300 MB (TestCeiling).
//
// Begin with Control and with kindTable in kind_table.go, which lists all kinds. Package entity has what all kinds
// share, package seal the secrets, import.go relay config export and import.
package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/argon"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/wait"
)

// Control is this node's copy of the configuration, with methods to read and change each kind of entity. Create it with
// New and call Run, or with Inspect.
type Control struct {
	*entity.Core
	*core
	endpoints
	callers
	tenants
	catalogue
	jobs.Jobs
	requests
	leak.Findings
	leak.Tripwires
	alerting.Store
	notices
	documents
}

// New validates cfg and deps. It starts nothing and opens no connection.
func New(cfg Config, deps Deps) (*Control, error) { return build(cfg, deps, conflog.Config{}) }

// build is New with settings of the log that tests change.
func build(cfg Config, deps Deps, log conflog.Config) (*Control, error) {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	core := &core{
		Core: &entity.Core{Table: kindTable, Keyring: deps.Keyring, Clock: deps.Now, Partitions: cfg.Partitions,
			RetentionDays: cfg.RetentionDays},
		cfg: cfg, log: deps.Log, bootstrapScopes: cfg.bootstrapScopes(), sweepInterval: time.Minute,
		passwords: argon.NewHasher(), usedKeys: make(chan usedKey, 16),
	}
	c := &Control{core.Core, core, endpoints{core}, callers{core}, tenants{core},
		catalogue{core, &compiledSchemas{}},
		jobs.New(core.Core, cfg.RunProgressTimeout), requests{core}, leak.NewFindings(core.Core),
		leak.NewTripwires(core.Core, callers{core}.KeyFingerprint),
		alerting.Store{Core: core.Core}, notices{core}, documents{core}}
	var err error
	log.Node, log.Version, log.SingleNode, log.Unverified = cfg.Node, cfg.Version, cfg.SingleNode, cfg.Unverified
	log.SnapshotEvery, log.Kinds, log.CompressionDict = cfg.SnapshotEvery, kindTable.Registered(), compressionDict()
	core.Log, err = conflog.New(log, conflog.Deps{
		Log: deps.Log, Stream: deps.Stream, Entities: entities{core}, Keys: logKeys{deps.Keyring}, Now: deps.Now,
		Metrics: deps.Metrics, StartSteps: []conflog.Step{
			{Name: "create the account", Do: c.ensureAccount}, {Name: "create the bootstrap keys", Do: c.ensureBootstrapKeys},
			{Name: "create the first user", Do: c.ensureAdmin},
		},
	})
	if deps.Keyring == nil {
		err = errors.Join(err, errors.New("master keys must be set"))
	}
	if err := errors.Join(cfg.Validate(), err); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	core.registerMetrics(deps.Metrics)
	return c, nil
}

// Run follows the log until ctx ends. It returns an error when the log cannot be continued. Call it once.
func (c *Control) Run(ctx context.Context) error {
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return c.Log.Run(running) })
	group.Go(func() error { return c.sweep(running) })
	group.Go(func() error { return c.recordKeyUses(running) })
	return group.Wait()
}

// Inspect reads the configuration log as it is now, without joining the cluster: it writes nothing and sends no
// heartbeats. The result answers reads from that state and accepts no changes. Call Close at the end.
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

// Finalize raises the level of the log to the newest that this program supports, and returns the level before. It
// returns ErrLevel while a living node does not support that level. It does nothing to an empty log.
func Finalize(ctx context.Context, cfg Config, deps Deps) (before int, err error) {
	c, err := Inspect(ctx, cfg, deps)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return c.Finalize(ctx)
}

// entities implements conflog.Entities.
type entities struct{ *core }

// Index decodes the value of a record and returns its index fields.
func (x entities) Index(k entity.Kind, raw []byte) (conflog.Index, error) {
	v, err := x.Table.Decode(k, raw)
	if err != nil {
		return conflog.Index{}, err
	}
	i := conflog.Index{ID: entity.IDOf(v), Pending: v.IsPending(), Attributes: v.Attributes()}
	if h := v.FormerHash(); len(h) == conflog.HashLen {
		i.FormerHash = (*[conflog.HashLen]byte)(h)
	}
	copy(i.Hash[:], entity.HashOfValue(v))
	return i, nil
}

// Known returns the JSON of a value as this version writes it.
func (x entities) Known(k entity.Kind, raw []byte) []byte {
	v, err := x.Table.Decode(k, raw)
	if err != nil {
		return raw
	}
	known, err := entity.EncodeValue(v)
	if err != nil {
		return raw
	}
	return known
}

// ActorName returns the name of an API key, or the email address of a user.
func (x entities) ActorName(v *conflog.View, id string) string {
	if e := v.FindLiving(entity.KindKey, id); e != nil {
		return x.key(e).Name
	}
	if e := v.FindLiving(entity.KindUser, id); e != nil {
		return x.Decoded(e).(*User).Email
	}
	if e := v.FindLiving(entity.KindPortalSession, id); e != nil {
		return portalActor(x.Decoded(e).(*PortalSession).Tenant)
	}
	return ""
}

// AccountID returns the id of the only account.
func (x entities) AccountID(v *conflog.View) string { return v.Newest(entity.KindAccount).ID }

func compressionDict() []byte {
	text := "text"
	b, err := json.Marshal([]any{
		Key{Scope: ReadWrite}, entity.Account{},
		Endpoint{
			Name: text, Description: &text, Provider: verify.Generic, TypeSource: &text,
			EndpointSettings: NewEndpointSettings("generic"),
			Verification: &Verification{
				Type: verify.StandardWebhooks, Mode: "enforce", Secrets: []seal.Secret{"key:"}, ToleranceSeconds: 300},
			Destinations: []Destination{{
				URL:                 "https://example.com/webhooks",
				DestinationSettings: NewDestinationSettings(),
				Secrets:             []SigningSecret{{Secret: "key:"}},
			}},
			RetryPolicy: retry.Default(),
		},
	})
	if err != nil {
		panic(fmt.Sprintf("BUG: encode the dictionary: %v", err))
	}
	return b
}

// sweep removes expired entities, on the owner of partition 0 of events, until ctx ends.
func (c *Control) sweep(ctx context.Context) error {
	for wait.For(ctx, c.sweepInterval) == nil {
		if !c.Owner() {
			continue
		}
		if err := c.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			c.log.LogAttrs(ctx, slog.LevelWarn, "cannot remove expired entities", slog.Any("error", err))
		}
	}
	return nil
}

// sweepOnce removes what has expired, and the oldest scans.
func (c *Control) sweepOnce(ctx context.Context) error {
	if err := c.SweepExpired(ctx); err != nil {
		return err
	}
	return c.SweepScans(ctx)
}
