// Package claims is the claim.Store of a node without Redis. It keeps claims (of deduplication and Idempotency-Keys) in
// a file, so that they survive a restart, SIGKILL and a power cut.
//
// The file is a bbolt database. Its memory is the system's page cache, however many claims there are. Concurrent calls
// share one transaction, which is on disk before they return. Begin reading at Store.commit.
package claims

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/id"
)

// The buckets: claims by the hash of their key, and the hashes of those whose event is not stored yet.
var bucketClaims, bucketPending = []byte("claims.sha256"), []byte("pending.sha256")

const (
	// maxShared bounds the calls of one transaction.
	maxShared = 1024
	// A transaction looks at the next leastSwept claims, or sweptPerCall for each of its calls, and removes the
	// expired ones. An event makes two calls, so a sixteenth more claims are kept than are valid.
	leastSwept, sweptPerCall = 64, 8
	// maxNote bounds the note of a claim in bytes.
	maxNote = 128
	// maxUnreleased bounds the claims that could not be released, 100 bytes each. Others are taken over later.
	maxUnreleased = 10_000
	// longest is the longest window of a claim.
	longest = 24 * time.Hour
)

// Config is the configuration of a Store.
type Config struct {
	Path string // of the file
	// Sync: a claim is on disk when Claim returns. Without it, a power cut loses the last seconds.
	Sync bool
}

// Deps are the dependencies of a Store.
type Deps struct {
	Log *slog.Logger
	Now func() time.Time
	// SyncDir writes the names of a directory's files to disk.
	SyncDir func(path string) error
}

// Store is a claim.Store. It owns its file: a second process that opens it waits and then fails.
type Store struct {
	cfg   Config
	deps  Deps
	db    atomic.Pointer[bbolt.DB] // another one after a damage
	calls chan *call
	ended chan struct{} // closed when Run has returned
	swept hash          // where commit looks next for expired claims

	mu sync.Mutex // guards unreleased
	// unreleased are the events of claims that could not be released, as on a full disk. Such a claim counts as free.
	unreleased map[hash]id.ID
}

// hash is a key: its SHA-256, which is the key of a claim in Redis too.
type hash [sha256.Size]byte

func hashOf(key string) hash { return sha256.Sum256([]byte(key)) }

// errEnded means that the node stops.
var errEnded = errors.New("the claims are closed")

// call is one change, and its result.
type call struct {
	hash   hash
	change func(found entry, exists bool) (next entry, write bool)
	done   chan error // capacity 1
}

// entry is a claim in the file: the time at which it expires in Unix milliseconds (8 bytes, big-endian), a byte (0: the
// event is being stored, 1: it is stored, 2: the process that was storing it ended), the event (16 bytes), the note.
type entry struct {
	expires  time.Time
	stored   bool
	orphaned bool
	event    id.ID
	note     string
}

const fixedBytes = 8 + 1 + len(id.ID{})

func (e entry) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(e.expires.UnixMilli()))
	state := byte(0)
	switch {
	case e.stored:
		state = 1
	case e.orphaned:
		state = 2
	}
	return append(append(append(b, state), e.event[:]...), e.note...)
}

func decode(b []byte) (e entry, ok bool) {
	if len(b) < fixedBytes {
		return e, false
	}
	return entry{expires: time.UnixMilli(int64(binary.BigEndian.Uint64(b))), stored: b[8] == 1,
		orphaned: b[8] == 2, event: id.ID(b[9:fixedBytes]), note: string(b[fixedBytes:])}, true
}

// Open opens or creates the file. It starts nothing; Close it after Run has returned. A damaged file is renamed:
// repeated events may then be delivered twice, but a node that does not start accepts no events.
func Open(cfg Config, deps Deps) (*Store, error) {
	s := &Store{cfg: cfg, deps: deps, calls: make(chan *call, maxShared), ended: make(chan struct{}),
		unreleased: make(map[hash]id.ID)}
	err := s.open()
	if errors.Is(err, errDamaged) {
		err = s.startAnew(err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the claims of events, %s: %w", cfg.Path, err)
	}
	return s, nil
}

// Copy writes a snapshot of the file.
func (s *Store) Copy(to io.Writer) error {
	return s.view(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(to)
		return err
	})
}

// Each calls each for all claims whose events are stored, until it fails.
func (s *Store) Each(each func(claim.Kept) error) error {
	now := s.deps.Now()
	return s.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketClaims).ForEach(func(k, v []byte) error {
			e, ok := decode(v)
			if !ok || !e.stored || !now.Before(e.expires) {
				return nil
			}
			return each(claim.Kept{Hash: hash(k), Event: e.event, Note: e.note, Left: e.expires.Sub(now)})
		})
	})
}

// Close closes the file.
func (s *Store) Close() error {
	if db := s.db.Load(); db != nil {
		return db.Close()
	}
	return nil
}

