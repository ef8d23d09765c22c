package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/eventrelay/relay/dispatcher/ledger"
	"github.com/eventrelay/relay/node/doctor"
	"github.com/eventrelay/relay/pkg/certfile"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/roles"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/schema"
)

const (
	// InspectTime bounds how long commands that ask the engines themselves read the configuration log.
	InspectTime = 15 * time.Second
	// redisTime bounds a PING. It is longer than the limiter's timeout, so that the doctor measures a slow Redis and does
	// not report it as unavailable.
	redisTime = 2 * time.Second
	// ledgerSpan is how far back the doctor reconciles events. ledgerRecordsPerSecond bounds how fast it reads, so that
	// deliveries have the disk.
	ledgerSpan             = time.Hour
	ledgerRecordsPerSecond = 200_000
)

// doctor examines this node and its engines.
func (n *Node) doctor(ctx context.Context) (doctor.Report, error) {
	var memory fs.FS
	if n.settings.BackUpStore != nil && runtime.GOOS == "linux" { // the machine of all engines
		memory = os.DirFS("/")
	}
	var backedUp func() (time.Time, error)
	if n.settings.BackUpStore != nil && !n.settings.Dev {
		backedUp = n.settings.backedUp
	}
	return doctor.Examine(ctx, doctor.Target{
		BackedUp: backedUp, Memory: memory, FreeBefore: n.disk.before,
		Stream: n.Stream, ReplicationFactor: n.settings.Copies(), Trims: n.settings.HasRole(roles.Dispatch),
		Config: n.Control, Node: n.settings.NodeName, Keyring: n.keyring,
		Store: n.Reader.Check, StoreDamage: n.Reader.Damage,
		StoreRights: func(ctx context.Context) ([]string, error) { return missingStoreRights(ctx, n.settings) },
		Redis:       pingRedis(n.settings), Ledger: auditLedger(n.Stream, n.Now), DataDir: n.settings.DataDir,
		BaseURL: n.PublicURL, WeakKeys: n.settings.WeakKeys(), Now: n.Now, Retention: n.settings.Retention(),
		RedisSettings: redisSettings(n.settings), OpenFiles: openFiles(), WantFiles: fewFiles,
		CertFile: n.settings.ServedCertificate(), DroppedHits: n.DroppedHits, Endpoints: endpoints(n.settings),
		Issuer: checkIssuer(n.settings, n.PublicURL), Missing: n.missingRecords(),
	})
}

// missingRecords names the records that the log in this process has lost.
func (n *Node) missingRecords() (all []string) {
	if n.settings.EmbeddedLog != nil {
		for _, m := range n.settings.EmbeddedLog.Missing() {
			all = append(all, m.String())
		}
	}
	return all
}

// ExamineEngines examines the engines without a running node; checks that need one are left out.
func ExamineEngines(ctx context.Context, s nodeconfig.Config) (doctor.Report, error) {
	now := crash.Clock()
	p := doctor.Target{
		Stream: s.Stream(), ReplicationFactor: s.Copies(), Trims: s.HasRole(roles.Dispatch),
		Redis: pingRedis(s), Ledger: auditLedger(s.Stream(), now),
		DataDir:  s.DataDir,
		BaseURL:  s.BaseURL,
		WeakKeys: s.WeakKeys(), Now: now, Retention: s.Retention(), RedisSettings: redisSettings(s),
		CertFile: s.ServedCertificate(), Endpoints: endpoints(s), Issuer: checkIssuer(s, s.BaseURL),
	}
	if s.ClickHouseURL != "" {
		reader, err := read.NewReader(
			cluster.Config{URL: s.ClickHouseURL, ReadURL: s.ReadURL, RetentionDays: s.RetentionDays},
			cluster.Deps{Stream: p.Stream})
		if err != nil {
			return doctor.Report{}, err
		}
		defer reader.Close()
		p.Store, p.StoreDamage = reader.Check, reader.Damage
		p.StoreRights = func(ctx context.Context) ([]string, error) { return missingStoreRights(ctx, s) }
	}
	p.Config, p.Keyring, p.ConfigErr = Inspect(ctx, s)
	if p.Config != nil {
		defer p.Config.Close()
	}
	return doctor.Examine(ctx, p)
}

