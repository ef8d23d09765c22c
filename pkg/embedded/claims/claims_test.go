package claims

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

// pendingFor is how long the claims of the tests last.
const pendingFor = 30 * time.Second

// world is a Store that runs, and a clock.
type world struct {
	*Store
	testing.TB
	now  *atomic.Int64 // in Unix seconds
	path string
}

func open(tb testing.TB, path string, now *atomic.Int64) *world {
	tb.Helper()
	s := must.Get(Open(Config{Path: path, Sync: true},
		Deps{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Unix(now.Load(), 0) },
			SyncDir: func(string) error { return nil }}))(tb)
	return &world{s, tb, now, path}
}

func (w *world) start() *world {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { must.Do(w, w.Run(ctx)) })
	w.Cleanup(func() { cancel(); running.Wait(); must.Do(w, w.Close()) })
	return w
}

func newWorld(tb testing.TB) *world {
	now := new(atomic.Int64)
	now.Store(1_800_000_000)
	return open(tb, filepath.Join(tb.TempDir(), "claims.db"), now).start()
}

// crashed is the store as the next process finds it: what was on disk when the last call returned.
func (w *world) crashed() *world {
	path := filepath.Join(w.TempDir(), "claims.db")
	must.Do(w, os.WriteFile(path, must.Get(os.ReadFile(w.path))(w), 0o600))
	return open(w, path, w.now)
}

func (w *world) want(key string, event byte, note string, want claim.Claim) {
	w.Helper()
	if got := w.Claim(w.Context(), key, id.ID{event}, note, pendingFor); got != want {
		w.Errorf("claim of %s by %d: %+v, want %+v", key, event, got, want)
	}
}

func claimed(state claim.State, event byte, note string) claim.Claim {
	return claim.Claim{State: state, Event: id.ID{event}, Note: note}
}

func TestClaims(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.want("k", 1, "a", claimed(claim.New, 1, "a"))
	w.want("k", 2, "b", claimed(claim.Pending, 1, "a"))
	w.Release(ctx, "k", id.ID{2}) // not its own
	w.want("k", 2, "b", claimed(claim.Pending, 1, "a"))
	w.Release(ctx, "k", id.ID{1})
	w.want("k", 2, "b", claimed(claim.New, 2, "b"))
	must.Do(t, w.MarkStored(ctx, "k", id.ID{2}, "b", time.Minute))
	w.Release(ctx, "k", id.ID{2}) // it is stored
	w.want("k", 3, "", claimed(claim.Stored, 2, "b"))
	w.want("other", 3, "", claimed(claim.New, 3, ""))
	w.now.Add(59)
	w.want("k", 4, "", claimed(claim.Stored, 2, "b"))
	w.want("other", 4, "", claimed(claim.New, 4, "")) // it was pending for too long
	w.now.Add(1)
	w.want("k", 4, "", claimed(claim.New, 4, ""))

	w.want("long", 1, strings.Repeat("n", 1000), claimed(claim.New, 1, strings.Repeat("n", 1000)))
	w.want("long", 2, "", claimed(claim.Pending, 1, strings.Repeat("n", maxNote)))
}

// Of calls at the same time one gets the key, in one transaction or in several.
func TestOneOfManyGetsTheKey(t *testing.T) {
	w := newWorld(t)
	var won atomic.Int64
	var all sync.WaitGroup
	for i := range 3000 {
		all.Go(func() {
			if w.Claim(t.Context(), fmt.Sprint(i%3), id.ID{1, byte(i), byte(i >> 8)}, "", pendingFor).State == claim.New {
				won.Add(1)
			}
		})
	}
	all.Wait()
	is.Equal(t, won.Load(), 3, "of 3000 calls got 3 keys")
}

