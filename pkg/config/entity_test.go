package config

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/test/is"
)

// Every kind is created once, read, listed by page, changed, by many at the same time too, and deleted, in the same
// way, and up to its bound.
func TestEntities(t *testing.T) {
	testLife(t, func(n *testNode, name string) *leak.Drain { return drain(n.Keyring, name, name) },
		func(d *leak.Drain) { d.Name += "x" })
	testLife(t, func(n *testNode, name string) *leak.DSN { return dsn(n.Keyring, name, name) },
		func(d *leak.DSN) { d.Name += "x" })
	testLife(t, func(_ *testNode, name string) *leak.Domain { return newDomain(name, name, time.Time{}) },
		func(d *leak.Domain) { d.Checked.Seen += "x" })
	testLife(t, func(_ *testNode, name string) *Fixture { return testFixture(t, name, time.Hour) },
		func(f *Fixture) { f.Name += "x" })
	testLife(t, func(_ *testNode, name string) *jobs.Recovery {
		return &jobs.Recovery{Meta: entity.Meta{ID: "rec_" + name}}
	},
		func(j *jobs.Recovery) { j.Total++ })
	testLife(t, func(n *testNode, name string) *Endpoint { return endpoint(n.Keyring) },
		func(e *Endpoint) { e.Destinations[0].MaxInFlight++ })
}

// testLife tests the functions of entity.go with a kind, whose values create makes and change modifies.
func testLife[T any, P entity.Pointer[T]](t *testing.T, create func(n *testNode, name string) P, change func(P)) {
	k := P(nil).EntityKind()
	t.Run(kindTable[k].Name, func(t *testing.T) {
		ctx, n := t.Context(), node(t, broker(t), Config{Node: "a"})
		account, versions := n.Account().ID, func(v P, want int) bool {
			return v.ChangeCount() == nil ||
				*v.ChangeCount() == want
		}
		var ids []string
		for _, name := range []string{"a", "b", "c"} {
			v := must(entity.Create(ctx, n, create(n, name)))(t)
			f := v.Common()
			if *f.Account != account || f.CreatedAt.IsZero() || !f.Updated.Equal(*f.CreatedAt) || *f.Rev == 0 ||
				*f.Seq != *f.Rev || !versions(v, 1) {
				t.Fatalf("created %+v", v)
			}
			ids = append(ids, *f.ID)
		}
		created, _ := entity.Get[T, P](n, ids[0])
		if _, err := entity.Create(ctx, n, created); !errors.Is(err, ErrConflict) {
			t.Errorf("the same id twice: %v", err)
		}

		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				_, err := entity.Update(ctx, n, ids[0], func(v P) error {
					change(v)
					v.Common().Keep((&entity.Meta{ID: "id_other", Account: "acc_other"}).Common()) // these do not change
					copyCount(v.ChangeCount(), new(100))
					return nil
				})
				is.OK(t, err)
			})
		}
		all.Wait()
		want := must(entity.CopyOf(n.Core, created))(t)
		for range 20 {
			change(want)
		}
		after, presence := entity.Get[T, P](n, ids[0])
		was, is := created.Common(), after.Common()
		*want.Common().Updated = *is.Updated
		copyCount(want.ChangeCount(), after.ChangeCount())
		if presence != entity.Present || !entity.SameJSON(want, after) || !versions(created, 1) || !versions(after, 21) ||
			*is.Seq != *was.Seq || *is.Rev <= *was.Rev || !is.Updated.After(*is.CreatedAt) {
			t.Errorf("after 20 changes: %+v", after)
		}
		sequence := n.View().Sequence()
		if same, err := entity.Update(ctx, n, ids[0], func(P) error { return nil }); err != nil ||
			*same.Common().Rev != *is.Rev || n.View().Sequence() != sequence {
			t.Errorf("a change of nothing was written: %v", err)
		}
		refused := errors.New("refused")
		if _, err := entity.Update(ctx, n, ids[0], func(P) error { return refused }); !errors.Is(err, refused) {
			t.Errorf("error of the change: %v", err)
		}

		f := func(account string, before int64, keep func(P) bool, wantMore bool, want ...string) {
			t.Helper()
			page, more := entity.List[T](n, account, before, 2, keep)
			var got []string
			for _, v := range page {
				got = append(got, entity.IDOf(v))
			}
			if !slices.Equal(got, want) || more != wantMore {
				t.Errorf("%v, more %v, want %v", got, more, want)
			}
		}
		second, _ := entity.Get[T, P](n, ids[1])
		f(account, 0, nil, true, ids[2], ids[1])
		f(account, *second.Common().Seq, nil, false, ids[0])
		f(account, 0, func(v P) bool { return entity.IDOf(v) != ids[1] }, false, ids[2], ids[0])
		f("acc_other", 0, nil, false)

		noError(t, entity.Delete[T, P](ctx, n, ids[0]))
		f(account, 0, nil, false, ids[2], ids[1])
		if v, presence := entity.Get[T, P](n, ids[0]); v != nil || presence != entity.Deleted {
			t.Errorf("deleted, but %v", presence)
		}
		if v, presence := entity.Get[T, P](n, "id_none"); v != nil || presence != entity.Unknown {
			t.Errorf("never created, but %v", presence)
		}
		if err := entity.Delete[T, P](ctx, n, ids[0]); !errors.Is(err, ErrNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
		if _, err := entity.Update(ctx, n, ids[0], func(P) error { return nil }); !errors.Is(err, ErrNotFound) {
			t.Errorf("changed after its end: %v", err)
		}
		n.inject(k, "len", int64(kindTable[k].MaxCount))
		if _, err := entity.Create(ctx, n, create(n, "more")); !errors.Is(err, kindTable[k].ErrCount) {
			t.Errorf("one more than the maximum: %v", err)
		}
	})
}

