package claims

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// damaged is the suffix of a damaged file after it is renamed.
const damaged = ".damaged"

// errDamaged means that the file is not what was written.
var errDamaged = errors.New("the file is damaged")

// guarded turns a panic into errDamaged. bbolt checks no page: one that is damaged ends in a panic or, behind the end
// of a file that was cut, in a fault of memory.
func guarded(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	return do()
}

// view reads the file.
func (s *Store) view(read func(*bbolt.Tx) error) error {
	db := s.db.Load()
	if db == nil {
		return errDamaged
	}
	return guarded(func() error { return db.View(read) })
}

// update changes the file in one transaction. After a panic that stays open: to roll it back, bbolt would read all
// pages on another goroutine.
func update(db *bbolt.DB, change func(*bbolt.Tx) error) error {
	return guarded(func() error {
		tx, err := db.Begin(true)
		if err != nil {
			return err
		}
		if err := change(tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	})
}

// open opens the file, and creates it if there is none.
func (s *Store) open() error {
	db, err := s.openFile()
	if err != nil {
		return err
	}
	err = update(db, func(tx *bbolt.Tx) error {
		_, first := tx.CreateBucketIfNotExists(bucketClaims)
		_, second := tx.CreateBucketIfNotExists(bucketPending)
		return errors.Join(first, second)
	})
	if errors.Is(err, errDamaged) {
		return err
	}
	if err == nil { // the file may be new
		err = s.deps.SyncDir(filepath.Dir(s.cfg.Path))
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	s.db.Store(db)
	return nil
}

// openFile opens the file, or returns errDamaged.
func (s *Store) openFile() (db *bbolt.DB, err error) {
	var file *os.File
	options := bbolt.Options{Timeout: time.Second, NoSync: !s.cfg.Sync, FreelistType: bbolt.FreelistMapType,
		NoFreelistSync: true, PreLoadFreelist: true}
	options.OpenFile = func(name string, flag int, mode fs.FileMode) (_ *os.File, err error) {
		if file, err = os.OpenFile(name, flag, mode); err == nil {
			err = checkPages(file)
		}
		return file, err
	}
	err = guarded(func() (err error) {
		db, err = bbolt.Open(s.cfg.Path, 0o600, &options)
		return err
	})
	switch {
	case errors.Is(err, errDamaged):
		_ = file.Close() // ends the lock, too
	case errors.Is(err, bbolterrors.ErrInvalid), errors.Is(err, bbolterrors.ErrChecksum),
		errors.Is(err, bbolterrors.ErrVersionMismatch):
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return db, err
}

// startAnew renames a damaged file, and goes on with an empty one. What has the old one open is not closed:
// transactions that panicked have its locks.
func (s *Store) startAnew(cause error) error {
	s.deps.Log.LogAttrs(context.Background(), slog.LevelError, "the claims of events are damaged: renamed the "+
		"file and started an empty one; repeats within a day may be stored twice",
		slog.String("file", s.cfg.Path+damaged), slog.Any("error", cause))
	s.db.Store(nil)
	if err := os.Rename(s.cfg.Path, s.cfg.Path+damaged); err != nil {
		return err
	}
	return s.open()
}
