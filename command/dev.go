package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/embedded/clickhouse"
	"github.com/eventrelay/relay/pkg/embedded/redis"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/stream"
)

// Files in the data directory of dev.
const (
	lockFile       = "relay.lock"
	masterKeysFile = "master.keys"
	apiKeyFile     = "api.key"
	socketDir      = "run" // of the engines
)

// devNode is the name of the node that dev runs, unless one is set.
const devNode = "dev"

// runDev runs the embedded engines and a node with every role on them.
func runDev(ctx context.Context, s settings, log *slog.Logger, stdout io.Writer) error {
	dir, err := filepath.Abs(s.DataDir)
	if err != nil {
		return fmt.Errorf("cannot resolve the data directory: %w", err)
	}
	s.DataDir = dir
	if err := private.EnsureDir(dir, lockFile); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	unlock, err := private.LockDir(dir, lockFile)
	if err != nil {
		return err
	}
	defer unlock()
	keyGiven := s.BootstrapKey != ""
	if err := devDefaults(&s); err != nil {
		return err
	}
	st := node.NewStack(ctx, log)
	if err := startDev(st, &s, keyGiven, log, stdout); err != nil {
		return st.StopAfterFailedStart(err)
	}
	return st.Wait()
}

// devDefaults sets what dev decides by itself: one replica, and a master key and an API key that are created once and
// kept in the data directory. It keeps keys that are set.
func devDefaults(s *settings) error {
	s.Replication, s.Embedded = 1, true
	var err error
	if s.MasterKeys == "" {
		s.MasterKeys, err = loadOrCreateSecret(filepath.Join(s.DataDir, masterKeysFile), func() string {
			return seal.GenerateKey("dev")
		})
	}
	if err == nil && s.BootstrapKey == "" {
		s.BootstrapKey, err = loadOrCreateSecret(filepath.Join(s.DataDir, apiKeyFile), apikey.New)
	}
	return err
}

// startDev starts the engines, prepares topics and tables and starts the node. It prints the API key, unless it was
// given: then it is a secret of somebody's environment.
func startDev(st *node.Stack, s *settings, keyGiven bool, log *slog.Logger, stdout io.Writer) error {
	registry := prometheus.NewRegistry()
	if err := startEngines(st, s, log, registry); err != nil {
		return err
	}
	// The topics belong to dev alone, so it corrects settings that an older version left.
	if _, err := migrate(st.Context(), *s, true, false); err != nil {
		return err
	}
	n, err := node.Start(st, s.Config, log, registry)
	if err != nil {
		return err
	}
	link, isSignIn, err := n.DashboardLink(st.Context())
	if err != nil { // everything else works without the dashboard
		log.LogAttrs(st.Context(), slog.LevelWarn, "nobody can sign in to the dashboard yet; relay users add prints a link",
			slog.Any("error", err))
	}
	key, line := keyLine(s.BootstrapKey, keyGiven, n.AcceptsBootstrapKey())
	fmt.Fprint(stdout, banner(n.URL(), key, line, dashboardLine(link, isSignIn)))
	return nil
}

// startEngines starts the embedded engines, and sets in s how to reach them.
func startEngines(st *node.Stack, s *settings, log *slog.Logger, registry prometheus.Registerer) error {
	// No engine listens on TCP: whoever reaches its port could read and write everything.
	sockets := filepath.Join(s.DataDir, socketDir)
	if err := private.EnsureDir(sockets, ""); err != nil {
		return fmt.Errorf("directory of the engines' sockets: %w", err)
	}
	if err := convertLog(st.Context(), *s, log); err != nil {
		return err
	}
	embedded, err := stream.OpenLog(stream.LogConfig{
		Dir: filepath.Join(s.DataDir, logDir), Fsync: s.Fsync, Log: log, Metrics: registry})
	if err != nil {
		return err
	}
	redisServer, err := redis.New(redis.Config{}, redis.Deps{Log: log})
	if err != nil {
		return err
	}
	cfg := clickhouse.DefaultChildConfig()
	cfg.Socket = filepath.Join(sockets, "clickhouse.sock")
	cfg.Data, cfg.Library = filepath.Join(s.DataDir, "clickhouse"), s.ChdbLib
	cfg.Fsync = s.Fsync && !clickhouse.SyncSupported // otherwise the store's writer calls SyncTables
	cfg.Env = append(cfg.Env, "RELAY_LOG_FORMAT="+s.LogFormat, "RELAY_NODE_NAME="+s.NodeName)
	clickhouseChild, err := clickhouse.NewChild(cfg, clickhouse.ChildDeps{Log: log, Stderr: os.Stderr})
	if err != nil {
		return err
	}
	st.Start("embedded clickhouse", clickhouseChild.Run)
	st.Start("embedded log", embedded.Run)
	st.Start("embedded redis", redisServer.Run)
	for _, ready := range []<-chan struct{}{redisServer.Ready(), clickhouseChild.Ready()} {
		if err := st.Ready(ready); err != nil {
			return err
		}
	}
	s.EmbeddedLog = embedded
	s.RedisURL, s.DialRedis = "redis://embedded", redisServer.DialContext
	s.ClickHouseURL, s.ClickHouseCluster = socketURL(clickhouseChild.Socket(), "relay"), ""
	s.ReadURL, s.SearchURL = "", ""
	if s.Fsync && clickhouse.SyncSupported {
		s.SyncTables = clickhouseChild.Sync
	}
	return nil
}

