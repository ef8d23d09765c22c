package doctor

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/eventrelay/relay/dashboard"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/certfile"
	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/oidc"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/schema"
)

// redisTime bounds a PING. It is longer than the limiter's timeout, so that the doctor measures a slow Redis and does
// not report it as unavailable.
const redisTime = 2 * time.Second

// node is the doctor of one node.
type node struct {
	*features.Host
	disk *diskHistory
}

func newParts(h *features.Host) features.Parts {
	n := &node{Host: h, disk: newDiskHistory(h.Settings.DataDir, h.Now)}
	h.Examine = func(ctx context.Context) ([]Check, error) {
		r, err := n.examine(ctx)
		return r.Checks, err
	}
	return features.Parts{
		Hooks: []features.Start{{Name: "disk history",
			New: func() (func(context.Context) error, error) { return n.disk.Run, nil }}},
		Answers: map[string]func(*http.Request) (any, error){
			"GET /doctor": func(r *http.Request) (any, error) { return n.examine(r.Context()) },
		},
	}
}

// examine examines this node and its engines.
func (n *node) examine(ctx context.Context) (Report, error) {
	t := newTarget(*n.Settings, n.Stream, n.PublicURL, n.Now)
	t.Node, t.Config, t.Keyring, t.FreeBefore = n.NodeName, n.Control, n.Keyring, n.disk.before
	t.BackedUp, t.DroppedHits = n.BackedUp, n.DroppedHits
	t.OpenFiles, t.WantFiles = n.OpenFiles()
	t.askStore(*n.Settings, n.Reader)
	if n.Settings.BackUpStore != nil && runtime.GOOS == "linux" { // the machine of all engines
		t.Memory = os.DirFS("/")
	}
	if n.Stream.Embedded != nil {
		for _, m := range n.Stream.Embedded.Missing() {
			t.Missing = append(t.Missing, m.String())
		}
	}
	return Examine(ctx, t)
}

// newTarget returns what can be examined without a node, but the store.
func newTarget(s nodeconfig.Config, log stream.Config, baseURL string, now func() time.Time) Target {
	return Target{
		Stream: log, ReplicationFactor: s.Copies(), Trims: s.HasRole(nodeconfig.RoleDispatch),
		Redis: pingRedis(s), Checks: s.Checks,
		DataDir:  s.DataDir,
		BaseURL:  baseURL,
		WeakKeys: s.WeakKeys(), Now: now, Retention: s.Retention(), RedisSettings: redisSettings(s),
		CertFile: s.ServedCertificate(), Endpoints: endpoints(s), Issuer: checkIssuer(s, baseURL),
	}
}

// askStore adds the checks of the store.
func (t *Target) askStore(s nodeconfig.Config, reader *read.Reader) {
	t.Store, t.StoreDamage = reader.Check, reader.Damage
	t.StoreRights = func(ctx context.Context) ([]string, error) { return missingStoreRights(ctx, s) }
}

// examineEngines examines the engines without a running node; checks that need one are left out.
func examineEngines(ctx context.Context, s nodeconfig.Config) (Report, error) {
	t := newTarget(s, s.Stream(), s.BaseURL, crash.Clock())
	if s.ClickHouseURL != "" {
		reader, err := read.NewReader(
			cluster.Config{URL: s.ClickHouseURL, ReadURL: s.ReadURL, RetentionDays: s.RetentionDays},
			cluster.Deps{Stream: t.Stream})
		if err != nil {
			return Report{}, err
		}
		defer reader.Close()
		t.askStore(s, reader)
	}
	t.Config, t.Keyring, t.ConfigErr = s.Inspect(ctx)
	if t.Config != nil {
		defer t.Config.Close()
	}
	return Examine(ctx, t)
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
func endpoints(s nodeconfig.Config) (all []Endpoint) {
	seen := make(map[string]bool)
	add := func(engine string, e certfile.Endpoint) {
		if !seen[e.Addr] {
			seen[e.Addr] = true
			all = append(all, Endpoint{Engine: engine, Endpoint: e})
		}
	}
	for _, urls := range []string{s.ClickHouseURL, s.ReadURL, s.SearchURL} {
		if urls == "" {
			continue
		}
		servers, _ := schema.Endpoints(urls) // Validate has checked the URLs
		for _, e := range servers {
			add(EngineClickHouse, e)
		}
	}
	if e, secure := s.Limit().Endpoint(); secure {
		add(EngineRedis, e)
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

// checkIssuer returns the check of the doctor that asks the issuer; nil without one.
func checkIssuer(s nodeconfig.Config, baseURL string) func(context.Context) (redirectURL string, err error) {
	if s.OIDCIssuer == "" {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		cfg := s.OIDC(dashboard.URL(baseURL, s.DashboardHost) + dashboard.IssuerCallback)
		client, err := oidc.New(cfg, crash.Clock())
		if err != nil {
			return "", err
		}
		return cfg.RedirectURL, client.Check(ctx)
	}
}
