package audit_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

func TestRecordRoundTrip(t *testing.T) {
	at := time.Date(2026, 8, 21, 22, 24, 36, 123e6, time.UTC)
	e := audit.Entry{
		ID: audit.NewID(at, 7, "op_1"), Account: "acc_1", At: at, Actor: audit.ActorOf("key_1", "ci"),
		Action: "endpoint.updated", EntityType: "endpoint",
		Entity: "ep_1", Changes: []string{"name"}, RequestID: "req_1",
		RemoteIP: netip.MustParseAddr("2001:db8::1"), Node: "a",
		Count: 3, LastAt: at.Add(time.Second),
	}
	r := must.Get(e.Record())(t)
	got, err := audit.Decode(r)
	if err != nil || !reflect.DeepEqual(*got, e) {
		t.Errorf("%+v, %v\nwant %+v", got, err, e)
	}
	if e.ID != audit.NewID(at, 7, "op_1") || e.ID == audit.NewID(at, 7, "op_2") || !e.ID.Time().Equal(at) {
		t.Error("an id is not that of its entry")
	}
	for _, bad := range []string{
		``, `{`, `{"v":2,"id":"` + e.ID.Text(audit.Prefix) + `","action":"x"}`, `{"v":1,"id":"aud_1","action":"x"}`,
		`{"v":1,"id":"` + e.ID.Text(audit.Prefix) + `"}`} {
		if _, err := audit.Decode(&stream.Record{Value: []byte(bad)}); err == nil {
			t.Errorf("decoded %q", bad)
		}
	}
}

func TestActorOf(t *testing.T) {
	f := func(actor string, want audit.Actor) {
		t.Helper()
		is.Equal(t, audit.ActorOf(actor, "name"), want, "%q is", actor)
	}
	f("key_1", audit.Actor{Type: audit.ByKey, ID: "key_1", Name: "name"})
	f("usr_1", audit.Actor{Type: audit.ByUser, ID: "usr_1", Name: "name"})
	f(audit.Operator, audit.Actor{Type: audit.ByOperator})
	f("dispatcher", audit.Actor{Type: audit.BySystem, Name: "dispatcher"})
	f("", audit.Actor{Type: audit.BySystem})
}

// topic is a producer that keeps what was produced; while fails is set, everything fails with it.
type topic struct {
	mu      sync.Mutex // guards the fields below
	entries []*audit.Entry
	fails   error
}

func (p *topic) ProduceSync(_ context.Context, name string, partition int32, r *stream.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, err := audit.Decode(r)
	if err == nil && (name != stream.AuditLog || partition != 0) {
		err = fmt.Errorf("produced to %s[%d]", name, partition)
	}
	if err = errors.Join(err, p.fails); err == nil {
		p.entries = append(p.entries, e)
	}
	return err
}

func (p *topic) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = err
}

// counts returns the counts of a key's entries in order, one for each id; a later entry replaces an earlier one of
// the same id.
func (p *topic) counts(key string) (counts []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, e := range p.entries {
		if e.Entity != key {
			continue
		}
		if i > 0 && p.entries[i-1].ID == e.ID {
			counts = counts[:len(counts)-1]
		}
		counts = append(counts, e.Count)
	}
	return counts
}

func TestUsesAreWrittenOncePerMinuteAndKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &topic{}
		u := must.Get(audit.NewUses("a", audit.UsesDeps{Producer: log, Now: time.Now}))(t)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = u.Run(ctx) })
		from := netip.MustParseAddr("192.0.2.1")
		use := func(n int) {
			for range n {
				u.RecordUse("acc_1", "key_1", "ci", from)
			}
		}
		want := func(want ...uint64) {
			t.Helper()
			if got := log.counts("key_1"); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("after %s: %v, want %v", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), got, want)
			}
		}
		use(3)
		time.Sleep(2 * time.Second) // the first use is written at once
		want(3)
		if e := log.entries[0]; e.ID.Compare(audit.NewID(e.At, 1, "created")) < 0 {
			t.Error("a use sorts before the creation of its key in the same millisecond")
		}
		use(2)
		time.Sleep(57 * time.Second) // then once a minute
		want(3)
		time.Sleep(3 * time.Second)
		want(5)
		is.Equal(t, len(log.entries), 2, "entries were written")
		time.Sleep(10 * time.Minute) // no use, nothing to write
		is.Equal(t, len(log.entries), 2, "entries were written")

		// While the log is unavailable nothing is lost; the use is written once it is available again.
		log.fail(errors.New("unavailable"))
		use(1)
		time.Sleep(5 * time.Minute)
		want(5)
		log.fail(nil)
		time.Sleep(2 * time.Second)
		want(6)

		time.Sleep(time.Hour + 500*time.Millisecond) // a new hour is a new entry; between two ticks, which write
		use(4)
		time.Sleep(2 * time.Second)
		want(6, 4)
		if e := log.entries[len(log.entries)-1]; e.At.Before(log.entries[0].At.Add(time.Hour)) || !e.LastAt.Equal(e.At) ||
			e.RemoteIP != from || e.Node != "a" || e.Account != "acc_1" || e.Actor.Name != "ci" {
			t.Errorf("%+v", e)
		}
		use(1)
		stop() // a stop writes the last uses
		wg.Wait()
		want(6, 5)
	})
}

// A process that starts within the hour does not replace the entry of the one before it.
func TestRestartKeepsEarlierUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &topic{}
		for range 2 {
			u := must.Get(audit.NewUses("a", audit.UsesDeps{Producer: log, Now: time.Now}))(t)
			ctx, stop := context.WithCancel(t.Context())
			stop()
			u.RecordUse("acc_1", "key_1", "ci", netip.Addr{})
			must.Do(t, u.Run(ctx))
		}
		if len(log.entries) != 2 || log.entries[0].ID == log.entries[1].ID {
			t.Errorf("%+v", log.entries)
		}
	})
}
