package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/stream"
)

// Directories in the data directory of dev that hold a log.
const (
	newLogDir = "log.new"   // a copy; all of it if oldKafka exists
	oldKafka  = "kafka.old" // one that was copied
)

// convertLog turns the log of an embedded Kafka, which versions up to 0.1 had, into the log of this version. It copies
// all of it, takes the old one away, renames the copy, and removes the old one. A conversion that was interrupted
// before the copy was whole begins anew. Older versions know KafkaDir only: one that is started later makes an empty
// log there, and nothing that it accepts is removed.
func convertLog(ctx context.Context, s settings, log *slog.Logger) error {
	in := func(name string) string { return filepath.Join(s.DataDir, name) }
	if exists(in(oldKafka)) { // interrupted
		if err := switchLog(s.DataDir); err != nil {
			return err
		}
	}
	if !exists(in(nodeconfig.KafkaDir)) {
		return nil
	}
	if exists(in(nodeconfig.LogDir)) {
		return fmt.Errorf("%s has two logs: an older version of relay ran after this one had converted its log to %s. "+
			"Restore a copy of the data directory, or remove the directory %s, and with it what the older version accepted",
			s.DataDir, in(nodeconfig.LogDir), in(nodeconfig.KafkaDir))
	}
	began := time.Now()
	log.Info("converting the log of an older version", "from", in(nodeconfig.KafkaDir), "to", in(nodeconfig.LogDir))
	if err := removeAll(in(newLogDir)); err != nil {
		return err
	}
	if err := copyKafka(ctx, s, in(nodeconfig.KafkaDir), in(newLogDir), log); err != nil {
		return fmt.Errorf("convert the log in %s: %w", in(nodeconfig.KafkaDir), err)
	}
	if err := errors.Join(os.Rename(in(nodeconfig.KafkaDir), in(oldKafka)), private.SyncDir(s.DataDir)); err != nil {
		return fmt.Errorf("take the old log away: %w", err)
	}
	if err := switchLog(s.DataDir); err != nil {
		return err
	}
	log.Info("converted the log of an older version", "took", time.Since(began))
	return nil
}

// switchLog makes the copy the log, unless it is, and removes what it was copied from.
func switchLog(dir string) error {
	to := filepath.Join(dir, nodeconfig.LogDir)
	if !exists(to) {
		if err := errors.Join(os.Rename(filepath.Join(dir, newLogDir), to), private.SyncDir(dir)); err != nil {
			return fmt.Errorf("switch to the converted log: %w", err)
		}
	}
	return removeAll(filepath.Join(dir, oldKafka))
}

// copyKafka copies the log of an embedded Kafka into a new directory.
func copyKafka(ctx context.Context, s settings, from, to string, log *slog.Logger) error {
	embedded, err := stream.OpenLog(stream.LogConfig{Dir: to, Fsync: s.Fsync, Log: log})
	if err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(ctx)
	until, stop := context.WithCancel(context.WithoutCancel(ctx)) // the copy has ended
	running.Go(func() error { return embedded.Run(until) })
	running.Go(func() error {
		defer stop()
		return stream.CopyKafka(ctx, from, embedded)
	})
	return running.Wait()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func removeAll(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove an old log: %w", err)
	}
	return nil
}
