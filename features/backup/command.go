package backup

import (
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
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/features/backup/archive"
	"github.com/eventrelay/relay/features/backup/bucket"
	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/embedded/claims"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/stream"
)

// Feature registers this package.
var Feature = features.Feature{Name: "backup", New: newParts, Commands: []cli.Command{{
	Name: "backup", After: "doctor", Run: backupCommand,
	Help: "write a backup of a node that has its engines inside, while it runs",
}, {
	Name: "restore", After: "backup", Run: restoreCommand,
	Help: "restore a backup into an empty data directory",
}}}

// Names in the data directory of what uploads to a bucket need.
const (
	backupLock = "backup.lock"
	stagingDir = "backup.upload"
)

// backupCommand lets the running process write a backup, and uploads it if it goes to a bucket.
func backupCommand(ctx context.Context, c cli.Call) int {
	var asJSON bool
	return c.WithSettings(func(s cli.Settings, _ *slog.Logger) (err error) {
		if s.DataDir, err = filepath.Abs(s.DataDir); err != nil {
			return err
		}
		write := writeBackup
		if strings.HasPrefix(s.Argument, bucket.Scheme) {
			write = uploadBackup
		}
		done, err := write(ctx, s, c)
		if err != nil {
			return err
		}
		if err := record(s.DataDir, done.Time); err != nil {
			return fmt.Errorf("%s has a backup, but its time is not recorded: %w", s.Argument, err)
		}
		if asJSON {
			return json.NewEncoder(c.Stdout).Encode(done)
		}
		fmt.Fprintf(c.Stdout, "%s has %d files with %d bytes; %d bytes are new since the previous backup\nThe master keys "+
			"are not in the backup, and nothing can be restored without them: keep a copy of RELAY_MASTER_KEYS, or of %s, "+
			"elsewhere\n", s.Argument, done.Files, done.Bytes, done.Copied, filepath.Join(s.DataDir, nodeconfig.MasterKeysFile))
		return nil
	}, cli.JSON(&asJSON))
}

// writeBackup lets the running process write a backup into the directory of the argument.
func writeBackup(ctx context.Context, s cli.Settings, c cli.Call) (done Done, err error) {
	ask := order{Previous: s.Previous}
	if ask.Dir, err = filepath.Abs(s.Argument); err == nil && s.Previous != "" {
		ask.Previous, err = filepath.Abs(s.Previous)
	}
	if err != nil {
		return done, err
	}
	return done, c.Client(s.DataDir, false).CallWithProgress(ctx, "/backup", ask,
		func(line []byte) error { return json.Unmarshal(line, &done) })
}

// uploadBackup lets the running process write a backup into the data directory and moves it to the bucket of the
// argument. The process that takes requests from others needs no key of the bucket so.
func uploadBackup(ctx context.Context, s cli.Settings, c cli.Call) (done Done, err error) {
	to, err := bucket.Open(s.Argument, c.Getenv)
	if err != nil {
		return done, err
	}
	var previous *bucket.Bucket
	if s.Previous != "" {
		if !strings.HasPrefix(s.Previous, bucket.Scheme) {
			return done, fmt.Errorf("--previous %s must be in a bucket too", s.Previous)
		}
		if previous, err = bucket.Open(s.Previous, c.Getenv); err != nil {
			return done, err
		}
		if _, err := previous.Manifest(ctx); err != nil {
			return done, err
		}
	}
	if err := to.CheckEmpty(ctx); err != nil {
		return done, err
	}
	unlock, err := private.LockDir(s.DataDir, backupLock)
	if err != nil {
		return done, fmt.Errorf("cannot lock %s: another relay backup is uploading, or this user may not write there",
			filepath.Join(s.DataDir, backupLock))
	}
	defer unlock()
	s.Argument, s.Previous = filepath.Join(s.DataDir, stagingDir), ""
	if err := os.RemoveAll(s.Argument); err != nil { // of a command that was killed
		return done, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.Argument)) }()
	if done, err = writeBackup(ctx, s, c); err != nil {
		return done, err
	}
	done.Copied, err = to.Upload(ctx, s.Argument, previous)
	return done, err
}

func restoreCommand(ctx context.Context, c cli.Call) int {
	var anyone bool
	return c.WithSettings(func(s cli.Settings, log *slog.Logger) error {
		return runRestore(ctx, s, log, c, anyone)
	}, cli.Toggle{Flag: "unauthenticated",
		Help:  "take a backup of version 0.2 or earlier, whose manifest is not authenticated",
		Value: &anyone})
}

