package conflog

import (
	"bytes"
	"cmp"
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

// The outbox holds the changes whose audit rows are not in Kafka yet: part of the state, so that it is on every node
// and in every snapshot. Applying a record adds to it. One node copies it to the topic audit and then writes a record
// that takes away what was copied: whichever node dies between the two, another one copies the same entries again,
// under the same ids.

const (
	// maxOutbox bounds the outbox; while it is full nothing is changed, for nobody would ever hear of it. What takes
	// something away is, and erasures are: their number is bounded by what there is to take away, and by [Bounds.Always].
	maxOutbox = 100_000
	// outboxBatch is how many entries are copied at once.
	outboxBatch = 500
	// removeAfter is how long the record that takes copied entries away waits for more of them.
	removeAfter = 5 * time.Second
	// outboxStale is after how long any node copies what the one whose task it is has left.
	outboxStale = 15 * time.Second
	// maxChanged bounds the names of members in one entry.
	maxChanged = 50
)

// waiting is one change as it stands in the outbox.
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
}

// outbox copies the changes to the audit log.
type outbox struct{ *Log }

// setOrigin says in a record who asks for it, and what it changes.
func (l outbox) setOrigin(ctx context.Context, r *record) {
	from := originOf(ctx)
	r.By, r.RequestID, r.RemoteIP = from.Actor, from.RequestID, from.RemoteIP
	r.ByName = l.entities.ActorName(l.view.Load(), r.By)
	if r.replaced != nil && r.Value != nil && l.kinds.infos[r.kind].Audited != AuditNone {
		r.Changed = changedMembers(l.Value(r.replaced), r.Value)
	}
}

// note is what the outbox keeps of a record that is applied; nil when the audit log does not show it. It looks at the
// record alone, for every node must come to the same.
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
		RequestID: r.RequestID, RemoteIP: addrText(r.RemoteIP),
	})
	if err != nil {
		panic(fmt.Sprintf("BUG: encode the note of %s %s: %v", r.Kind, r.ID, err)) // texts and a time that was read
	}
	return p.pack(raw), int32(len(raw))
}

// action names what a record does.
func (r *record) action() string {
	what := "updated"
	switch {
	case r.Op == opDelete, r.Op == opForget:
		what = "deleted"
	case r.Pre == preAbsent:
		what = "created"
	case r.Op == opAdopt:
		what = "adopted"
	case slices.Contains(r.Changed, "revoked_at"):
		what = "revoked"
	}
	return r.Kind + "." + what
}

// addrText is the address of a request; empty for none.
func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// copied takes away what the audit log has.
func (s *set) removeUpTo(upTo int64) {
	for e, ok := s.bySeq.least(); ok && e.Seq <= upTo; e, ok = s.bySeq.least() {
		s.remove(e)
	}
}

// entry is the audit log's of a change in the outbox.
func (l outbox) auditEntry(e *Entity, account string) audit.Entry {
	t := &outboxEntry{}
	if err := json.Unmarshal(l.Value(e), t); err != nil {
		panic(fmt.Sprintf("BUG: the note of %s was applied and %v", e.ID, err))
	}
	from, _ := netip.ParseAddr(t.RemoteIP) // the zero address for none
	return audit.Entry{
		ID: audit.NewID(t.At, uint32(e.Seq), t.OpID), Account: account, At: t.At.Truncate(time.Millisecond),
		Actor: audit.ActorOf(t.By, t.ByName), Action: t.Action, EntityType: t.Kind, Entity: t.ID, Changes: t.Changed,
		RequestID: t.RequestID, RemoteIP: from,
	}
}

// entryCache holds the entries of the outbox as the audit log shows them, so that each is decoded once, however often
// the audit log is read while many of them wait.
type entryCache struct {
	mu    sync.Mutex // guards bySeq; held while entries are decoded: who comes meanwhile does not decode them too
	bySeq map[int64]*audit.Entry
}

// Outbox returns the newest entries that match the query, one more than its limit at most, of those that are applied
// here and that the audit log may not have yet.
func (l *Log) Outbox(q audit.Query) []audit.Entry {
	var found []*audit.Entry
	v := l.view.Load()
	all, account := v.sets[KindOutbox].bySeq, l.entities.AccountID(v)
	l.entries.mu.Lock()
	defer l.entries.mu.Unlock()
	if least, some := all.least(); !some {
		l.entries.bySeq = nil
	} else if len(l.entries.bySeq) > all.len {
		maps.DeleteFunc(l.entries.bySeq, func(seq int64, _ *audit.Entry) bool { return seq < least.Seq })
	}
	for e := range all.below(math.MaxUint64) {
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
	slices.SortFunc(found, func(a, b *audit.Entry) int { return cmp.Compare(string(b.ID[:]), string(a.ID[:])) })
	newest := make([]audit.Entry, min(len(found), q.Limit+1))
	for i := range newest {
		newest[i] = *found[i]
	}
	return newest
}

// copyOutbox copies the outbox to the topic audit until ctx ends. It is the task of the node that writes snapshots;
// another one does it when nobody has for a while, for entries that are copied twice are the same.
func (l outbox) copyOutbox(ctx context.Context) error {
	var copied, removed int64 // sequences up to which this node has copied, and has taken away
	var least int64           // of the outbox, when it was looked at last
	since := l.now()          // when it became that
	for {
		changed := l.changed.wait()
		all := l.view.Load().sets[KindOutbox].bySeq
		first, some := all.least()
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
			due := all.len >= outboxBatch || l.now().Sub(since) >= removeAfter
			if err == nil && copied > removed && due {
				if err = l.removeCopied(ctx, copied); err == nil {
					removed = copied
				}
			}
			if err != nil && ctx.Err() == nil {
				l.log.LogAttrs(ctx, slog.LevelWarn, "cannot write to the audit log", slog.Any("error", err))
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

// copyBatches makes what is in the outbox after a sequence durable in the topic audit, and returns up to where it has.
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

// removeCopied writes the record that shortens the outbox.
func (l outbox) removeCopied(ctx context.Context, upTo int64) error {
	r := l.newRecord(l.view.Load().state, KindOutbox, l.kinds.name(KindOutbox), preNone, opCopied)
	r.Rev = upTo
	_, err := writer(l).write(ctx, r)
	return err
}

// changedMembers names the members in which two values differ, as paths: of a list whose elements have ids an element
// is named by its id. Values never stand in it. Of very many only the first are named.
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

// diffDepth is how deep members are named: destinations, one of them, its retry policy, a member of that.
const diffDepth = 3

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

// members are those of an object, or the elements of a list by their ids; nil for anything else.
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