// socketURL returns the URL of a ClickHouse database on a unix socket.
func socketURL(path, database string) string {
	u := url.URL{Scheme: "unix", Path: path, RawQuery: url.Values{"database": {database}}.Encode()}
	return u.String()
}

// dashboardLine is the part of the banner that says where the dashboard is; empty without a link.
func dashboardLine(link string, isSignIn bool) string {
	switch {
	case link == "":
		return ""
	case isSignIn:
		return fmt.Sprintf("Dashboard, as %s, once within 10 minutes: %s\n", node.FirstUser, link)
	}
	return fmt.Sprintf("Dashboard: %s\n", link)
}

// keyLine returns the API key as the commands of the banner have it, and the line about it.
func keyLine(key string, given, accepted bool) (shown, line string) {
	switch {
	case !accepted:
		return "rly_live_…",
			"The first API key was revoked. relay keys create --name NAME --scope read_write creates another one."
	case given:
		return "$RELAY_BOOTSTRAP_KEY",
			"API key (read and write): RELAY_BOOTSTRAP_KEY. The commands below read this variable."
	}
	return key, "API key (read and write): " + key
}

// banner is what dev prints when it is ready. Its commands work when they are pasted as a whole.
func banner(url, key, keyLine, dashboard string) string {
	return fmt.Sprintf(`
EventRelay is ready at %[1]s

%[4]s
%[3]s
Try it: create an endpoint that only captures, post an event to it, and read the event.

  AUTH="Authorization: Bearer %[2]s" JSON='Content-Type: application/json'
  EP=$(curl -sS %[1]s/v1/endpoints -H "$AUTH" -H "$JSON" \
    -d '{"name":"first","destinations":[{"url":"https://example.com/hook","enabled":false}]}')
  IN=$(printf '%%s' "$EP" | sed -n 's/.*"ingest_url":"\([^"]*\)".*/\1/p')
  curl -sS "$IN" -H "$JSON" -d '{"type":"order.paid","amount":4200}'; echo
  EVT=$(curl -sS "%[1]s/v1/events?limit=1" -H "$AUTH" | sed -n 's/.*"id":"\(evt_[0-9a-z]*\)".*/\1/p')
  curl -sS "%[1]s/v1/events/$EVT" -H "$AUTH"; echo

Ctrl-C stops it. The data stays.
`, url, key, dashboard, keyLine)
}

// loadOrCreateSecret reads a secret from a file, or creates it and writes it there with mode 0600.
func loadOrCreateSecret(path string, generate func() string) (string, error) {
	b, err := private.ReadFile(path)
	if err == nil {
		if text := strings.TrimSpace(string(b)); text != "" {
			return text, nil
		}
		return "", fmt.Errorf("%s is empty; remove it, and a new secret is created", path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read secret: %w", err)
	}
	text := generate()
	// Written to a temporary file and renamed: with half a key after a crash no sealed secret could be opened.
	tmp := path + "." + rand.Text()[:8]
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("write secret: %w", err)
	}
	_, werr := f.WriteString(text + "\n")
	if err := errors.Join(werr, f.Sync(), f.Close(), os.Rename(tmp, path)); err != nil {
		return "", fmt.Errorf("write secret: %w", err)
	}
	return text, nil
}
