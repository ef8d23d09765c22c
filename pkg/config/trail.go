package config

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

// The trail is what the audit log has still to be told: part of the state, so that it is on every node and in every
// snapshot. Applying a record adds to it. One node copies it to the topic audit and then writes a record that takes
// away what was copied: whichever node dies between the two, another one copies the same entries again, under the
// same ids.

const (
	// maxTrail bounds the trail; while it is full nothing is changed, for nobody would ever hear of it. What takes
	// something away is, and erasures are: their number is bounded by what there is to take away, and by MaxErasures.
	maxTrail = 100_000
	// trailBatch is how many entries are copied at once.
	trailBatch = 500
	// tellAfter is how long the record that takes copied entries away waits for more of them.
	tellAfter = 5 * time.Second
	// trailStale is after how long any node copies what the one whose task it is has left.
	trailStale = 15 * time.Second
	// maxChanged bounds the names of members in one entry.
	maxChanged = 50
)

// audited says which changes of a kind the audit log shows.
type audited uint8

const (
	auditNone  audited = iota // state of the service's own, no configuration
	auditAll                  // every change
	auditMade                 // that there is one, and its end
	auditAsked                // what somebody has asked for, not how it goes on by itself
)

func (k kind) audited() audited {
	switch k {
	case kindAnswer, kindAlert, kindTrail, kindLog:
		return auditNone
	case kindRun, kindErasure:
		return auditMade
	case kindRecovery:
		return auditAsked
	default:
		return auditAll
	}
}

