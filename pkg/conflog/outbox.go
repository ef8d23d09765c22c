package conflog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/stream"
)

// The outbox holds the changes whose audit rows are not in Kafka yet. It is part of the state, so it is on every node
// and in every snapshot. Applying an audited record adds an entry. One node copies the entries to the topic audit and
// then writes a record that removes them from the outbox. If it fails between the two steps, another node copies the
// same entries again under the same ids.

const (
	// maxOutbox is the maximum number of entries. While the outbox is full, changes are refused, because every change must
	// be audited and the outbox is in the memory of every node. Changes that only restrict or revoke something, deletions
	// and erasures are still accepted: their number is bounded by what exists and by [Bounds.MaxCount].
	maxOutbox = 100_000
	// outboxBatch is how many entries are copied at once.
	outboxBatch = 500
	// removeAfter is how long the copying node collects copied entries before it writes the record that removes them.
	removeAfter = 5 * time.Second
	// outboxStale is how long an entry stays the oldest before any node that sees it copies the outbox.
	outboxStale = 15 * time.Second
	// maxChanged is the maximum number of member names in one entry.
	maxChanged = 50
)

// outboxEntry is one change that is not yet in the audit log.
type outboxEntry struct {
	OpID      string    `json:"op"`
	At        time.Time `json:"at"`
	By        string    `json:"by,omitempty"`
	ByName    string    `json:"name,omitempty"`
	Action    string    `json:"act"`
	Kind      string    `json:"kind"`
	ID        string    `json:"id"`
	Changed   []string  `json:"chg,omitempty"`
	RequestID string    `json:"req,omitempty"`
	RemoteIP  string    `json:"ip,omitempty"`
	Related   string    `json:"rel,omitempty"`
}

// outbox copies the outbox to the audit log.
type outbox struct{ *Log }

// setOrigin sets the origin of a record, and the names of the members that it changes.
func (l outbox) setOrigin(ctx context.Context, r *record) {
	from := OriginOf(ctx)
	r.By, r.RequestID, r.RemoteIP, r.Related = from.Actor, from.RequestID, from.RemoteIP, from.Related
	r.ByName = l.entities.ActorName(l.view.Load(), r.By)
	if r.replaced != nil && r.Value != nil && l.kinds.infos[r.kind].Audited != AuditNone {
		// An earlier version may have left out what this one writes.
		r.Changed = changedMembers(l.entities.Known(r.kind, l.Value(r.replaced)), l.entities.Known(r.kind, r.Value))
	}
}

// packOutboxEntry returns the compressed outbox entry of a record; nil when it is not audited. It depends on the record
// alone, so every node stores the same entry.
func (p *parser) packOutboxEntry(r *record) (packed []byte, size int32) {
	switch p.kinds.infos[r.kind].Audited {
	case AuditNone:
		return nil, 0
	case AuditCreateDelete:
		if r.Op == opPut && r.Pre != preAbsent || r.Op == opForget {
			return nil, 0
		}
	case AuditRequested:
		if r.By == "" {
			return nil, 0
		}
	}
	raw, err := json.Marshal(outboxEntry{
		OpID: r.OpID, At: r.At, By: r.By, ByName: r.ByName, Action: r.action(), Kind: r.Kind, ID: r.ID, Changed: r.Changed,
		RequestID: r.RequestID, RemoteIP: addrText(r.RemoteIP), Related: r.Related,
	})
	if err != nil {
		// strings and a time that was parsed
		panic(fmt.Sprintf("BUG: encode the outbox entry of %s %s: %v", r.Kind, r.ID, err))
	}
	return p.pack(raw), int32(len(raw))
}

// action returns the audit action of a record, such as key.revoked.
func (r *record) action() string {
	verb := "updated"
	switch {
	case r.Op == opDelete, r.Op == opForget:
		verb = "deleted"
	case r.Pre == preAbsent:
		verb = "created"
	case r.Op == opAdopt:
		verb = "adopted"
	case slices.Contains(r.Changed, "revoked_at"):
		verb = "revoked"
	}
	return r.Kind + "." + verb
}

