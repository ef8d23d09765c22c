package conflog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// auditEntries returns the entries in the topic audit, each once, by id.
func auditEntries(t *testing.T, n *testNode) (entries []*audit.Entry, records int) {
	t.Helper()
	log := stream.Partition{Topic: stream.AuditLog}
	ends := must.Get(n.reader.Ends(t.Context(), stream.AuditLog))(t)
	seen := make(map[string]bool)
	must.Do(t, n.readRange(t.Context(), log, 0, ends[log], func(r *stream.Record) error {
		e, err := audit.Decode(r)
		if err == nil && !seen[e.ID.String()] {
			entries = append(entries, e)
			seen[e.ID.String()] = true
		}
		records++
		return err
	}))
	slices.SortFunc(entries, func(x, y *audit.Entry) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	return entries, records
}

// auditText returns entries as text.
func auditText(entries []*audit.Entry) (words []string) {
	for _, e := range entries {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s %s %s %v", e.Actor.Type, e.Actor.Name, e.Action, e.Changes)))
	}
	return words
}

func (n *testNode) outboxLen() int { return n.view.Load().sets[KindOutbox].bySeq.Len }

// The owner copies each change once; then the change leaves the outbox.
func TestOutboxIsCopiedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a := node(t, conf, Config{Node: "a"})
		_, k := a.createKey(t)
		ctx := WithOrigin(t.Context(), Origin{Actor: k.ID, RequestID: "req_1", RemoteIP: netip.MustParseAddr("192.0.2.1")})
		ep := must.Get(a.make(ctx, kindEndpoint, "ep_1"))(t)
		must.Get(a.update(ctx, ep.ID, func(e *Thing) { e.Name = "planted-name" }))(t)
		if _, err := a.make(ctx, kindEndpoint, ep.ID); !errors.Is(err, ErrConflict) {
			t.Fatal(err)
		}
		must.Do(t, a.revoke(WithOrigin(t.Context(), Origin{Actor: audit.Operator}), k.ID))
		// Internal state is not audited, nor the progress of a run.
		must.Get(a.make(ctx, kindAlert, "alert_1"))(t)
		must.Get(a.make(ctx, kindRun, "run_1"))(t)
		if _, _, _, err := a.change(ctx, kindRun, "run_1", func(v *Thing) { v.Count = 1 }); err != nil {
			t.Fatal(err)
		}
		if entries, _ := auditEntries(t, a); len(entries) > 0 {
			t.Fatalf("copied by a node that is not the owner: %v", auditText(entries))
		}
		waiting := a.Outbox(audit.Query{Account: a.account(), Limit: 100})
		a.SetOwner(true)
		kit.WaitFor(t, "the outbox is empty", func() bool { return a.outboxLen() == 0 })
		entries, records := auditEntries(t, a)
		want := []string{
			"system  account.created []", "system  key.created []", "key ci endpoint.created []",
			"key ci endpoint.updated [name]",
			"operator  key.revoked [revoked_at]", "key ci run.created []",
		}
		if !slices.Equal(auditText(entries), want) || records != len(want) {
			t.Errorf("%q in %d records\nwant %q", auditText(entries), records, want)
		}
		slices.Reverse(waiting)
		for i, e := range entries {
			if e.ID != waiting[i].ID || !e.At.Equal(waiting[i].At) || e.Account != a.account() {
				t.Errorf("%+v waited as %+v", e, waiting[i])
			}
			if raw, _ := json.Marshal(e); strings.Contains(string(raw), "planted") {
				t.Errorf("a value is in the audit log: %s", raw)
			}
		}
		if e := entries[3]; e.RequestID != "req_1" || e.RemoteIP.String() != "192.0.2.1" || e.Entity != ep.ID ||
			e.EntityType != "endpoint" || e.Actor.ID != k.ID {
			t.Errorf("%+v", e)
		}
	})
}

// If the copying node dies before the copy, or between the copy and the record that removes the entries, another node
// copies them, and the audit log has each once.
func TestOutboxSurvivesItsNode(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a := node(t, conf, Config{Node: "a"})
		ep := a.create(t)
		// it dies before the record that removes them
		must.Get((outbox{a.Log}).copyBatches(t.Context(), 0))(t)
		must.Get(a.update(t.Context(), ep.ID, func(e *Thing) { e.Name = "x" }))(t)
		v := a.view.Load()
		if _, err := a.writeSnapshot(context.Background(), v); err != nil { // also when the log before it is gone
			t.Fatal(err)
		}
		must.Do(t, a.reader.Trim(t.Context(), recordLog, v.nextOffset))
		a.stop()
		b := node(t, conf, Config{Node: "b"}) // there is no owner: after a while this node copies all the same
		kit.WaitFor(t, "the outbox is empty", func() bool { return b.outboxLen() == 0 })
		entries, records := auditEntries(t, b)
		if want := []string{"system  account.created []", "system  endpoint.created []",
			"system  endpoint.updated [name]"}; !slices.Equal(auditText(entries), want) || records != 5 {
			t.Errorf("%q in %d records\nwant %q", auditText(entries), records, want)
		}
	})
}