// Inspect reads the configuration log within InspectTime. Without RELAY_MASTER_KEYS it can neither open secrets nor
// authenticate records; it still shows which entities there are and which master keys sealed them.
func Inspect(ctx context.Context, s nodeconfig.Config) (*config.Control, *seal.Keyring, error) {
	cfg, deps, err := Inspection(s)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, InspectTime)
	defer cancel()
	c, err := config.Inspect(ctx, cfg, deps)
	if s.MasterKeys == "" {
		return c, nil, err
	}
	return c, deps.Keyring, err
}

// Inspection returns what [config.Inspect] needs to read the configuration log without a node.
func Inspection(s nodeconfig.Config) (config.Config, config.Deps, error) {
	spec := s.MasterKeys
	if spec == "" {
		spec = seal.GenerateKey("doctor")
	}
	keyring, err := seal.NewKeyring(spec)
	if err != nil {
		return config.Config{}, config.Deps{}, fmt.Errorf("RELAY_MASTER_KEYS: %w", err)
	}
	return config.Config{Node: "doctor", Partitions: 1, Unverified: s.MasterKeys == ""},
		config.Deps{Stream: s.Stream(), Keyring: keyring, Now: crash.Clock()}, nil
}

// missingStoreRights returns what the users of ClickHouse lack, with the setting that names the user.
func missingStoreRights(ctx context.Context, s nodeconfig.Config) (missing []string, err error) {
	for _, user := range []struct{ setting, url, role string }{
		{"RELAY_CLICKHOUSE_URL", s.ClickHouseURL, schema.RoleWrite}, {"RELAY_READ_URL", s.ReadURL, schema.RoleRead},
		{"RELAY_SEARCH_URL", s.SearchURL, schema.RoleSearch},
	} {
		if user.url == "" {
			continue
		}
		rights, err := schema.MissingRights(ctx, user.url, user.role)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", user.setting, err)
		}
		for _, right := range rights {
			missing = append(missing, user.setting+": "+right)
		}
	}
	return missing, nil
}

// endpoints returns where ClickHouse and Redis use TLS, each once.
func endpoints(s nodeconfig.Config) (all []doctor.Endpoint) {
	seen := make(map[string]bool)
	add := func(engine string, e certfile.Endpoint) {
		if !seen[e.Addr] {
			seen[e.Addr] = true
			all = append(all, doctor.Endpoint{Engine: engine, Endpoint: e})
		}
	}
	for _, urls := range []string{s.ClickHouseURL, s.ReadURL, s.SearchURL} {
		if urls == "" {
			continue
		}
		servers, _ := schema.Endpoints(urls) // Validate has checked the URLs
		for _, e := range servers {
			add(doctor.EngineClickHouse, e)
		}
	}
	if e, secure := s.Limit().Endpoint(); secure {
		add(doctor.EngineRedis, e)
	}
	return all
}

func pingRedis(s nodeconfig.Config) func(context.Context) (time.Duration, error) {
	if s.RedisURL == "" {
		return nil
	}
	return func(ctx context.Context) (time.Duration, error) {
		cfg := s.Limit()
		cfg.Timeout = redisTime
		return limit.Ping(ctx, cfg)
	}
}

func redisSettings(s nodeconfig.Config) func(context.Context) (limit.Settings, error) {
	if s.RedisURL == "" {
		return nil
	}
	return func(ctx context.Context) (limit.Settings, error) {
		cfg := s.Limit()
		cfg.Timeout = redisTime
		return limit.ReadSettings(ctx, cfg)
	}
}

// auditLedger returns the check that reconciles the events of the last hour.
func auditLedger(conf stream.Config, now func() time.Time) func(context.Context) doctor.Check {
	return func(ctx context.Context) doctor.Check {
		r, err := ledger.Audit(ctx, conf, ledger.Span{Since: now().Add(-ledgerSpan), PerSecond: ledgerRecordsPerSecond})
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ledger.ErrTooMany):
			return doctor.Check{State: doctor.StateOK,
				Text: fmt.Sprintf("the last %v has too many events to reconcile here; the metrics relay_ledger_* cover all of "+
					"them", ledgerSpan)}
		case err != nil:
			return doctor.Check{State: doctor.StateWarn, Text: err.Error(), Advice: "run relay doctor again"}
		}
		c := doctor.Check{State: doctor.StateOK, Text: r.Counts.String()}
		for _, l := range r.Losses {
			c.Details = append(c.Details, l.String())
		}
		if r.Lost > 0 {
			c.State, c.Advice = doctor.StateFail, "deliveries are lost: keep the log as it is, and replay the events of "+
				"these deliveries"
		}
		return c
	}
}
