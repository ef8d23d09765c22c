package clickhouse_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"go.uber.org/goleak"

	"github.com/eventrelay/relay/pkg/embedded/clickhouse"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// processRole is the environment variable that makes this test binary an engine or a supervisor.
const processRole = "RELAY_TEST_ROLE"

// address is the address of the engine in this process.
var address string

func TestMain(m *testing.M) {
	switch os.Getenv(processRole) {
	case "engine":
		os.Exit(runEngine())
	case "supervisor":
		os.Exit(runSupervisor())
	}
	code := kit.ClickHouse(func(addr string) int {
		address = addr
		return m.Run()
	})
	// Stopping the engine has closed the connections that clickhouse-go left open.
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runEngine does what `relay engine clickhouse` does.
func runEngine() int {
	cfg := clickhouse.DefaultConfig()
	flags := flag.NewFlagSet("engine", flag.ExitOnError)
	flags.StringVar(&cfg.Listen, "listen", cfg.Listen, "")
	flags.StringVar(&cfg.Data, "data", "", "")
	flags.StringVar(&cfg.Library, "library", "", "")
	flags.BoolVar(&cfg.Fsync, "fsync", cfg.Fsync, "")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return 2
	}
	cfg.Key, cfg.Backups = os.Getenv("ENGINE_TEST_KEY"), os.Getenv("ENGINE_TEST_BACKUPS")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := clickhouse.Confine(cfg, log); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if dir := os.Getenv("ENGINE_TEST_OUTSIDE"); dir != "" {
		reachOutside(dir)
	}
	if os.Getenv("ENGINE_TEST_FAIL_READS") != "" {
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGUSR1)
		go func() {
			<-asked
			if err := failReads(); err != nil {
				panic(err)
			}
		}()
	}
	server, err := clickhouse.New(cfg, clickhouse.Deps{Log: log})
	if err == nil {
		err = server.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runSupervisor runs a Child until it is killed, and prints the engine's process id once it is ready.
func runSupervisor() int {
	child, err := clickhouse.NewChild(
		childConfig(os.Args[1], os.Args[2]), clickhouse.ChildDeps{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		<-child.Ready()
		fmt.Println(child.PID(), child.Socket())
	})
	if err := child.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childConfig returns a configuration that starts this test binary as the engine.
func childConfig(data, library string) clickhouse.ChildConfig {
	cfg := clickhouse.DefaultChildConfig()
	cfg.Data, cfg.Library = data, library
	cfg.Args, cfg.Env = nil, []string{processRole + "=engine"}
	return cfg
}

// connect opens clickhouse-go on an engine.
func connect(t testing.TB, addr string, change ...func(*driver.Options)) driver.Conn {
	t.Helper()
	options := &driver.Options{
		Addr: []string{addr}, Protocol: driver.HTTP, MaxOpenConns: 16, DialTimeout: 30 * time.Second}
	if filepath.IsAbs(addr) { // a unix socket
		options.Addr = []string{"localhost"}
		options.DialContext = func(ctx context.Context, _ string) (net.Conn, error) { return private.Dial(ctx, addr) }
	}
	for _, f := range change {
		f(options)
	}
	conn := must.Get(driver.Open(options))(t)
	t.Cleanup(func() {
		is.OK(t, conn.Close())
	})
	return conn
}

// newDatabase creates a database for the test and returns its name.
func newDatabase(t testing.TB, conn driver.Conn) string {
	t.Helper()
	name := strings.NewReplacer("/", "_", "#", "_").Replace(strings.ToLower(t.Name()))
	must.Do(t, conn.Exec(t.Context(), "CREATE DATABASE "+name))
	t.Cleanup(func() {
		is.OK(t, conn.Exec(context.Background(), "DROP DATABASE "+name+" SYNC"))
	})
	return name
}

func mustExec(t testing.TB, conn driver.Conn, query string, args ...any) {
	t.Helper()
	must.Do(t, conn.Exec(t.Context(), query, args...), query)
}

func count(t testing.TB, conn driver.Conn, query string, args ...any) uint64 {
	t.Helper()
	var n uint64
	must.Do(t, conn.QueryRow(t.Context(), query, args...).Scan(&n), query)
	return n
}