// While the audit log is unavailable, changes are refused when the outbox is full, and accepted afterwards.
func TestFullOutboxRefusesChanges(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		n := node(t, conf, Config{Node: "a", Limits: Limits{Outbox: 3}})
		n.create(t)
		ep := n.create(t)
		rename := func(e *Thing) { e.Name = "x" }
		if _, err := n.update(t.Context(), ep.ID, rename); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("a change beyond the bound: %v", err)
		}
		n.SetOwner(true)
		kit.WaitFor(t, "the outbox is empty", func() bool { return n.outboxLen() == 0 })
		must.Get(n.update(t.Context(), ep.ID, rename))(t)
	})
}

func TestChangedMembers(t *testing.T) {
	f := func(before, after string, want ...string) {
		t.Helper()
		is.List(t, changedMembers([]byte(before), []byte(after)), want, "%s → %s", before, after)
	}
	f(`{"a":1}`, `{"a":1}`)
	f(`{"a":1,"updated_at":1}`, `{"a":2,"updated_at":2}`, "a")
	f(`{"a":1}`, `{"b":1}`, "a", "b")
	f(`{"a":{"b":1,"c":1}}`, `{"a":{"b":2,"c":1}}`, "a.b")
	f(`{"a":{"b":1}}`, `{"a":null}`, "a")
	f(`{"a":{}}`, `{"a":{"b":1}}`, "a")
	f(`{"a":[1]}`, `{"a":[2]}`, "a")
	f(`{"d":[{"id":"x","n":1},{"id":"y"}]}`, `{"d":[{"id":"x","n":2},{"id":"z"}]}`, "d.x.n", "d.y", "d.z")
	f(`{"d":[{"id":"x"},{"id":"y"}]}`, `{"d":[{"id":"y"},{"id":"x"}]}`)
	f(`{"d":[{"n":1}]}`, `{"d":[{"n":2}]}`, "d")
	f(`{}`, `{"a":false,"b":[]}`, "a", "b")
	f(`{"a":{"b":{"c":{"d":{"e":1}}}}}`, `{"a":{"b":{"c":{"d":{"e":2}}}}}`, "a.b.c.d")

	many := make(map[string]int)
	for i := range maxChanged {
		many[fmt.Sprintf("m%03d", i)] = i
	}
	raw, _ := json.Marshal(many)
	if got := changedMembers([]byte(`{}`), raw); len(got) != maxChanged || got[maxChanged-1] == "…" {
		t.Errorf("at the bound: %q", got)
	}
	many["z"] = 1
	raw, _ = json.Marshal(many)
	if got := changedMembers([]byte(`{}`), raw); len(got) != maxChanged || got[maxChanged-1] != "…" {
		t.Errorf("above the bound: %q", got)
	}
}

// Each entry is decoded once, however many wait; a page holds the newest; copied entries leave the cache.
func TestOutboxEntriesAreDecodedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		n := node(t, conf, Config{Node: "a"})
		var last string
		for range 20 {
			last = n.create(t).ID
		}
		q := audit.Query{Account: n.account(), Actions: []string{"endpoint.created"}, Limit: 3}
		page := n.Outbox(q)
		if len(page) != 4 || page[0].Entity != last || n.outboxLen() < 20 {
			t.Errorf("%d of %d entries, the first of %v", len(page), n.outboxLen(), page[0].Entity)
		}
		before := maps.Clone(n.entries.bySeq)
		if len(before) != n.outboxLen() {
			t.Errorf("%d of %d entries are cached", len(before), n.outboxLen())
		}
		q.Entities = []string{"ep_none"}
		if page := n.Outbox(q); len(page) != 0 || !maps.Equal(before, n.entries.bySeq) {
			t.Errorf("%d entries of an unknown endpoint, or some were decoded again", len(page))
		}
		n.SetOwner(true)
		kit.WaitFor(t, "the outbox is empty", func() bool { return n.outboxLen() == 0 })
		if page := n.Outbox(q); len(page) != 0 || len(n.entries.bySeq) != 0 {
			t.Errorf("%d entries are cached after they were copied", len(n.entries.bySeq))
		}
	})
}
