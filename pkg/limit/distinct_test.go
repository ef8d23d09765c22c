package limit

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A set takes members up to its bound, in their order, knows those that it has, and ends with its span.
func TestDistinct(t *testing.T) {
	l, c := alone(t)
	d := l.NewDistinct("test", time.Hour)
	f := func(key string, members string, want ...bool) {
		t.Helper()
		var all []string
		for _, m := range members {
			all = append(all, string(m))
		}
		is.List(t, d.Admit(t.Context(), key, all, 3), want, "%s of %s", members, key)
	}
	f("one", "ab", true, true)
	f("one", "abcda", true, true, true, false, true)
	f("one", "dc", false, true)
	f("other", "d", true)
	c.now = c.now.Add(time.Hour)
	f("one", "dddef", true, true, true, true, true)
	f("one", "a", false)
}

// Memory is bounded over all sets, and sets that have ended leave it.
func TestDistinctIsBounded(t *testing.T) {
	l, c := alone(t)
	d := l.NewDistinct("test", time.Hour)
	d.most = 100
	admitted := 0
	for i := range 1000 {
		if d.Admit(t.Context(), fmt.Sprint(i%20), []string{fmt.Sprint(i)}, 1000)[0] {
			admitted++
		}
	}
	if admitted != 20*minDistinctMembers || d.members != admitted { // 20 sets with their least number
		t.Errorf("%d admitted, %d in memory", admitted, d.members)
	}
	c.now = c.now.Add(time.Hour)
	if !d.Admit(t.Context(), "new", []string{"a"}, 1)[0] || d.members != 1 || len(d.sets) != 1 {
		t.Errorf("after the end of the sets: %d members of %d sets", d.members, len(d.sets))
	}
}

// A set that is used right after its end, before a sweep, no longer counts what it had.
func TestDistinctThatHasEndedIsNotCounted(t *testing.T) {
	l, c := alone(t)
	d := l.NewDistinct("test", time.Hour)
	d.Admit(t.Context(), "one", []string{"a", "b", "c"}, 3)
	c.now = c.now.Add(time.Hour - time.Second)
	d.Admit(t.Context(), "other", []string{"x"}, 3)
	c.now = c.now.Add(time.Second)
	if got := d.Admit(t.Context(), "one", []string{"d"}, 3); !got[0] || d.members != 2 || len(d.sets) != 2 {
		t.Errorf("%v, %d members of %d sets", got, d.members, len(d.sets))
	}
}

// A set has a room of its own, however much the sets of other keys hold.
func TestDistinctHasRoomForEachKey(t *testing.T) {
	l, _ := alone(t)
	d := l.NewDistinct("test", time.Hour)
	d.most = 100
	members := make([]string, 200)
	for i := range members {
		members[i] = fmt.Sprint(i)
	}
	if got := d.Admit(t.Context(), "greedy", members, 1000); !got[99] || got[100] {
		t.Errorf("one set has %d members in memory", d.members)
	}
	if got := d.Admit(t.Context(), "other", members, 1000); !got[minDistinctMembers-1] || got[minDistinctMembers] {
		t.Errorf("another set: %v", got[:minDistinctMembers+1])
	}
	if got := d.Admit(t.Context(), "small", members, 2); !slices.Equal(got[:3], []bool{true, true, false}) {
		t.Errorf("a set with a smaller bound: %v", got[:3])
	}
}

// The bound of a node holds over failures of Redis, also when Redis comes back without what it had.
func TestDistinctOutlastsRedis(t *testing.T) {
	eachEngine(t, func(t *testing.T, url string) {
		d := idle(t, url).NewDistinct("test", time.Hour)
		f := func(members []string, want ...bool) {
			t.Helper()
			is.List(t, d.Admit(t.Context(), "key", members, 3), want, members)
		}
		f([]string{"a", "b"}, true, true)
		names := d.limiter.client.Keys(t.Context(), "distinct:*").Val()
		must.Do(t, d.limiter.client.Del(t.Context(), names...).Err())
		f([]string{"c", "d", "a"}, true, false, true)
		f([]string{"e"}, false)
	})
}

// All nodes fill one set together; without Redis each goes on with what it has admitted itself.
func TestDistinctIsShared(t *testing.T) {
	eachEngine(t, func(t *testing.T, url string) {
		one, two := idle(t, url).NewDistinct("test", time.Hour), idle(t, url).NewDistinct("test", time.Hour)
		ctx := t.Context()
		f := func(d *Distinct, members []string, want ...bool) {
			t.Helper()
			is.List(t, d.Admit(ctx, "key", members, 3), want, members)
		}
		f(one, []string{"a", "b"}, true, true)
		f(two, []string{"b", "c", "d"}, true, true, false)
		f(one, []string{"d", "c", "a"}, false, true, true)
		keys := must.Get(one.limiter.client.Keys(ctx, "distinct:*").Result())(t)
		must.Equal(t, len(keys), 1, keys)
		if ttl := one.limiter.client.PTTL(ctx, keys[0]).Val(); ttl <= 0 || ttl > time.Hour {
			t.Errorf("%s lives for %s", keys[0], ttl)
		}
		_ = two.limiter.client.Close()
		f(two, []string{"b", "d", "e"}, true, true, false)
	})
}

// idle returns a limiter with Redis that does not run.
func idle(t *testing.T, url string) *Limiter {
	t.Helper()
	cfg := DefaultConfig()
	cfg.URL, cfg.Timeout = url, longTimeout
	l := must.Get(New(cfg, Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now}))(t)
	t.Cleanup(func() { _ = l.client.Close() })
	return l
}

// Many occurrences count at once, on all nodes.
func TestWindowCountsMany(t *testing.T) {
	eachEngine(t, func(t *testing.T, url string) {
		one, two := node(t, url).NewWindow("many", time.Minute), node(t, url).NewWindow("many", time.Minute)
		is.Equal(t, one.AddMany(t.Context(), "a", 900), 900, "after 900")
		is.Equal(t, two.AddMany(t.Context(), "a", 200), 1100, "after 200 more on another node")
		is.Equal(t, one.AddMany(t.Context(), "a", 0), 1100, "the first node counts")
	})
}