// addrText returns an address as text; empty for none.
func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// removeUpTo removes the entries up to a sequence: the audit log has them.
func (s *set) removeUpTo(upTo int64) {
	for e, ok := s.bySeq.Least(); ok && e.Seq <= upTo; e, ok = s.bySeq.Least() {
		s.remove(e)
	}
}

// auditEntry decodes an outbox entry.
func (l outbox) auditEntry(e *Entity, account string) audit.Entry {
	t := &outboxEntry{}
	if err := json.Unmarshal(l.Value(e), t); err != nil {
		panic(fmt.Sprintf("BUG: the outbox entry of %s was applied but cannot be decoded: %v", e.ID, err))
	}
	from, _ := netip.ParseAddr(t.RemoteIP) // the zero address for none
	return audit.Entry{
		ID: audit.NewID(t.At, uint32(e.Seq), t.OpID), Account: account, At: t.At.Truncate(time.Millisecond),
		Actor: audit.ActorOf(t.By, t.ByName), Action: t.Action, EntityType: t.Kind, Entity: t.ID, Changes: t.Changed,
		RequestID: t.RequestID, RemoteIP: from, Related: t.Related,
	}
}

// entryCache holds decoded outbox entries, so that each is decoded once, however often the audit log is read while it
// waits.
type entryCache struct {
	mu    sync.Mutex // guards bySeq; held while entries are decoded, so that two readers do not decode the same ones
	bySeq map[int64]*audit.Entry
}

// Outbox returns the newest entries of the outbox that match the query, at most q.Limit + 1. The audit log in
// ClickHouse may already have some of them.
func (l *Log) Outbox(q audit.Query) []audit.Entry {
	var found []*audit.Entry
	v := l.view.Load()
	all, account := v.sets[KindOutbox].bySeq, l.entities.AccountID(v)
	l.entries.mu.Lock()
	defer l.entries.mu.Unlock()
	if least, some := all.Least(); !some {
		l.entries.bySeq = nil
	} else if len(l.entries.bySeq) > all.Len {
		maps.DeleteFunc(l.entries.bySeq, func(seq int64, _ *audit.Entry) bool { return seq < least.Seq })
	}
	for e := range all.Below(math.MaxUint64) {
		entry := l.entries.bySeq[e.Seq]
		if entry == nil {
			decoded := (outbox{l}).auditEntry(e, account)
			if entry = &decoded; l.entries.bySeq == nil {
				l.entries.bySeq = make(map[int64]*audit.Entry)
			}
			l.entries.bySeq[e.Seq] = entry
		}
		if q.Matches(entry) {
			found = append(found, entry)
		}
	}
	slices.SortFunc(found, func(a, b *audit.Entry) int { return b.ID.Compare(a.ID) })
	newest := make([]audit.Entry, min(len(found), q.Limit+1))
	for i := range newest {
		newest[i] = *found[i]
	}
	return newest
}

