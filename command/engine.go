package command

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/pkg/embedded/clickhouse"
	"github.com/eventrelay/relay/pkg/embedded/redis"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/stream"
)

// embeddedEngine is Redis or ClickHouse inside the binary.
type embeddedEngine interface {
	Run(context.Context) error
	Ready() <-chan struct{}
	Addr() string
}

// engineKeyEnv names the variable with an engine's key, used without --key-file.
const engineKeyEnv = "RELAY_ENGINE_KEY"

// storeDir is the directory of ClickHouse in the data directory.
const storeDir = "clickhouse"

// engineFlags are the flags of `relay engine`.
type engineFlags struct {
	listen, data, library string
	fsync                 bool
	keyFile               string
	key                   string // the content of keyFile, or RELAY_ENGINE_KEY
	hosts                 []string
	backups               string
}

// onTCP reports whether the engine listens on TCP, where the kernel does not tell which user connects.
func (f engineFlags) onTCP() bool {
	return !strings.HasPrefix(f.listen, "unix:") && !strings.HasPrefix(f.listen, "fd:")
}

// runEngine runs one embedded engine as a process of its own.
func runEngine(ctx context.Context, c cli.Call) error {
	switch {
	case len(c.Args) == 0 && c.Describe != nil:
		c.Describe([]cli.Word{{Name: "redis"}, {Name: "clickhouse"}}, nil)
		return nil
	case len(c.Args) == 0:
		return cli.UsageError{Err: errors.New(
			"which engine? relay engine redis|clickhouse --listen address --data directory")}
	}
	name := c.Args[0]
	if name == "help" || name == "-h" || name == "--help" {
		fmt.Fprintf(c.Stdout, "Usage:\n  relay engine redis|clickhouse [flags]\n\n%s\n\nrelay engine redis --help lists the "+
			"flags.\n", cli.Sentence(c.Help))
		return nil
	}
	f, err := readEngineFlags(name, c)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	log := newLogger(logHandler(c.Stderr, c.Getenv("RELAY_LOG_FORMAT"), slog.LevelInfo),
		cmp.Or(c.Getenv("RELAY_NODE_NAME"), "engine-"+name))
	engine, err := newEngine(name, f, log)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	if name == "clickhouse" && f.key == "" && f.onTCP() {
		log.Warn("every user of this machine can read and write the engine's data; set a key with --key-file or "+
			engineKeyEnv, "engine", name)
	}
	st := node.NewStack(ctx, log)
	st.Start(name, engine.Run)
	if st.Ready(engine.Ready()) == nil && !strings.HasPrefix(f.listen, "fd:") {
		fmt.Fprintf(c.Stdout, "%s listens on %s\n", name, engine.Addr())
	}
	return st.Wait()
}

// readEngineFlags reads what follows the name of the engine.
func readEngineFlags(name string, c cli.Call) (f engineFlags, err error) {
	fs := flag.NewFlagSet("relay engine "+name, flag.ContinueOnError)
	fs.StringVar(&f.listen, "listen", "127.0.0.1:0",
		"address to listen on, or unix:/path; port 0 chooses a free one. clickhouse: "+
			"beyond loopback only with a key")
	fs.StringVar(&f.data, "data", "", "data directory; redis stores nothing on disk")
	fs.StringVar(&f.library, "library", c.Getenv("RELAY_CHDB_LIB"), "clickhouse: path of libchdb.so")
	fs.BoolVar(&f.fsync, "fsync", true, "acknowledge only what is on disk")
	fs.StringVar(&f.keyFile, "key-file", "", "clickhouse: file that only this user can read, with the key that clients "+
		"must give; without it the key is "+engineKeyEnv)
	fs.Func("host", "clickhouse: a further host name or address that requests may have in their Host header, with a "+
		"port or for any port; the listen address is always allowed; can be repeated",
		func(text string) error {
			f.hosts = append(f.hosts, text)
			return nil
		})
	fs.StringVar(&f.backups, "backups", "", "clickhouse: directory below which BACKUP and RESTORE work, as the disk "+
		"'backups'; without it they are refused")
	c.Args = c.Args[1:]
	help := cli.Help{Usage: "relay engine " + name + " [flags]", About: cli.Sentence(c.Help)}
	if err := c.ParseFlags(fs, help); err != nil {
		return f, err
	}
	if f.backups != "" {
		if f.backups, err = filepath.Abs(f.backups); err != nil {
			return f, fmt.Errorf("cannot resolve the backup directory: %w", err)
		}
	}
	f.key = c.Getenv(engineKeyEnv)
	if f.keyFile != "" {
		if name == "redis" {
			return f, errors.New("the embedded redis has no keys: it listens on loopback and unix sockets only; leave " +
				"--key-file out")
		}
		text, err := private.ReadFile(f.keyFile)
		if err != nil {
			return f, fmt.Errorf("read key: %w", err)
		}
		if f.key = strings.TrimSpace(string(text)); f.key == "" {
			return f, fmt.Errorf("key file %s is empty", f.keyFile)
		}
	}
	return f, nil
}