func restoreStore(ctx context.Context, s cli.Settings, log *slog.Logger) error {
	from, err := filepath.Abs(s.Argument)
	if err != nil {
		return err
	}
	return s.RestoreStore(ctx, s.Config, log, filepath.Join(from, archive.Store))
}

// runRestore restores a backup into an empty data directory, which is empty again after an error. With the address of
// Kafka the data directory is needed meanwhile, and what the backup has in its log goes to Kafka.
func runRestore(ctx context.Context, s cli.Settings, log *slog.Logger, c cli.Call, anyone bool) (err error) {
	m, fetch, err := openBackup(ctx, s, c.Getenv)
	if err != nil {
		return err
	}
	unlock, err := s.OpenDataDir()
	if err != nil {
		return err
	}
	defer unlock()
	others, err := restored(s.DataDir)
	if err != nil {
		return err
	}
	keys, cluster := filepath.Join(s.DataDir, nodeconfig.MasterKeysFile), len(s.KafkaBrokers) > 0
	if err := checkRestorable(s, others, keys); err != nil {
		return err
	}
	if err := authenticate(m, s.MasterKeys, keys, anyone); err != nil {
		return err
	}
	need := m.Bytes()
	if fetch != nil {
		need *= 2
	}
	if err := private.CheckRoom(s.DataDir, need); err != nil {
		return err
	}
	defer func() {
		if err == nil && !cluster {
			return
		}
		others, listErr := restored(s.DataDir)
		err = errors.Join(err, listErr)
		for _, name := range others {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.DataDir, name)))
		}
	}()
	marker := filepath.Join(s.DataDir, nodeconfig.RestoringFile)
	if err := private.WriteFile(marker, func(io.Writer) error { return nil }); err != nil {
		return err
	}
	if fetch != nil {
		s.Argument = filepath.Join(s.DataDir, stagingDir)
		if m, err = fetch(s.Argument); err == nil { // it may have been replaced in the bucket
			err = authenticate(m, s.MasterKeys, keys, anyone)
		}
		if err != nil {
			return err
		}
	}
	if !cluster {
		if err := restoreStore(ctx, s, log); err != nil {
			return fmt.Errorf("restore the store: %w", err)
		}
	}
	if err := restoreFiles(ctx, s, m); err != nil {
		return err
	}
	if cluster {
		return moveLog(ctx, s, log, m, c)
	}
	if err := os.RemoveAll(filepath.Join(s.DataDir, stagingDir)); err != nil {
		return err
	}
	if err := errors.Join(private.SyncDir(s.DataDir), os.Remove(marker)); err != nil {
		return err
	}
	fmt.Fprintf(c.Stdout, "%s has the backup of %s; start it with relay serve --data-dir %[1]s\n", s.DataDir,
		m.Time.Format("2006-01-02 15:04:05 MST"))
	return nil
}

// checkRestorable refuses a data directory with anything but the master keys, and one without them.
func checkRestorable(s cli.Settings, others []string, keys string) error {
	_, err := os.Lstat(keys)
	switch {
	case len(others) > 0:
		return fmt.Errorf("the data directory %s is not empty: it has %s; name a new one with --data-dir, or remove "+
			"everything but %s", s.DataDir, strings.Join(others, ", "), nodeconfig.MasterKeysFile)
	case len(s.KafkaBrokers) == 0 && s.MasterKeys == "" && errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the master keys of the backup are missing: set RELAY_MASTER_KEYS, or copy %s to %s",
			nodeconfig.MasterKeysFile, keys)
	}
	return nil
}

// authenticate checks who wrote a manifest, with the given master keys or else those of a file. It takes a manifest
// without a MAC, or any if there are no keys, only if anyone may have written it.
func authenticate(m archive.Manifest, spec, file string, anyone bool) error {
	if spec == "" {
		text, err := os.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist) && anyone: // into a cluster
			return nil
		case errors.Is(err, fs.ErrNotExist):
			return errors.New("without master keys the backup's manifest cannot be authenticated: set RELAY_MASTER_KEYS, or, " +
				"if only you can write where the backup is, add --unauthenticated")
		case err != nil:
			return err
		}
		spec = strings.TrimSpace(string(text))
	}
	keyring, err := seal.NewKeyring(spec)
	if err != nil {
		return fmt.Errorf("master keys: %w", err)
	}
	err = m.Authenticate(keyring)
	switch {
	case errors.Is(err, archive.ErrNoMAC) && anyone:
		return nil
	case errors.Is(err, archive.ErrNoMAC):
		return fmt.Errorf("%w: if version 0.2 or earlier wrote it, and only you can write where it is, add --unauthenticated",
			err)
	}
	return err
}

