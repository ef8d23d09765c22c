// Package backup writes backups of a node that has its engines inside, while it runs, to a directory or a bucket, and
// restores them. backup.go is the part of the node, command.go the commands.
package backup

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/features/backup/archive"
	"github.com/eventrelay/relay/pkg/web"
)

// node is what writes the backups of a node.
type node struct {
	*features.Host
	running sync.Mutex // held by backUp
}

func newParts(h *features.Host) features.Parts {
	n := &node{Host: h}
	if h.Settings.BackUpStore != nil && !h.Settings.Dev {
		h.BackedUp = func() (time.Time, error) { return backedUp(h.Settings.DataDir) }
	}
	h.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "relay_last_backup_timestamp_seconds",
		Help: "Unix time at which the last successful relay backup began; NaN if there is none."}, func() float64 {
		t, err := backedUp(h.Settings.DataDir)
		if err != nil || t.IsZero() {
			return math.NaN()
		}
		return float64(t.Unix())
	}))
	return features.Parts{Steps: map[string]func(*http.Request, func(any)) error{"POST /backup": n.answer}}
}

// order asks for a backup.
type order struct {
	Dir      string `json:"dir"`      // absolute; new or empty
	Previous string `json:"previous"` // absolute, or "": copy all files
}

// Done is the answer.
type Done struct {
	Time   time.Time `json:"time"`
	Files  int       `json:"files"`
	Bytes  int64     `json:"bytes"`
	Copied int64     `json:"copied"` // bytes that the previous backup does not have
}

// answer is the handler of relay backup.
func (n *node) answer(r *http.Request, report func(any)) error {
	var ask order
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		return web.Invalid("", "the command could not be read: %v", err)
	}
	if !filepath.IsAbs(ask.Dir) {
		return web.Invalid("dir", "must be an absolute path")
	}
	if ask.Previous != "" && !filepath.IsAbs(ask.Previous) {
		return web.Invalid("previous", "must be an absolute path")
	}
	m, err := n.backUp(r.Context(), ask.Dir, ask.Previous)
	if err != nil { // the operator of this machine may see all of it
		return web.WrongState("", "no backup was written: %v", err)
	}
	report(Done{m.Time, len(m.Files), m.Bytes(), m.Copied})
	return nil
}

// errNotAlone refuses a backup of engines that are elsewhere.
var errNotAlone = errors.New("engines of this node run elsewhere; back them up there, as docs/operate/upgrade.md says")

// lastBackup is the file in the data directory with the time of the last backup that succeeded.
const lastBackup = "backup.last"

// record records a backup that succeeded, for relay doctor and the metrics.
func record(dataDir string, started time.Time) error {
	path := filepath.Join(dataDir, lastBackup)
	text, err := started.MarshalText()
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o600)
	}
	if err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// backedUp returns when the last backup began; zero: there is none.
func backedUp(dataDir string) (t time.Time, err error) {
	text, err := os.ReadFile(filepath.Join(dataDir, lastBackup))
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		err = t.UnmarshalText(text)
	}
	return t, err
}

// backUp writes a backup of the engines in this process, while they run, into a directory that is empty or does not
// exist. After an error it is empty. Files that the previous backup has too become hard links to it.
//
// The order keeps everything that was acknowledged before. The commits of consumer groups come first and the log last:
// what the writer stores meanwhile, it stores again after a restore, which changes nothing. Claims come before the log,
// so that no claim answers for an event that the log lacks.
func (n *node) backUp(ctx context.Context, dir, previous string) (m archive.Manifest, err error) {
	claims, inFile := n.Claims.(interface{ Copy(to io.Writer) error })
	if n.Settings.BackUpStore == nil || !inFile {
		return m, errNotAlone
	}
	if !n.running.TryLock() {
		return m, errors.New("another backup is being written; wait for its end")
	}
	defer n.running.Unlock()
	w, err := archive.Create(dir, previous, n.Settings.Version, n.Now())
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Abandon())
		}
	}()
	snapshot := n.Settings.EmbeddedLog.Snapshot()
	defer snapshot.Close()
	if err := n.Settings.BackUpStore(ctx, func(from string) error {
		parts := map[string]string{archive.Store: from}
		for _, name := range []string{archive.Counters, archive.Claims, archive.Log} {
			parts[name] = filepath.Join(n.Settings.DataDir, name)
		}
		if err := w.CheckRoom(parts); err != nil {
			return err
		}
		return w.AddTree(archive.Store, from)
	}); err != nil {
		return m, err
	}
	if err := w.AddTree(archive.Counters, filepath.Join(n.Settings.DataDir, archive.Counters)); err != nil {
		return m, err
	}
	if err := w.Add(archive.Claims, claims.Copy); err != nil {
		return m, err
	}
	if err := snapshot.Copy(func(name string, write func(io.Writer) error) error {
		return errors.Join(ctx.Err(), w.Add(filepath.Join(archive.Log, name), write))
	}); err != nil {
		return m, err
	}
	return w.Finish(n.Keyring)
}
