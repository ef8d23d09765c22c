// Package upgrade says what the first start of this version would do with the data directory of a running node.
package upgrade

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/schema"
)

// Feature registers the subcommand.
var Feature = features.Feature{Name: "upgrade", Commands: []cli.Command{{
	Name: "upgrade", After: "restore", Run: upgradeCommand,
	Help: "with --check: say what this version would do with the data directory of a running node",
}}}

// upgradeCheck is what the first start of this version would do with a data directory.
type upgradeCheck struct {
	Version string   `json:"version"` // of this program
	Running string   `json:"running"` // of the node that runs on the data directory; "" if unknown
	Tables  []string `json:"tables"`  // migrations that would run
	Level   int      `json:"level"`   // of the configuration log; 0: it is empty
	Newest  int      `json:"newest"`  // highest level that this version knows
	Convert bool     `json:"convert"` // the log of version 0.1 would be converted
}

func upgradeCommand(ctx context.Context, c cli.Call) int {
	var check, asJSON bool
	return c.WithSettings(func(s cli.Settings, _ *slog.Logger) error {
		if !check {
			return cli.UsageError{Err: errors.New("relay upgrade --check says what this version would do with the " +
				"data directory; to upgrade, replace the program and restart the node")}
		}
		u, err := checkUpgrade(ctx, s.Config)
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(c.Stdout).Encode(u)
		}
		u.print(c.Stdout)
		return nil
	}, cli.Toggle{Flag: "check",
		Help: "say what the first start would do with the data directory of a running node, and change " +
			"nothing",
		Value: &check}, cli.JSON(&asJSON))
}

// checkUpgrade asks the store of the running node, and reads copies of the other files.
func checkUpgrade(ctx context.Context, s nodeconfig.Config) (u upgradeCheck, err error) {
	if s.DataDir, err = filepath.Abs(s.DataDir); err != nil {
		return u, err
	}
	kafka := filepath.Join(s.DataDir, nodeconfig.KafkaDir)
	u = upgradeCheck{Version: s.Version, Convert: exists(kafka), Tables: []string{}}
	if u.Convert {
		if err := private.CheckCopyRoom(s.DataDir, kafka); err != nil {
			return u, fmt.Errorf("the log of version 0.1 cannot be converted: %w", err)
		}
		return u, nil
	}
	const startOld = "start the old version there, wait until it is ready, and check again"
	inside := s.ClickHouseURL == ""
	if inside {
		if !exists(s.StoreSocket()) {
			return u, fmt.Errorf("no relay runs on %s: %s", s.DataDir, startOld)
		}
		s.ClickHouseURL = s.StoreURL()
	}
	ran, err := schema.Migrate(ctx, schema.Config{URL: s.ClickHouseURL, RetentionDays: s.RetentionDays,
		Cluster: s.ClickHouseCluster, SearchIndex: s.SearchIndex, Program: s.Version, Check: true})
	if err != nil && inside { // it may have been killed
		return u, fmt.Errorf("no relay answers on %s: %s: %w", s.DataDir, startOld, err)
	}
	if err != nil {
		return u, err
	}
	u.Tables = append(u.Tables, ran.Ran...)
	return u, u.readLog(ctx, s)
}

// readLog reads the configuration log in a copy: the node that runs has locked its own.
func (u *upgradeCheck) readLog(ctx context.Context, s nodeconfig.Config) (err error) {
	dir, err := os.MkdirTemp("", "relay-upgrade-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := copyConfigurationLog(filepath.Join(s.DataDir, nodeconfig.LogDir), dir, s.TopicPrefix); err != nil {
		return err
	}
	// The copy lacks the other topics, and what the node has written meanwhile.
	quiet := slog.New(slog.DiscardHandler)
	embedded, err := stream.OpenLog(stream.LogConfig{Dir: dir, SkipMissing: true, Log: quiet})
	if err != nil {
		return fmt.Errorf("this version cannot read the log: %w", err)
	}
	s.EmbeddedLog = embedded
	running, reading := errgroup.WithContext(ctx)
	until, stop := context.WithCancel(context.WithoutCancel(ctx)) // it is read
	running.Go(func() error { return embedded.Run(until) })
	running.Go(func() error {
		defer stop()
		control, _, err := s.Inspect(reading)
		if err != nil {
			return err
		}
		defer control.Close()
		u.Level, u.Newest = control.Level()
		for _, n := range control.Nodes() {
			u.Running = n.Version
		}
		return nil
	})
	return running.Wait()
}

// copyConfigurationLog copies the topics of the configuration. The state of the log comes first: the copy has no
// partition that it does not name, and no end before the one that it records.
func copyConfigurationLog(from, to, prefix string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	names := []string{stream.LogStateFile}
	for _, e := range entries {
		for _, topic := range stream.AuthenticatedTopics() {
			if strings.HasPrefix(e.Name(), prefix+topic+"-") {
				names = append(names, e.Name())
			}
		}
	}
	for _, name := range names {
		err := private.WriteFile(filepath.Join(to, name), func(w io.Writer) error {
			f, err := os.Open(filepath.Join(from, name))
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(w, f)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (u upgradeCheck) print(w io.Writer) {
	fmt.Fprintf(w, "version %s runs; the first start of %s would:\n", cmp.Or(u.Running, "unknown"), u.Version)
	var would []string
	if u.Convert {
		would = append(would, "convert the log of version 0.1, for which there is room")
	}
	for _, name := range slices.Sorted(slices.Values(u.Tables)) {
		would = append(would, "change the tables: "+name)
	}
	if u.Level > 0 && u.Level < u.Newest {
		would = append(would, fmt.Sprintf("read the configuration log at level %d, of %d that it knows", u.Level, u.Newest))
	}
	if len(would) == 0 {
		would = append(would, "change nothing: the older version can be started again")
	}
	for _, text := range would {
		fmt.Fprintf(w, "- %s\n", text)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