// trail is one change as it waits to be told.
type trail struct {
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

func (t *trail) entityID() string   { return t.OpID }
func (t *trail) secretHash() []byte { return nil }

// sign says in a record who asks for it, and what it changes.
func (c *Control) sign(ctx context.Context, r *record) {
	from := originOf(ctx)
	r.By, r.RequestID, r.RemoteIP = from.Actor, from.RequestID, from.RemoteIP
	sets := &c.view.Load().sets
	if e := sets[kindKey].living(r.By); e != nil {
		r.ByName = c.codec.key(e).Name
	} else if e := sets[kindUser].living(r.By); e != nil {
		r.ByName = c.codec.value(e).(*User).Email
	}
	if r.before != nil && r.before.kind.audited() != auditNone {
		r.Changed = changedMembers(c.codec.unpack(r.before), r.Value)
	}
}

// note is what the trail keeps of a record that is applied; nil when the audit log does not show it. It looks at the
// record alone, for every node must come to the same.
func (c *codec) note(r *record) (packed []byte, size int32) {
	switch r.kind.audited() {
	case auditNone:
		return nil, 0
	case auditMade:
		if r.Op == opPut && r.Pre != preAbsent || r.Op == opForget {
			return nil, 0
		}
	case auditAsked:
		if r.By == "" {
			return nil, 0
		}
	}
	raw, err := json.Marshal(trail{
		OpID: r.OpID, At: r.At, By: r.By, ByName: r.ByName, Action: r.action(), Kind: r.Kind, ID: r.ID, Changed: r.Changed,
		RequestID: r.RequestID, RemoteIP: addrText(r.RemoteIP),
	})
	if err != nil {
		panic(fmt.Sprintf("BUG: encode the trail of %s %s: %v", r.Kind, r.ID, err)) // texts and a time that was read
	}
	return c.pack(raw), int32(len(raw))
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

// told takes away what the audit log has.
func (s *set) told(upTo int64) {
	for e, ok := s.bySeq.least(); ok && e.seq <= upTo; e, ok = s.bySeq.least() {
		s.remove(e)
	}
}

// entry is the audit log's of a place on the trail.
func (c *Control) entry(e *entity, account string) audit.Entry {
	t := &trail{}
	if err := json.Unmarshal(c.codec.unpack(e), t); err != nil {
		panic(fmt.Sprintf("BUG: the trail of %s was applied and %v", e.id, err))
	}
	from, _ := netip.ParseAddr(t.RemoteIP) // the zero address for none
	return audit.Entry{
		ID: audit.NewID(t.At, uint32(e.seq), t.OpID), Account: account, At: t.At.Truncate(time.Millisecond), Actor: audit.ActorOf(t.By, t.ByName), Action: t.Action,
		EntityType: t.Kind, Entity: t.ID, Changes: t.Changed, RequestID: t.RequestID, RemoteIP: from,
	}
}

// entryCache holds the entries of the trail as the audit log shows them, so that each is decoded once, however often the audit
// log is read while many of them wait.
type entryCache struct {
	mu    sync.Mutex // guards bySeq; held while entries are decoded: who comes meanwhile does not decode them too
	bySeq map[int64]*audit.Entry
}

// Trail returns the newest entries that match the query, one more than its limit at most, of those that are applied here and
// that the audit log may not have yet.
func (c *Control) Trail(q audit.Query) []audit.Entry {
	var found []*audit.Entry
	trail, account := c.view.Load().sets[kindTrail].bySeq, c.Account().ID
	c.entries.mu.Lock()
	defer c.entries.mu.Unlock()
	if least, some := trail.least(); !some {
		c.entries.bySeq = nil
	} else if len(c.entries.bySeq) > trail.len {
		maps.DeleteFunc(c.entries.bySeq, func(seq int64, _ *audit.Entry) bool { return seq < least.seq })
	}
	for e := range trail.below(math.MaxUint64) {
		entry := c.entries.bySeq[e.seq]
		if entry == nil {
			decoded := c.entry(e, account)
			if entry = &decoded; c.entries.bySeq == nil {
				c.entries.bySeq = make(map[int64]*audit.Entry)
			}
			c.entries.bySeq[e.seq] = entry
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

// tell copies the trail to the topic audit until ctx ends. It is the task of the node that writes snapshots; another
// one does it when nobody has for a while, for entries that are copied twice are the same.
func (c *Control) tell(ctx context.Context) error {
	var told, said int64 // sequences up to which this node has copied, and has taken away
	var least int64      // of the trail, when it was looked at last
	since := c.now()     // when it became that
	for {
		changed := c.changed.wait()
		trail := c.view.Load().sets[kindTrail].bySeq
		first, some := trail.least()
		if some && first.seq != least {
			least, since = first.seq, c.now()
		}
		wait := time.Hour
		switch stale := c.now().Sub(since) >= trailStale; {
		case !some:
		case !c.owner.Load() && !stale:
			wait = time.Second
		default:
			var err error
			if told, err = c.copyTrail(ctx, told); err == nil && told > said && (trail.len >= trailBatch || c.now().Sub(since) >= tellAfter) {
				if err = c.takeAway(ctx, told); err == nil {
					said = told
				}
			}
			if err != nil && ctx.Err() == nil {
				c.log.LogAttrs(ctx, slog.LevelWarn, "write to the audit log", slog.Any("error", err))
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

// copyTrail makes what is on the trail after a sequence durable in the topic audit, and returns up to where it has.
func (c *Control) copyTrail(ctx context.Context, after int64) (int64, error) {
	v := c.view.Load()
	var waiting []*entity
	for e := range v.sets[kindTrail].bySeq.below(math.MaxUint64) {
		if e.seq <= after {
			break
		}
		waiting = append(waiting, e)
	}
	slices.Reverse(waiting)
	for batch := range slices.Chunk(waiting, trailBatch) {
		limited, cancel := context.WithTimeout(ctx, c.timing.write)
		group, running := errgroup.WithContext(limited)
		for _, e := range batch {
			entry := c.entry(e, c.Account().ID)
			group.Go(func() error {
				r, err := entry.Record()
				if err != nil {
					return err
				}
				return c.producer.ProduceSync(running, stream.AuditLog, 0, r)
			})
		}
		err := group.Wait()
		cancel()
		if err != nil {
			return after, err
		}
		after = batch[len(batch)-1].seq
	}
	return after, nil
}

// takeAway writes the record that shortens the trail.
func (c *Control) takeAway(ctx context.Context, upTo int64) error {
	r := c.newRecord(c.view.Load().state, kindTrail, kindTrail.String(), preNone, opTold)
	r.Rev = upTo
	_, err := c.write(ctx, r, nil)
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
