package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/segment"
)

// apiKeyFile is the file in the data directory of dev with its API key.
const apiKeyFile = "api.key"

// runServe runs a node, and inside of it the engines that the settings name no address of. dev is the same with the
// defaults of development.
func runServe(ctx context.Context, c cli.Call, s settings, log *slog.Logger) error {
	unlock, err := s.OpenDataDir()
	if err != nil {
		return err
	}
	defer unlock()
	if exists(filepath.Join(s.DataDir, nodeconfig.RestoringFile)) {
		return fmt.Errorf("%s has part of a backup, because relay restore was interrupted: remove everything but %s in "+
			"it, and restore again", s.DataDir, nodeconfig.MasterKeysFile)
	}
	if err := s.checkNothingIsLost(); err != nil {
		return err
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
		fmt.Fprint(c.Stdout, devBanner(st.Context(), n, &s, keyGiven, log))
	} else {
		fmt.Fprint(c.Stdout, readyText(n.URL(), s.DataDir, n.HasKeys()))
	}
	if m := newSystemd(c.Getenv, n.Rounds, log); m != nil {
		st.Start("systemd", m.Run)
	}
	return st.Wait()
}

// checkNothingIsLost refuses a data directory without its master key or its log: a start would make a new key beside
// secrets that it does not open, or a relay without configuration that answers providers 404.
func (s *settings) checkNothingIsLost() error {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return exists(filepath.Join(s.DataDir, name)) })
	}
	// A start makes store and claims after key and log. The directory of the store itself may be where a disk is mounted.
	stored, kafka := has(filepath.Join(storeDir, "db"), nodeconfig.ClaimsFile), has(nodeconfig.KafkaDir, oldKafka)
	logged := has(filepath.Join(nodeconfig.LogDir, segment.StateFile))
	switch {
	case !s.Embedded:
	case s.MasterKeys == "" && (stored || kafka || logged) && !has(nodeconfig.MasterKeysFile):
		return fmt.Errorf("%s has data, but not its master key: put the copy of %s back, or set RELAY_MASTER_KEYS to it. "+
			"Nothing else opens the secrets of the configuration", s.DataDir, nodeconfig.MasterKeysFile)
	case stored && !kafka && !logged && !s.AllowEmpty:
		return fmt.Errorf("%s has no log, which holds the configuration and what waits to be delivered, though other data "+
			"is there: mount it, or restore a backup (docs/operate/upgrade.md). If it is lost for good, set "+
			"RELAY_ALLOW_EMPTY_CONFIGURATION=true for this start, and run relay config import", s.DataDir)
	}
	return nil
}

// createKeys creates a master key, and for dev an API key, once, and keeps them in the data directory. Keys that are
// set win.
func (s *settings) createKeys() (err error) {
	if s.Embedded && s.MasterKeys == "" {
		s.MasterKeys, err = loadOrCreateSecret(filepath.Join(s.DataDir, nodeconfig.MasterKeysFile), func() string {
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
		return "", fmt.Errorf("%s is empty: put its copy back; while nothing is stored, remove it, and a new secret is "+
			"created", path)
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
	err = errors.Join(werr, f.Sync(), f.Close(), os.Rename(tmp, path), private.SyncDir(filepath.Dir(path)))
	if err != nil {
		return "", fmt.Errorf("write secret: %w", err)
	}
	return text, nil
}

// devBanner is what dev prints when it is ready, with a link that signs the first user in. It shows the API key unless
// it was given: then it is a secret of somebody's environment.
func devBanner(ctx context.Context, n *node.Node, s *settings, keyGiven bool, log *slog.Logger) string {
	link, isSignIn, err := n.DashboardLink(ctx)
	if err != nil { // everything else works without the dashboard
		log.LogAttrs(ctx, slog.LevelWarn, "nobody can sign in to the dashboard yet; relay users add prints a link",
			slog.Any("error", err))
	}
	key, line := keyLine(s.BootstrapKey, keyGiven, n.AcceptsBootstrapKey())
	return banner(n.URL(), key, line, dashboardLine(link, isSignIn), n.TryDestination())
}

// dashboardLine is the part of the banner that says where the dashboard is; empty without a link.
func dashboardLine(link string, isSignIn bool) string {
	switch {
	case link == "":
		return ""
	case isSignIn:
		return fmt.Sprintf("Dashboard, as %s, once within 10 minutes: %s\n"+
			"Show me, on its first page, starts a sample shop.\n", node.FirstUser, link)
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
func banner(url, key, keyLine, dashboard, destination string) string {
	return fmt.Sprintf(`
EventRelay is ready at %[1]s

%[4]s
%[3]s
Try it: create an endpoint, post an event to it, and see it delivered inside this relay.

  AUTH="Authorization: Bearer %[2]s" JSON='Content-Type: application/json'
  EP=$(curl -sS %[1]s/v1/endpoints -H "$AUTH" -H "$JSON" \
    -d '{"name":"first","destinations":[%[5]s]}')
  IN=$(printf '%%s' "$EP" | sed -n 's/.*"ingest_url":"\([^"]*\)".*/\1/p')
  curl -sS "$IN" -H "$JSON" -d '{"type":"order.paid","amount":4200}'; echo; sleep 1
  curl -sS "%[1]s/v1/events?limit=1" -H "$AUTH" | sed -n \
    's#.*"id":"\(evt_[0-9a-z]*\)".*"type":"\([^"]*\)","status":"\([a-z]*\)".*#\3: \2\nlook at it: %[1]s/app/events/\1#p'

Ctrl-C stops it. The data stays.
`, url, key, dashboard, keyLine, destination)
}