// copyOutbox copies the outbox to the topic audit until ctx ends. The owner of partition 0 of events does it. A node
// that has seen the same oldest entry for 15 s does it too; entries that are copied twice have the same ids.
func (l outbox) copyOutbox(ctx context.Context) error {
	var copied, removed int64 // sequences up to which this node has copied entries, and has removed them
	var least int64           // sequence of the oldest entry at the last check
	since := l.now()          // when this node first saw that entry as the oldest
	for {
		changed := l.changed.wait()
		all := l.view.Load().sets[KindOutbox].bySeq
		first, some := all.Least()
		if some && first.Seq != least {
			least, since = first.Seq, l.now()
		}
		wait := time.Hour
		switch stale := l.now().Sub(since) >= outboxStale; {
		case !some:
		case !l.owner.Load() && !stale:
			wait = time.Second
		default:
			var err error
			copied, err = l.copyBatches(ctx, copied)
			due := all.Len >= outboxBatch || l.now().Sub(since) >= removeAfter
			if err == nil && copied > removed && due {
				if err = l.removeCopied(ctx, copied); err == nil {
					removed = copied
				}
			}
			if err != nil && ctx.Err() == nil {
				l.log.LogAttrs(ctx, slog.LevelWarn, "cannot copy the outbox to the audit log", slog.Any("error", err))
			}
			wait = time.Second
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
	}
}

// copyBatches writes the entries after a sequence to the topic audit, and returns the sequence up to which the brokers
// have acknowledged them.
func (l outbox) copyBatches(ctx context.Context, after int64) (int64, error) {
	v := l.view.Load()
	account := l.entities.AccountID(v)
	var waiting []*Entity
	for e := range v.NewestFirst(KindOutbox, 0) {
		if e.Seq <= after {
			break
		}
		waiting = append(waiting, e)
	}
	slices.Reverse(waiting)
	for batch := range slices.Chunk(waiting, outboxBatch) {
		limited, cancel := context.WithTimeout(ctx, l.timing.WriteTimeout)
		group, running := errgroup.WithContext(limited)
		for _, e := range batch {
			entry := l.auditEntry(e, account)
			group.Go(func() error {
				r, err := entry.Record()
				if err != nil {
					return err
				}
				return l.producer.ProduceSync(running, stream.AuditLog, 0, r)
			})
		}
		err := group.Wait()
		cancel()
		if err != nil {
			return after, err
		}
		after = batch[len(batch)-1].Seq
	}
	return after, nil
}

// removeCopied writes the record that removes copied entries from the outbox.
func (l outbox) removeCopied(ctx context.Context, upTo int64) error {
	r := l.newRecord(l.view.Load().state, KindOutbox, l.kinds.name(KindOutbox), preNone, opCopied)
	r.Rev = upTo
	_, err := writer(l).write(ctx, r)
	return err
}

// changedMembers returns the paths of the members in which two JSON values differ, at most maxChanged. An element of a
// list whose elements have ids is named by its id. Values are never included.
func changedMembers(before, after []byte) []string {
	var was, is any
	if json.Unmarshal(before, &was) != nil || json.Unmarshal(after, &is) != nil {
		return nil
	}
	var names []string
	diff("", was, is, 0, &names)
	names = slices.DeleteFunc(names, func(n string) bool { return n == "updated_at" })
	slices.Sort(names)
	if len(names) > maxChanged {
		names = append(names[:maxChanged-1], "…")
	}
	return names
}

// diffDepth is the depth down to which values are compared member by member; deeper ones are compared as a whole. The
// deepest path has four names: destinations, one destination, its headers, one header.
const diffDepth = 3

// diff appends the paths of the members in which two decoded JSON values differ.
func diff(path string, was, is any, depth int, names *[]string) {
	a, b := members(was), members(is)
	if depth > diffDepth || a == nil || b == nil || path != "" && len(a)*len(b) == 0 {
		if x, err := json.Marshal(was); err == nil {
			if y, err := json.Marshal(is); err != nil || !bytes.Equal(x, y) {
				*names = append(*names, path)
			}
		}
		return
	}
	all := maps.Clone(a)
	maps.Copy(all, b)
	for name := range all {
		sub := name
		if path != "" {
			sub = path + "." + name
		}
		diff(sub, a[name], b[name], depth+1, names)
	}
}

// members returns the members of an object, or the elements of a list by their ids; nil for anything else.
func members(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return v
	case []any:
		byID := make(map[string]any, len(v))
		for _, element := range v {
			o, _ := element.(map[string]any)
			id, _ := o["id"].(string)
			if id == "" {
				return nil
			}
			byID[id] = o
		}
		return byID
	}
	return nil
}
