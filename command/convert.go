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

	"github.com/eventrelay/relay/pkg/stream"
)

// Directories in the data directory of dev that hold a log.
const (
	logDir        = "log"
	newLogDir     = "log.new" // a conversion that has not ended
	kafkaDir      = "kafka"   // of versions that ran an embedded Kafka
	convertedFile = "converted"
)

// convertLog turns the log of an embedded Kafka, which versions up to 0.1 had, into the log of this version. It copies
// all of it, switches by renaming the copy, and removes the old one. A conversion that was interrupted begins anew.
func convertLog(ctx context.Context, s settings, sockets string, log *slog.Logger) error {
	old, copied, to := filepath.Join(s.DataDir, kafkaDir), filepath.Join(s.DataDir, newLogDir),
		filepath.Join(s.DataDir, logDir)
	if !exists(old) {
		return nil
	}
	if exists(to) {
		// The mark is from before the switch. Without it an older version has made a log of its own since then.
		if !exists(filepath.Join(old, convertedFile)) {
			return fmt.Errorf("%s has two logs: an older version of relay ran after this one had converted it to %s. "+
				"Restore a copy of the data directory, or remove the directory %s, and with it what the older version accepted",
				s.DataDir, to, old)
		}
		return removeAll(old)
	}
	began := time.Now()
	log.Info("converting the log of an older version", "from", old, "to", to)
	if err := removeAll(copied); err != nil {
		return err
	}
	if err := copyKafka(ctx, s, old, copied, sockets, log); err != nil {
		return fmt.Errorf("convert the log in %s: %w", old, err)
	}
	if err := os.WriteFile(filepath.Join(old, convertedFile), nil, 0o600); err != nil {
		return fmt.Errorf("mark the old log: %w", err)
	}
	err := errors.Join(syncDir(old), os.Rename(copied, to), syncDir(s.DataDir))
	if err != nil {
		return fmt.Errorf("switch to the converted log: %w", err)
	}
	log.Info("converted the log of an older version", "took", time.Since(began))
	return removeAll(old)
}

// copyKafka copies the log of an embedded Kafka into a new directory.
func copyKafka(ctx context.Context, s settings, from, to, sockets string, log *slog.Logger) error {
	broker, err := newKafka(engineFlags{listen: "unix:" + filepath.Join(sockets, "kafka.sock"), data: from}, log)
	if err != nil {
		return err
	}
	embedded, err := stream.OpenLog(stream.LogConfig{Dir: to, Fsync: s.Fsync, Log: log})
	if err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(ctx)
	until, stop := context.WithCancel(context.WithoutCancel(ctx)) // the copy has ended
	running.Go(func() error { return broker.Run(until) })
	running.Go(func() error { return embedded.Run(until) })
	running.Go(func() error {
		defer stop()
		select {
		case <-broker.Ready():
		case <-ctx.Done():
			return ctx.Err()
		}
		return stream.CopyLog(ctx,
			stream.Config{Brokers: []string{broker.Addr()}, DialFunc: broker.DialContext, Prefix: s.TopicPrefix},
			stream.Config{Embedded: embedded, Prefix: s.TopicPrefix})
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

// syncDir writes a directory's entries to disk.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
