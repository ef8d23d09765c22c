package read_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// A read of the audit log shows every record of the topic once, whatever their order and however often they were
// written. Every filter and page agrees with audit.Query.Matches.
func TestAuditAgreesWithModel(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	rnd := rand.New(rand.NewPCG(1, 2))
	now := time.Now().UTC().Truncate(time.Millisecond)
	var all []audit.Entry
	for i := range 60 {
		at := now.Add(-time.Duration(rnd.IntN(90*24)) * time.Hour) // beyond the retention of events
		e := audit.Entry{
			ID: audit.NewID(at, uint32(i), fmt.Sprint(i)), Account: storetest.Account, At: at,
			Actor:      audit.ActorOf([]string{"key_1", "key_2", "usr_1", "operator", "", "dispatcher"}[i%6], "name"),
			EntityType: "endpoint",
			Action:     []string{"endpoint.created", "endpoint.updated", "key.revoked", "user.created"}[i%4],
			Entity:     fmt.Sprintf("ep_%d", i%5),
			Changes:    []string{"name", "destinations.dst_1.enabled"}[:i%3%2], RequestID: fmt.Sprint("req_", i),
			RemoteIP: netip.MustParseAddr("192.0.2.1"), Related: []string{"", "act_1", "act_2"}[i%3],
		}
		if i%7 == 0 {
			e.Changes, e.RemoteIP = nil, netip.Addr{}
		}
		all = append(all, e)
	}
	other := all[0]
	other.Account, other.ID = "acc_2", audit.NewID(other.At, 0, "other")
	b.ProduceAudit(slices.Concat(all[30:], all[:40], []audit.Entry{other})...)
	slices.SortFunc(all, func(x, y audit.Entry) int { return strings.Compare(string(y.ID[:]), string(x.ID[:])) })

	f := func(q audit.Query) {
		t.Helper()
		q.Account = storetest.Account
		var want, got []audit.Entry
		for i := range all {
			if q.Matches(&all[i]) {
				want = append(want, all[i])
			}
		}
		for {
			page, err := r.Audit(t.Context(), q)
			if err != nil || !page.AsOf.IsZero() {
				t.Fatalf("%+v: as of %v, %v", q, page.AsOf, err)
			}
			if got = append(got, page.Rows...); !page.More {
				break
			}
			q.Before = page.Rows[len(page.Rows)-1].ID
		}
		for i := range got {
			got[i].LastAt = time.Time{}
			if len(got[i].Changes) == 0 {
				got[i].Changes = nil
			}
		}
		for i := range want {
			if len(want[i].Changes) == 0 {
				want[i].Changes = nil
			}
		}
		is.Equal(t, cmp.Diff(want, got, storetest.CompareIPs), "", "%+v", q)
	}
	f(audit.Query{Limit: 7})
	f(audit.Query{Limit: 60})
	f(audit.Query{Limit: 59})
	f(audit.Query{Limit: 3, Actors: []string{"key_1", "system"}})
	f(audit.Query{Limit: 3, Actors: []string{"operator"}})
	f(audit.Query{Limit: 3, Actions: []string{"endpoint.*", "user.created"}})
	f(audit.Query{Limit: 3, Actions: []string{"key.revoked"}, Entities: []string{"ep_1", "ep_2"}})
	f(audit.Query{Limit: 100, Since: all[20].At, Until: all[5].At})
	f(audit.Query{Limit: 100, Since: all[20].At.Add(time.Microsecond), Until: all[5].At.Add(time.Microsecond)})
	f(audit.Query{Limit: 100, Entities: []string{"ep_none"}})
	f(audit.Query{Limit: 3, Entities: []string{"act_1", "ep_2"}})
}

// The last use of a key is the newest of all nodes, even when older uses are written later.
func TestKeyUsesReturnTheNewestUse(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	now := time.Now().UTC().Truncate(time.Millisecond)
	line := func(node string, begun, last time.Duration, n uint64) audit.Entry {
		return audit.Entry{
			ID: audit.NewID(now.Add(begun), 0, node), Account: storetest.Account, At: now.Add(begun),
			Actor: audit.ActorOf("key_1", ""), Action: audit.KeyUsed, EntityType: "key",
			Entity: "key_1", RemoteIP: netip.MustParseAddr("192.0.2.1"), Node: node, Count: n, LastAt: now.Add(last),
		}
	}
	b.ProduceAudit(line("a", -time.Hour, -30*time.Minute, 2), line("b", -time.Minute, 0, 9),
		line("b", -time.Minute, -time.Second, 5), line("a", -time.Hour, -40*time.Minute, 1))
	uses, err := r.KeyUses(t.Context(), storetest.Account, nil)
	if want := (audit.Use{At: now, Node: "b", RemoteIP: netip.MustParseAddr("192.0.2.1")}); err != nil || len(uses) != 1 ||
		uses["key_1"] != want {
		t.Errorf("%+v, %v", uses, err)
	}
	page, err := r.Audit(t.Context(), audit.Query{Account: storetest.Account, Limit: 10})
	if err != nil || len(page.Rows) != 2 || page.Rows[0].Count != 9 || page.Rows[1].Count != 2 {
		t.Errorf("%+v, %v", page, err)
	}
	if uses, err := r.KeyUses(t.Context(), "acc_2", nil); err != nil || len(uses) > 0 {
		t.Errorf("%+v, %v", uses, err)
	}
	for key, want := range map[string]int{"key_1": 1, "key_2": 0} {
		if uses, err := r.KeyUses(t.Context(), storetest.Account, []string{key}); err != nil || len(uses) != want {
			t.Errorf("%s: %+v, %v", key, uses, err)
		}
	}
}

// A record that is no audit entry goes to the dead letter topic and does not block the entries after it.
func TestInvalidAuditEntryGoesToDeadLetters(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	must.Do(t, b.Producer.ProduceSync(t.Context(), stream.AuditLog, 0, &stream.Record{Value: []byte("{}")}))
	at := time.Now()
	b.ProduceAudit(audit.Entry{ID: audit.NewID(at, 0, "x"), Account: storetest.Account, At: at, Action: "x.y"})
	page := must.Get(r.Audit(t.Context(), audit.Query{Account: storetest.Account, Limit: 10, Before: id.ID{}}))(t)
	is.Equal(t, len(page.Rows), 1, "%+v", page)
}
