package kit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/eventrelay/relay/pkg/embedded/clickhouse"
)

// findChdb is ChdbLibrary for TestMain, which has no testing.TB: it returns an error instead of failing a test.
func findChdb() (string, error) {
	if path := os.Getenv("RELAY_CHDB_LIB"); path != "" {
		return clickhouse.FindLibrary(path)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find libchdb: %w", err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "bin", "lib", "libchdb.so")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("libchdb is missing: run `make build` or tools/chdb/fetch.sh")
}

// ClickHouse runs libchdb in this process while run runs, and passes run the engine's address for clickhouse-go's HTTP
// protocol. A process can hold one engine only, so TestMain calls ClickHouse and each test creates its own database. It
// returns the exit code of run, or 1 if the engine failed.
func ClickHouse(run func(address string) int) int {
	code, err := withClickHouse(run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot run ClickHouse for tests:", err)
		return max(code, 1)
	}
	return code
}

func withClickHouse(run func(address string) int) (code int, err error) {
	library, err := findChdb()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "relay-clickhouse")
	if err != nil {
		return 0, fmt.Errorf("create data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg := clickhouse.DefaultConfig()
	cfg.Data, cfg.Library, cfg.Fsync = dir, library, false
	cfg.Hosts = []string{"127.0.0.1"} // tests put proxies in front of it
	server, err := clickhouse.New(cfg, clickhouse.Deps{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1) // Run ends once
	var wg sync.WaitGroup
	wg.Go(func() { ended <- server.Run(ctx) })
	defer wg.Wait()
	defer stop()
	select {
	case <-server.Ready():
	case err := <-ended:
		return 0, err
	}
	code = run(server.Addr())
	stop()
	return code, <-ended
}
