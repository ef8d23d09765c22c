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
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/embedded/clickhouse"
	"github.com/eventrelay/relay/pkg/embedded/redis"
	"github.com/eventrelay/relay/pkg/private"
)

// Files in the data directory of dev.
const (
	lockFile       = "relay.lock"
	masterKeysFile = "master.keys"
	apiKeyFile     = "api.key"
	socketDir      = "run" // of the engines
)

// runDev starts the embedded engines, then a node with every role on top of them.
func runDev(ctx context.Context, s Settings, log *slog.Logger, stdout io.Writer) error {
	dir, err := filepath.Abs(s.DataDir)
	if err != nil {
		return fmt.Errorf("find data directory: %w", err)
	}
	s.DataDir = dir
	if err := private.Dir(dir, lockFile); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	unlock, err := private.Lock(dir, lockFile)
	if err != nil {
		return err
	}
	defer unlock()
	if err := devDefaults(&s); err != nil {
		return err
	}
	st := node.NewStack(ctx, log)
	if err := startDev(st, &s, log, stdout); err != nil {
		return st.StopAfterFailedStart(err)
	}
	return st.Wait()
}

// devDefaults fills in what dev decides by itself: keys that are kept, and the shape of one machine.
func devDefaults(s *Settings) error {
	if s.NodeName == "" {
		s.NodeName = "dev"
	}
	s.Replication, s.Embedded = 1, true
	var err error
	if s.MasterKeys == "" {
		s.MasterKeys, err = keptSecret(filepath.Join(s.DataDir, masterKeysFile), func() string {
			return config.GenerateMasterKey("dev")
		})
	}
	if err == nil && s.BootstrapKey == "" {
		s.BootstrapKey, err = keptSecret(filepath.Join(s.DataDir, apiKeyFile), apikey.New)
	}
	return err
}

// startDev starts the engines, prepares topics and tables and starts the node.
func startDev(st *node.Stack, s *Settings, log *slog.Logger, stdout io.Writer) error {
	registry := prometheus.NewRegistry()
	// No engine listens on TCP: whoever reached its port could read and write everything.
	sockets := filepath.Join(s.DataDir, socketDir)
	if err := private.Dir(sockets, ""); err != nil {
		return fmt.Errorf("directory of the engines' sockets: %w", err)
	}
	broker, err := newKafka(engineFlags{
		listen: "unix:" + filepath.Join(sockets, "kafka.sock"), data: filepath.Join(s.DataDir, "kafka"), fsync: s.Fsync,
	}, log, registry)
	if err != nil {
		return err
	}
	limiter, err := redis.New(redis.Config{}, redis.Deps{Log: log})
	if err != nil {
		return err
	}
	cfg := clickhouse.DefaultChildConfig()
	cfg.Socket = filepath.Join(sockets, "clickhouse.sock")
	cfg.Data, cfg.Library, cfg.Fsync = filepath.Join(s.DataDir, "clickhouse"), s.ChdbLib, s.Fsync &&
		!clickhouse.SyncSupported
	tables, err := clickhouse.NewChild(cfg, clickhouse.ChildDeps{Log: log, Stderr: os.Stderr})
	if err != nil {
		return err
	}
	st.Start("embedded clickhouse", tables.Run)
	st.Start("embedded kafka", broker.Run)
	st.Start("embedded redis", limiter.Run)
	for _, ready := range []<-chan struct{}{broker.Ready(), limiter.Ready(), tables.Ready()} {
		if err := st.Ready(ready); err != nil {
			return err
		}
	}
	s.KafkaBrokers, s.DialKafka = []string{broker.Addr()}, broker.DialContext
	s.RedisURL, s.DialRedis = "redis://embedded", limiter.DialContext
	s.ClickHouseURL, s.SearchURL, s.ClickHouseCluster = socketURL(tables.Socket(), "relay"), "", ""
	if s.Fsync && clickhouse.SyncSupported {
		s.SyncTables = tables.Sync
	}
	// Whatever an older version left of the topics, they are nobody else's to set.
	if _, err := migrate(st.Context(), *s, true, false); err != nil {
		return err
	}
	n, err := node.Start(st, s.Config, log, registry)
	if err != nil {
		return err
	}
	fmt.Fprint(stdout, banner(n.URL(), s.BootstrapKey))
	return nil
}

// socketURL is the address of a database of ClickHouse behind a unix socket.
func socketURL(path, database string) string {
	u := url.URL{Scheme: "unix", Path: path, RawQuery: url.Values{"database": {database}}.Encode()}
	return u.String()
}

// banner is what dev prints when it is ready; its commands work when pasted together.
func banner(url, key string) string {
	return fmt.Sprintf(`
EventRelay is ready at %[1]s

API key (read and write): %[2]s

Try it: make an endpoint that only captures, post an event to it, and read the event.

  AUTH='Authorization: Bearer %[2]s' JSON='Content-Type: application/json'
  EP=$(curl -sS %[1]s/v1/endpoints -H "$AUTH" -H "$JSON" \
    -d '{"destinations":[{"url":"https://example.com/hook","enabled":false}]}')
  IN=$(printf '%%s' "$EP" | sed -n 's/.*"ingest_url":"\([^"]*\)".*/\1/p')
  curl -sS "$IN" -H "$JSON" -d '{"type":"order.paid","amount":4200}'; echo
  EVT=$(curl -sS "%[1]s/v1/events?limit=1" -H "$AUTH" | sed -n 's/.*"id":"\(evt_[0-9a-z]*\)".*/\1/p')
  curl -sS "%[1]s/v1/events/$EVT" -H "$AUTH"; echo

Ctrl-C stops it; the data stays.
`, url, key)
}

// keptSecret reads a secret from a file, or makes it once and keeps it there, readable by its owner only.
func keptSecret(path string, generate func() string) (string, error) {
	b, err := private.ReadFile(path)
	if err == nil {
		if text := strings.TrimSpace(string(b)); text != "" {
			return text, nil
		}
		return "", fmt.Errorf("%s is empty; remove it to have a new secret made", path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read kept secret: %w", err)
	}
	text := generate()
	// Written aside and renamed: a crash must not leave half a key, which would lock sealed secrets away.
	tmp := path + "." + rand.Text()[:8]
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("keep secret: %w", err)
	}
	_, werr := f.WriteString(text + "\n")
	if err := errors.Join(werr, f.Sync(), f.Close(), os.Rename(tmp, path)); err != nil {
		return "", fmt.Errorf("keep secret: %w", err)
	}
	return text, nil
}
