package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/pkg/backup"
	"github.com/eventrelay/relay/pkg/embedded/clickhouse"
)

// restoringFile marks a data directory whose restore is incomplete: no node starts on it.
const restoringFile = "restore.incomplete"

// databaseName is the database of the embedded store.
const databaseName = "relay"

// backupCommand lets the running process write a backup.
func backupCommand(ctx context.Context, c call) int {
	var asJSON bool
	return withSettings(func(ctx context.Context, c call, s settings, _ *slog.Logger) error {
		dir, err := filepath.Abs(s.argument)
		previous := s.previous
		if err == nil && previous != "" {
			previous, err = filepath.Abs(previous)
		}
		if err != nil {
			return err
		}
		return newClient(s.DataDir, asJSON, c).callWithProgress(ctx, "/backup", admin.BackUp{Dir: dir, Previous: previous},
			func(line []byte) error {
				var done admin.BackupDone
				if err := json.Unmarshal(line, &done); err != nil {
					return err
				}
				fmt.Fprintf(c.stdout, "%s has %d files with %d bytes; %d bytes are new since the previous backup\nThe master "+
					"keys are not in the backup, and nothing can be restored without them: keep a copy of RELAY_MASTER_KEYS, or "+
					"of %s, elsewhere\n", dir, done.Files, done.Bytes, done.Copied, filepath.Join(s.DataDir, masterKeysFile))
				return nil
			})
	}, jsonToggle(&asJSON))(ctx, c)
}

// runRestore restores a backup into an empty data directory, which is empty again after an error.
func runRestore(ctx context.Context, s settings, log *slog.Logger, stdout io.Writer) (err error) {
	m, err := backup.Verify(s.argument)
	if err != nil {
		return err
	}
	unlock, err := s.openDataDir()
	if err != nil {
		return err
	}
	defer unlock()
	others, err := s.restored()
	if err != nil {
		return err
	}
	keys := filepath.Join(s.DataDir, masterKeysFile)
	switch {
	case len(others) > 0:
		return fmt.Errorf("the data directory %s is not empty: it has %s; name a new one with --data-dir, or remove "+
			"everything but %s", s.DataDir, strings.Join(others, ", "), masterKeysFile)
	case s.MasterKeys == "" && !exists(keys):
		return fmt.Errorf("the master keys of the backup are missing: set RELAY_MASTER_KEYS, or copy %s to %s",
			masterKeysFile, keys)
	}
	defer func() {
		if err == nil {
			return
		}
		others, listErr := s.restored()
		err = errors.Join(err, listErr)
		for _, name := range others {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.DataDir, name)))
		}
	}()
	marker := filepath.Join(s.DataDir, restoringFile)
	if err := backup.WriteFile(marker, func(io.Writer) error { return nil }); err != nil {
		return err
	}
	if err := restoreStore(ctx, s, log); err != nil {
		return fmt.Errorf("restore the store: %w", err)
	}
	for _, f := range m.Files {
		if strings.HasPrefix(f.Path, backup.Store+"/") {
			continue
		}
		if err := errors.Join(ctx.Err(), backup.Restore(f, s.argument, s.DataDir)); err != nil {
			return err
		}
	}
	if err := errors.Join(backup.SyncDir(s.DataDir), os.Remove(marker)); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s has the backup of %s; start it with relay serve --data-dir %[1]s\n", s.DataDir,
		m.Time.Format("2006-01-02 15:04:05 MST"))
	return nil
}

// restored lists what a restore has written, or would overwrite.
func (s *settings) restored() (names []string, err error) {
	entries, err := os.ReadDir(s.DataDir)
	for _, e := range entries {
		if !slices.Contains([]string{masterKeysFile, lockFile}, e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// restoreStore restores the tables of a backup with the embedded ClickHouse.
func restoreStore(ctx context.Context, s settings, log *slog.Logger) error {
	from, err := filepath.Abs(s.argument)
	if err != nil {
		return err
	}
	st := node.NewStack(ctx, log)
	child, err := startStore(st, &s, from, log)
	if err == nil {
		err = child.Exec(st.Context(), "RESTORE DATABASE "+databaseName+" FROM Disk('backups', '"+backup.Store+"')")
	}
	if err == nil && clickhouse.SyncSupported {
		err = child.Sync()
	}
	return errors.Join(err, st.Stop())
}