// Recover marks the claims as stored that an earlier process left pending because it crashed between storing the event
// and MarkStored. isStored reports whether the event is stored. Call it once, before Run and before the first event.
// All others stay pending: a destination may have got an event before a power cut took it from the log, so a repeat has
// to store it under the same id. They are orphaned, so that it need not wait.
func (s *Store) Recover(ctx context.Context, isStored func(ctx context.Context, event id.ID) (bool, error)) error {
	pending := make(map[hash]entry)
	now := s.deps.Now()
	err := s.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketPending).ForEach(func(k, _ []byte) error {
			if e, ok := decode(tx.Bucket(bucketClaims).Get(k)); ok {
				pending[hash(k)] = e
			}
			return nil
		})
	})
	if err != nil || len(pending) == 0 {
		return err
	}
	var failed error
	for key, e := range pending {
		stored, err := isStored(ctx, e.event)
		switch {
		case err != nil:
			failed = err
		case stored:
			e.stored, e.expires = true, now.Add(longest)
		case e.note == claim.TakeOverNote:
			e.expires = now
		default:
			e.orphaned = true
		}
		pending[key] = e
	}
	return errors.Join(failed, update(s.db.Load(), func(tx *bbolt.Tx) error {
		for key, e := range pending {
			if err := put(tx, key, e, now); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Run writes claims until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	defer close(s.ended)
	for {
		select {
		case <-ctx.Done():
			return nil
		case first := <-s.calls:
			shared := []*call{first}
			for len(shared) < maxShared && len(s.calls) > 0 {
				shared = append(shared, <-s.calls)
			}
			err := s.write(shared)
			if err != nil {
				s.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot write the claims of events: repeated events may be delivered "+
					"twice", slog.Any("error", err))
			}
			for _, c := range shared {
				c.done <- err
			}
		}
	}
}

// write commits changes, into a new file if that one is damaged.
func (s *Store) write(calls []*call) error {
	if s.db.Load() == nil { // the last damage could not be set aside, as on a full disk
		err := s.open()
		if errors.Is(err, errDamaged) {
			err = s.startAnew(err)
		}
		if err != nil {
			return err
		}
	}
	err := s.commit(calls)
	if errors.Is(err, errDamaged) {
		if err = s.startAnew(err); err == nil {
			err = s.commit(calls)
		}
	}
	return err
}

// commit makes all changes in one transaction, and removes some of what has expired.
func (s *Store) commit(calls []*call) error {
	now := s.deps.Now()
	return update(s.db.Load(), func(tx *bbolt.Tx) error {
		claims := tx.Bucket(bucketClaims)
		for _, c := range calls {
			found, exists := decode(claims.Get(c.hash[:]))
			exists = exists && now.Before(found.expires)
			if next, write := c.change(found, exists); write {
				next.note = next.note[:min(len(next.note), maxNote)]
				if err := put(tx, c.hash, next, now); err != nil {
					return err
				}
			}
		}
		return s.sweep(tx, now, max(leastSwept, sweptPerCall*len(calls)))
	})
}

// put writes a claim, or removes one that has expired.
func put(tx *bbolt.Tx, key hash, e entry, now time.Time) error {
	claims, pending := tx.Bucket(bucketClaims), tx.Bucket(bucketPending)
	switch {
	case !now.Before(e.expires):
		return errors.Join(claims.Delete(key[:]), pending.Delete(key[:]))
	case e.stored:
		return errors.Join(claims.Put(key[:], e.encode()), pending.Delete(key[:]))
	default:
		return errors.Join(claims.Put(key[:], e.encode()), pending.Put(key[:], nil))
	}
}

// sweep looks at the next n claims, in the order of their hashes, and removes those that have expired.
func (s *Store) sweep(tx *bbolt.Tx, now time.Time, n int) error {
	var past []hash
	cursor := tx.Bucket(bucketClaims).Cursor()
	k, v := cursor.Seek(s.swept[:])
	for ; k != nil && n > 0; k, v = cursor.Next() {
		if e, ok := decode(v); !ok || !now.Before(e.expires) {
			past = append(past, hash(k))
		}
		n--
	}
	s.swept = hash{}
	if k != nil {
		s.swept = hash(k)
	}
	for _, key := range past {
		if err := put(tx, key, entry{}, now); err != nil {
			return err
		}
	}
	return nil
}

// do makes a change, and returns when it is on disk.
func (s *Store) do(ctx context.Context, key string,
	change func(found entry, exists bool) (next entry, write bool)) error {
	c := &call{hash: hashOf(key), change: change, done: make(chan error, 1)}
	select {
	case s.calls <- c:
	case <-s.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.done:
		return err
	case <-s.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Claim implements claim.Store.
func (s *Store) Claim(
	ctx context.Context, key string, event id.ID, note string, lasts time.Duration,
) claim.Claim {
	var result claim.Claim
	err := s.do(ctx, key, func(found entry, exists bool) (entry, bool) {
		if !exists || !found.stored && s.isReleased(hashOf(key), found.event) {
			result = claim.Claim{State: claim.New, Event: event, Note: note}
			return entry{expires: s.expiry(lasts), event: event, note: note}, true
		}
		result = claim.Claim{State: claim.Pending, Event: found.event, Note: found.note, Orphaned: found.orphaned}
		if found.stored {
			result.State = claim.Stored
		}
		return found, false
	})
	if err != nil {
		return claim.Claim{}
	}
	if result.State == claim.New {
		s.mu.Lock()
		delete(s.unreleased, hashOf(key))
		s.mu.Unlock()
	}
	return result
}

// expiry returns when a claim ends that is made now.
func (s *Store) expiry(window time.Duration) time.Time {
	return s.deps.Now().Add(min(max(window, time.Second), longest))
}

// MarkStored implements claim.Store.
func (s *Store) MarkStored(ctx context.Context, key string, event id.ID, note string, window time.Duration) error {
	return s.do(ctx, key, func(entry, bool) (entry, bool) {
		return entry{expires: s.expiry(window), stored: true, event: event, note: note}, true
	})
}

// Release implements claim.Store.
func (s *Store) Release(ctx context.Context, key string, event id.ID) {
	err := s.do(ctx, key, func(found entry, exists bool) (entry, bool) {
		write := exists && !found.stored && found.event == event
		found.expires = s.deps.Now()
		return found, write
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && len(s.unreleased) < maxUnreleased {
		s.unreleased[hashOf(key)] = event
	}
}

// isReleased reports whether the pending claim of an event counts as free.
func (s *Store) isReleased(key hash, event id.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unreleased[key] == event && !event.IsZero()
}