func newEngine(name string, f engineFlags, log *slog.Logger) (embeddedEngine, error) {
	switch name {
	case "redis":
		return redis.New(redis.Config{Listen: f.listen}, redis.Deps{Log: log})
	case "clickhouse":
		cfg := clickhouse.DefaultConfig()
		cfg.Listen, cfg.Data, cfg.Library, cfg.Fsync = f.listen, f.data, f.library, f.fsync
		cfg.Key, cfg.KeyFile, cfg.Hosts, cfg.Backups = f.key, f.keyFile, f.hosts, f.backups
		if err := clickhouse.Confine(cfg, log); err != nil {
			return nil, err
		}
		return clickhouse.New(cfg, clickhouse.Deps{Log: log})
	}
	return nil, fmt.Errorf("unknown engine %q: redis or clickhouse", name)
}

// startEngines starts the log, and of Redis and ClickHouse what the settings name no address of, in this process and in
// a child of it. It sets in s how to reach them.
func startEngines(st *node.Stack, s *settings, log *slog.Logger, registry prometheus.Registerer) error {
	// No engine listens on TCP: whoever reaches its port could read and write everything.
	sockets := filepath.Dir(s.StoreSocket())
	if err := private.EnsureDir(sockets, ""); err != nil {
		return fmt.Errorf("directory of the engines' sockets: %w", err)
	}
	if err := convertLog(st.Context(), *s, log); err != nil {
		return err
	}
	embedded, err := stream.OpenLog(stream.LogConfig{Dir: filepath.Join(s.DataDir, nodeconfig.LogDir), Fsync: s.Fsync,
		SkipMissing: s.SkipMissing, Log: log, Metrics: registry})
	if errors.Is(err, stream.ErrRecordsMissing) {
		err = fmt.Errorf("%w. To go on without these records, set RELAY_SKIP_MISSING_RECORDS=true for this start", err)
	}
	if err != nil {
		return err
	}
	st.Start("log", exitOnDiskFailure(embedded.Run, log, os.Exit))
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

// exitOnDiskFailure ends the process when the log cannot be synced. Nothing can be saved then, and the other components
// would try to for half a minute before the cause is logged and the process is started again.
func exitOnDiskFailure(run func(context.Context) error, log *slog.Logger,
	exit func(code int)) func(context.Context) error {
	return func(ctx context.Context) error {
		err := run(ctx)
		if errors.Is(err, stream.ErrLogFailed) {
			log.Error("the log cannot be written to disk: ending at once", "error", err)
			exit(cli.ExitRefused)
		}
		return err
	}
}

// startRedis starts what counts and limits. The claims of events have a file of their own.
func startRedis(st *node.Stack, s *settings, log *slog.Logger) error {
	server, err := redis.New(redis.Config{Counters: filepath.Join(s.DataDir, nodeconfig.CountersFile)},
		redis.Deps{Log: log})
	if err != nil {
		return err
	}
	st.Start("embedded redis", server.Run)
	s.RedisURL, s.DialRedis = "redis://embedded", server.DialContext
	s.ClaimsFile = filepath.Join(s.DataDir, nodeconfig.ClaimsFile)
	return st.Ready(server.Ready())
}

// startClickHouse starts the store in a child process.
func startClickHouse(st *node.Stack, s *settings, log *slog.Logger) error {
	backups := filepath.Join(s.DataDir, "clickhouse.backup")
	child, err := startStore(st, s, backups, log)
	if err != nil {
		return err
	}
	s.ClickHouseURL, s.ClickHouseCluster = s.StoreURL(), ""
	s.ReadURL, s.SearchURL = "", ""
	if s.Fsync && clickhouse.SyncSupported {
		s.SyncTables = child.Sync
	}
	s.BackUpStore = func(ctx context.Context, use func(dir string) error) (err error) {
		dir := filepath.Join(backups, "store")
		if err := os.RemoveAll(dir); err != nil { // of a backup that was interrupted
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		if err := private.CheckCopyRoom(s.DataDir, filepath.Join(s.DataDir, storeDir)); err != nil {
			return err
		}
		// The engine finishes it in any case.
		err = child.Exec(context.WithoutCancel(ctx),
			"BACKUP DATABASE "+nodeconfig.Database+" TO Disk('backups', '"+filepath.Base(dir)+"')")
		if err != nil {
			return fmt.Errorf("back up the store: %w", err)
		}
		return use(dir)
	}
	return nil
}

// restoreStore restores the tables of a backup with the embedded ClickHouse.
func restoreStore(ctx context.Context, s nodeconfig.Config, log *slog.Logger, from string) error {
	st := node.NewStack(ctx, log)
	child, err := startStore(st, &settings{Config: s}, filepath.Dir(from), log)
	if err == nil {
		err = child.Exec(st.Context(),
			"RESTORE DATABASE "+nodeconfig.Database+" FROM Disk('backups', '"+filepath.Base(from)+"')")
	}
	if err == nil && clickhouse.SyncSupported {
		err = child.Sync()
	}
	return errors.Join(err, st.Stop())
}

// startStore starts ClickHouse, with a directory for backups.
func startStore(st *node.Stack, s *settings, backups string, log *slog.Logger) (*clickhouse.Child, error) {
	cfg := clickhouse.DefaultChildConfig()
	cfg.Socket = s.StoreSocket()
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
