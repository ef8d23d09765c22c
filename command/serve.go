package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/backup"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/private"
)

// Files in the data directory.
const (
	lockFile       = "relay.lock"
	masterKeysFile = "master.keys"
	apiKeyFile     = "api.key" // of dev
	claimsFile     = backup.Claims
	countersFile   = backup.Counters
	storeDir       = "clickhouse"
	socketDir      = "run" // of the engines
	storeSocket    = "clickhouse.sock"
)

// alone sets what a node decides by itself that has its log in its own process: its name, and one replica.
func (s *settings) alone() {
	s.Replication, s.Embedded = 1, true
	name, format := "relay", logJSON
	if s.Dev {
		name, format = "dev", logText
	}
	s.NodeName, s.LogFormat = cmp.Or(s.NodeName, name), cmp.Or(s.LogFormat, format)
}

// runServe runs a node, and inside of it the engines that the settings name no address of. dev is the same with the
// defaults of development.
func runServe(ctx context.Context, s settings, log *slog.Logger, c call) error {
	unlock, err := s.openDataDir()
	if err != nil {
		return err
	}
	defer unlock()
	if exists(filepath.Join(s.DataDir, restoringFile)) {
		return fmt.Errorf("%s has part of a backup, because relay restore was interrupted: remove everything but %s in "+
			"it, and restore again", s.DataDir, masterKeysFile)
	}
	keyGiven := s.BootstrapKey != ""
	if err := s.createKeys(); err != nil {
		return err
	}
	st := node.NewStack(ctx, log)
	n, err := startNode(st, &s, log)
	if err != nil {
		return st.StopAfterFailedStart(err)
	}
	if s.Dev {
		fmt.Fprint(c.stdout, devBanner(st.Context(), n, &s, keyGiven, log))
	} else {
		fmt.Fprint(c.stdout, readyText(n.URL(), s.DataDir, n.HasKeys()))
	}
	if m := newSystemd(c.getenv, n.Rounds, log); m != nil {
		st.Start("systemd", m.Run)
	}
	return st.Wait()
}

// openDataDir creates the data directory, closes it to other users, and locks it.
func (s *settings) openDataDir() (unlock func(), err error) {
	if s.DataDir, err = filepath.Abs(s.DataDir); err != nil {
		return nil, fmt.Errorf("cannot resolve the data directory: %w", err)
	}
	if err := private.EnsureDir(s.DataDir, lockFile); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return private.LockDir(s.DataDir, lockFile)
}

// createKeys creates a master key, and for dev an API key, once, and keeps them in the data directory. Keys that are
// set win.
func (s *settings) createKeys() (err error) {
	if s.Embedded && s.MasterKeys == "" {
		s.MasterKeys, err = loadOrCreateSecret(filepath.Join(s.DataDir, masterKeysFile), func() string {
			return seal.GenerateKey("main")
		})
	}
	if err == nil && s.Dev && s.BootstrapKey == "" {
		s.BootstrapKey, err = loadOrCreateSecret(filepath.Join(s.DataDir, apiKeyFile), apikey.New)
	}
	return err
}

// startNode starts a node; before it the engines that it has of its own, with their topics and tables.
func startNode(st *node.Stack, s *settings, log *slog.Logger) (*node.Node, error) {
	registry := prometheus.NewRegistry()
	if s.logs != nil {
		registry.MustRegister(s.logs)
		st.Start("export of logs", s.logs.Run)
	}
	if s.Embedded {
		if err := startEngines(st, s, log, registry); err != nil {
			return nil, err
		}
		// The topics belong to this node alone, so it corrects settings that an older version left.
		if _, err := migrate(st.Context(), *s, true, false); err != nil {
			return nil, err
		}
	}
	return node.Start(st, s.Config, log, registry)
}

// readyText is what serve prints when it is ready. While there is no API key it says how to begin.
func readyText(url, dir string, hasKeys bool) string {
	text := fmt.Sprintf("EventRelay is ready at %s\n", url)
	if hasKeys {
		return text
	}
	return text + fmt.Sprintf(`
Create the first API key and the first user of the dashboard, on this machine and as the user of this process:

  relay keys create --data-dir %[1]s --name first --scope read_write
  relay users add you@example.com --data-dir %[1]s
`, dir)
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