// restoreFiles copies everything but the store into the data directory.
func restoreFiles(ctx context.Context, s cli.Settings, m archive.Manifest) error {
	for _, f := range m.Files {
		if strings.HasPrefix(f.Path, archive.Store+"/") {
			continue
		}
		if err := errors.Join(ctx.Err(), archive.Restore(f, s.Argument, s.DataDir)); err != nil {
			return err
		}
	}
	return nil
}

// moveLog copies the log in the data directory to Kafka.
func moveLog(ctx context.Context, s cli.Settings, log *slog.Logger, m archive.Manifest, c cli.Call) error {
	embedded, err := stream.OpenLog(stream.LogConfig{Dir: filepath.Join(s.DataDir, nodeconfig.LogDir), Log: log})
	if err != nil {
		return fmt.Errorf("copy the log to Kafka: %w", err)
	}
	to, from := s.Stream(), s.Stream()
	from.Embedded = embedded
	running, copying := errgroup.WithContext(ctx)
	until, stop := context.WithCancel(context.WithoutCancel(ctx)) // the copy has ended
	running.Go(func() error { return embedded.Run(until) })
	running.Go(func() error {
		defer stop()
		return stream.CopyToKafka(copying, from, to)
	})
	if err := running.Wait(); err != nil {
		return fmt.Errorf("copy the log to Kafka: %w", err)
	}
	if err := moveClaims(ctx, s, log); err != nil {
		return fmt.Errorf("copy the claims to Redis: %w", err)
	}
	fmt.Fprintf(c.Stdout, "Kafka has the log of the backup of %s: what waits for its delivery, and what was delivered. "+
		"Restore the store and the configuration before a node starts that dispatches (docs/operate/one-machine.md)\n",
		m.Time.Format("2006-01-02 15:04:05 MST"))
	return nil
}

// claimsAtOnce bounds the claims of one request to Redis.
const claimsAtOnce = 1000

// moveClaims copies the claims in the data directory to Redis, if there is one.
func moveClaims(ctx context.Context, s cli.Settings, log *slog.Logger) error {
	if s.RedisURL == "" {
		log.Warn("RELAY_REDIS_URL is not set: events that are sent again may be delivered twice")
		return nil
	}
	limiter, err := limit.New(s.Limit(), limit.Deps{Log: log, Metrics: prometheus.NewRegistry(), Now: time.Now})
	if err != nil {
		return err
	}
	store, err := claims.Open(claims.Config{Path: filepath.Join(s.DataDir, nodeconfig.ClaimsFile)},
		claims.Deps{Log: log, Now: time.Now, SyncDir: private.SyncDir})
	if err != nil {
		return err
	}
	defer store.Close()
	var some []claim.Kept
	err = store.Each(func(c claim.Kept) error {
		if some = append(some, c); len(some) < claimsAtOnce {
			return nil
		}
		defer func() { some = some[:0] }()
		return limiter.MoveClaims(ctx, some)
	})
	if err != nil || len(some) == 0 {
		return err
	}
	return limiter.MoveClaims(ctx, some)
}

// openBackup checks the backup of the argument. One in a bucket has to be fetched into a directory first.
func openBackup(ctx context.Context, s cli.Settings, getenv func(string) string) (
	m archive.Manifest, fetch func(dir string) (archive.Manifest, error), err error) {
	if !strings.HasPrefix(s.Argument, bucket.Scheme) {
		m, err = archive.Verify(s.Argument)
		return m, nil, err
	}
	from, err := bucket.Open(s.Argument, getenv)
	if err != nil {
		return m, nil, err
	}
	m, err = from.Manifest(ctx)
	return m, func(dir string) (archive.Manifest, error) {
		if err := from.Download(ctx, dir); err != nil {
			return m, err
		}
		return archive.Verify(dir)
	}, err
}

// restored lists what a restore has written, or would overwrite.
func restored(dataDir string) (names []string, err error) {
	entries, err := os.ReadDir(dataDir)
	for _, e := range entries {
		if !slices.Contains([]string{nodeconfig.MasterKeysFile, nodeconfig.LockFile}, e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}