// In a full configuration a drain can still be paused, rotated and deleted, and a DSN rotated and deleted.
func TestSourcesAreRestrictedInAFullConfiguration(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	testRestriction(t, n, drain(n.Keyring, "one", "token"), func(d *leak.Drain) { d.Name = strings.Repeat("n", 100) },
		func(d *leak.Drain) {
			d.Paused, d.Sealed.Token = true, n.Keyring.SealString(d.ID, seal.FieldToken, "another")
		})
	testRestriction(t, n, dsn(n.Keyring, "one", "key"), func(d *leak.DSN) { d.Name = strings.Repeat("n", 100) },
		func(d *leak.DSN) { d.Sealed.Key = n.Keyring.SealString(d.ID, seal.FieldDSNKey, "another") })
}

func testRestriction[T any, P entity.Pointer[T]](t *testing.T, n *testNode, v P, grow, restrict func(P)) {
	t.Helper()
	n.inject(entity.KindAlertSettings, "bytes", 0)
	must(entity.Create(t.Context(), n, v))(t)
	n.inject(entity.KindAlertSettings, "bytes", conflog.MaxStateBytes)
	if _, err := entity.Update(t.Context(), n, entity.IDOf(v), func(v P) error { grow(v); return nil }); !errors.Is(err,
		ErrStateFull) {
		t.Errorf("%s grows: %v", entity.IDOf(v), err)
	}
	if _, err := entity.Update(t.Context(), n, entity.IDOf(v), func(v P) error { restrict(v); return nil }); err != nil {
		t.Errorf("restricting %s: %v", entity.IDOf(v), err)
	}
	if err := entity.Delete[T, P](t.Context(), n, entity.IDOf(v)); err != nil {
		t.Errorf("deleting %s: %v", entity.IDOf(v), err)
	}
}

// copyCount copies the number of changes of a kind that counts them.
func copyCount(to, from *int) {
	if to != nil {
		*to = *from
	}
}