// A crash forgets nothing. A claim that it left pending is stored if its event is, and otherwise pending until it
// expires: a destination may have got the event before a power cut took it from the log. A repeat may store it at once.
// What an ended process was about to store again is free.
func TestClaimsSurviveACrash(t *testing.T) {
	w := newWorld(t)
	w.want("stored", 1, "n", claimed(claim.New, 1, "n"))
	must.Do(t, w.MarkStored(t.Context(), "stored", id.ID{1}, "n", time.Hour))
	w.want("taken over", 5, claim.TakeOverNote, claimed(claim.New, 5, claim.TakeOverNote))
	for event, key := range map[byte]string{2: "in the log", 3: "lost", 4: "unknown"} {
		w.want(key, event, "", claimed(claim.New, event, ""))
	}
	next := w.crashed()
	away := errors.New("away")
	err := next.Recover(t.Context(), func(_ context.Context, event id.ID) (bool, error) {
		if event == (id.ID{4}) {
			return false, away
		}
		return event == id.ID{2}, nil
	})
	is.ErrorIs(t, err, away, "recovered with")
	next.start()
	next.want("stored", 9, "", claimed(claim.Stored, 1, "n"))
	next.want("in the log", 9, "", claimed(claim.Stored, 2, ""))
	orphan := claimed(claim.Pending, 3, "")
	orphan.Orphaned = true
	next.want("lost", 9, "", orphan)
	next.want("taken over", 9, "", claimed(claim.New, 9, ""))
	next.want("unknown", 9, "", claimed(claim.Pending, 4, ""))
	next.now.Add(int64(pendingFor / time.Second))
	next.want("unknown", 9, "", claimed(claim.New, 9, ""))
	next.now.Add(int64(longest/time.Second) - 31)
	next.want("in the log", 9, "", claimed(claim.Stored, 2, ""))
}

// What has expired is removed while other claims come, also where a claim was renewed.
func TestExpiredClaimsAreRemoved(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	for i := range 2000 {
		all.Go(func() {
			key := fmt.Sprint(i)
			_ = w.Claim(t.Context(), key, id.ID{1}, "", pendingFor)
			must.Do(t, w.MarkStored(t.Context(), key, id.ID{1}, "", time.Minute))
		})
	}
	all.Wait()
	w.now.Add(3600)
	for i := range 100 {
		_ = w.Claim(t.Context(), fmt.Sprint("new ", i), id.ID{2}, "", pendingFor)
	}
	must.Do(t, w.db.Load().View(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketClaims, bucketPending} {
			is.Equal(t, tx.Bucket(name).Stats().KeyN, 100, "%s has … keys", name)
		}
		return nil
	}))
}

// A claim that could not be released, as on a full disk, is free nevertheless.
func TestClaimsThatCouldNotBeReleased(t *testing.T) {
	w := newWorld(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 20 {
		key := fmt.Sprint(i)
		w.want(key, 1, "", claimed(claim.New, 1, ""))
		w.Release(gone, key, id.ID{1})
		w.want(key, 2, "", claimed(claim.New, 2, ""))
		w.want(key, 3, "", claimed(claim.Pending, 2, ""))
	}
	is.Equal(t, len(w.unreleased), 0, "claims remembered")
}

// Calls during and after the end return: the requests that wait for them must end.
func TestCallsEndWithTheStore(t *testing.T) {
	w := newWorld(t)
	s := w.crashed()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Do(t, s.Run(ctx))
	defer s.Close()
	if c := s.Claim(context.Background(), "k", id.ID{1}, "", pendingFor); c.State != claim.Unavailable {
		t.Errorf("%+v", c)
	}
	is.ErrorIs(t, s.MarkStored(context.Background(), "k", id.ID{1}, "", time.Hour), errEnded)
	if _, err := Open(s.cfg, s.deps); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("a second process opens the file: %v", err)
	}
}

