package node

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/eventrelay/relay/pkg/backup"
	"github.com/eventrelay/relay/pkg/nodeconfig"
)

// errNotAlone refuses a backup of engines that are elsewhere.
var errNotAlone = errors.New("engines of this node run elsewhere; back them up there, as docs/operate/upgrade.md says")

// lastBackup is the file in the data directory with the time of the last backup that succeeded.
const lastBackup = "backup.last"

// RecordBackup records a backup that succeeded, for relay doctor and the metrics.
func RecordBackup(dataDir string, started time.Time) error {
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
func backedUp(s nodeconfig.Config) (t time.Time, err error) {
	text, err := os.ReadFile(filepath.Join(s.DataDir, lastBackup))
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		err = t.UnmarshalText(text)
	}
	return t, err
}

// backup writes a backup of the engines in this process, while they run, into a directory that is empty or does not
// exist. After an error it is empty. Files that the previous backup has too become hard links to it.
//
// The order keeps everything that was acknowledged before. The commits of consumer groups come first and the log last:
// what the writer stores meanwhile, it stores again after a restore, which changes nothing. Claims come before the log,
// so that no claim answers for an event that the log lacks.
func (n *Node) backup(ctx context.Context, dir, previous string) (m backup.Manifest, err error) {
	claims, inFile := n.claims.(interface{ Copy(to io.Writer) error })
	if n.settings.BackUpStore == nil || !inFile {
		return m, errNotAlone
	}
	if !n.backingUp.TryLock() {
		return m, errors.New("another backup is being written; wait for its end")
	}
	defer n.backingUp.Unlock()
	w, err := backup.Create(dir, previous, n.settings.Version, n.Now())
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Abandon())
		}
	}()
	snapshot := n.settings.EmbeddedLog.Snapshot()
	defer snapshot.Close()
	if err := n.settings.BackUpStore(ctx, func(from string) error {
		parts := map[string]string{backup.Store: from}
		for _, name := range []string{backup.Counters, backup.Claims, backup.Log} {
			parts[name] = filepath.Join(n.settings.DataDir, name)
		}
		if err := w.CheckRoom(parts); err != nil {
			return err
		}
		return w.AddTree(backup.Store, from)
	}); err != nil {
		return m, err
	}
	if err := w.AddTree(backup.Counters, filepath.Join(n.settings.DataDir, backup.Counters)); err != nil {
		return m, err
	}
	if err := w.Add(backup.Claims, claims.Copy); err != nil {
		return m, err
	}
	if err := snapshot.Copy(func(name string, write func(io.Writer) error) error {
		return errors.Join(ctx.Err(), w.Add(filepath.Join(backup.Log, name), write))
	}); err != nil {
		return m, err
	}
	return w.Finish(n.Keyring)
}
