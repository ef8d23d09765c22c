package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/pkg/backup"
	"github.com/eventrelay/relay/pkg/embedded/clickhouse"
	"github.com/eventrelay/relay/pkg/embedded/redis"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/stream"
)

// startEngines starts the log, and of Redis and ClickHouse what the settings name no address of, in this process and in
// a child of it. It sets in s how to reach them.
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
	st.Start("log", embedded.Run)
	s.EmbeddedLog = embedded
	if s.RedisURL == "" {
		if err := startRedis(st, s, log); err != nil {
			return err
		}
	}
	if s.ClickHouseURL == "" {
		return startClickHouse(st, s, log)
	}
	return nil
}

// startRedis starts what counts and limits. The claims of events have a file of their own.
func startRedis(st *node.Stack, s *settings, log *slog.Logger) error {
	server, err := redis.New(redis.Config{Counters: filepath.Join(s.DataDir, countersFile)}, redis.Deps{Log: log})
	if err != nil {
		return err
	}
	st.Start("embedded redis", server.Run)
	s.RedisURL, s.DialRedis = "redis://embedded", server.DialContext
	s.ClaimsFile = filepath.Join(s.DataDir, claimsFile)
	return st.Ready(server.Ready())
}

// startClickHouse starts the store in a child process.
func startClickHouse(st *node.Stack, s *settings, log *slog.Logger) error {
	backups := filepath.Join(s.DataDir, "clickhouse.backup")
	child, err := startStore(st, s, backups, log)
	if err != nil {
		return err
	}
	s.ClickHouseURL, s.ClickHouseCluster = socketURL(child.Socket(), databaseName), ""
	s.ReadURL, s.SearchURL = "", ""
	if s.Fsync && clickhouse.SyncSupported {
		s.SyncTables = child.Sync
	}
	s.BackUpStore = func(ctx context.Context, use func(dir string) error) (err error) {
		dir := filepath.Join(backups, backup.Store)
		if err := os.RemoveAll(dir); err != nil { // of a backup that was interrupted
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		if err := backup.CheckCopyRoom(s.DataDir, filepath.Join(s.DataDir, storeDir)); err != nil {
			return err
		}
		// The engine finishes it in any case.
		err = child.Exec(context.WithoutCancel(ctx),
			"BACKUP DATABASE "+databaseName+" TO Disk('backups', '"+backup.Store+"')")
		if err != nil {
			return fmt.Errorf("back up the store: %w", err)
		}
		return use(dir)
	}
	return nil
}

// startStore starts ClickHouse, with a directory for backups.
func startStore(st *node.Stack, s *settings, backups string, log *slog.Logger) (*clickhouse.Child, error) {
	cfg := clickhouse.DefaultChildConfig()
	cfg.Socket = filepath.Join(s.DataDir, socketDir, storeSocket)
	cfg.Data, cfg.Library, cfg.Backups = filepath.Join(s.DataDir, storeDir), s.ChdbLib, backups
	cfg.Fsync = s.Fsync && !clickhouse.SyncSupported // otherwise the store's writer calls SyncTables
	cfg.Env = append(cfg.Env, "RELAY_LOG_FORMAT="+s.LogFormat, "RELAY_NODE_NAME="+s.NodeName)
	child, err := clickhouse.NewChild(cfg, clickhouse.ChildDeps{Log: log, Stderr: os.Stderr})
	if err != nil {
		return nil, err
	}
	st.Start("embedded clickhouse", child.Run)
	return child, st.Ready(child.Ready())
}

// socketURL returns the URL of a ClickHouse database on a unix socket.
func socketURL(path, database string) string {
	u := url.URL{Scheme: "unix", Path: path, RawQuery: url.Values{"database": {database}}.Encode()}
	return u.String()
}