// The cost of a claimed event: two calls, each on disk before it returns.
func BenchmarkClaim(b *testing.B) {
	w := newWorld(b)
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			key, event := fmt.Sprint(n.Add(1)), id.ID{1}
			_ = w.Claim(b.Context(), key, event, "", pendingFor)
			must.Do(b, w.MarkStored(b.Context(), key, event, "", time.Hour))
		}
	})
}

// A damaged file is renamed, and the store starts without it.
func TestDamagedFileIsSetAside(t *testing.T) {
	for _, text := range []string{"no database", strings.Repeat("x", 64<<10), strings.Repeat("\x00", 64<<10)} {
		path := filepath.Join(t.TempDir(), "claims.db")
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		w := open(t, path, new(atomic.Int64)).start()
		if got := w.Claim(t.Context(), "k", id.ID{1}, "", pendingFor); got.State != claim.New {
			t.Errorf("claimed %+v", got)
		}
		if kept := must.Get(os.ReadFile(path + damaged))(t); string(kept) != text {
			t.Errorf("kept %d bytes", len(kept))
		}
	}
}

// Whatever is damaged in a file, the store starts, with it or without it, and takes claims.
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 600 {
		w.Claim(t.Context(), fmt.Sprint(i), id.ID{byte(i)}, "", pendingFor)
	}
	whole := must.Get(os.ReadFile(w.path))(t)
	random := rand.New(rand.NewPCG(7, 7))
	renamed := 0
	const page = 4096
	for i := range 400 {
		b := bytes.Clone(whole)
		switch i {
		case 0:
			b = b[:len(b)/2]
		case 1:
			b = b[:len(b)-page]
		case 2:
			b = b[:3*page]
		default:
			for range 1 + i%4 { // heads of pages, and anything
				at := random.IntN(len(b))
				if i%2 == 0 {
					at = at/page*page + random.IntN(80)
				}
				b[at] ^= 1 << random.IntN(8)
			}
		}
		path := filepath.Join(t.TempDir(), "claims.db")
		must.Do(t, os.WriteFile(path, b, 0o600))
		s := open(t, path, w.now).start()
		for k := range 20 {
			if c := s.Claim(t.Context(), fmt.Sprint("new ", k), id.ID{1}, "", pendingFor); c.State != claim.New {
				t.Fatalf("damage %d: claim is %+v", i, c)
			}
		}
		must.Do(t, s.Each(func(claim.Kept) error { return nil }))
		if _, err := os.Stat(path + damaged); err == nil {
			renamed++
		}
	}
	if renamed < 20 {
		t.Errorf("%d files were renamed", renamed)
	}
}

// A page that is damaged while the store runs costs the claims in it, not the store.
func TestPageDamagedWhileRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 600 {
		w.Claim(t.Context(), fmt.Sprint(i), id.ID{byte(i)}, "", pendingFor)
	}
	f := must.Get(os.OpenFile(w.path, os.O_RDWR, 0))(t)
	defer f.Close()
	info := must.Get(f.Stat())(t)
	for at := int64(2 * 4096); at < info.Size(); at += 4096 {
		must.Get(f.WriteAt(bytes.Repeat([]byte{0xff}, 4096), at))(t)
	}
	if c := w.Claim(t.Context(), "next", id.ID{9}, "", pendingFor); c.State != claim.New {
		t.Errorf("claim is %+v", c)
	}
	if c := w.Claim(t.Context(), "next", id.ID{8}, "", pendingFor); c.State != claim.Pending || c.Event != (id.ID{9}) {
		t.Errorf("the claim was forgotten: %+v", c)
	}
}

// The name of a new file is on disk before the first claim.
func TestDirectoryOfClaimsIsSynced(t *testing.T) {
	t.Parallel()
	dir, synced := t.TempDir(), ""
	deps := Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now,
		SyncDir: func(path string) error { synced = path; return nil }}
	s := must.Get(Open(Config{Path: filepath.Join(dir, "claims.db")}, deps))(t)
	must.Do(t, s.Close())
	is.Equal(t, synced, dir)
}
