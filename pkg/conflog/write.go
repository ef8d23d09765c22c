package conflog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// MaxWriteTries bounds how often a conditional write is tried when other writers win.
const MaxWriteTries = 5

// originKey is the context key of an Origin.
type originKey struct{}

// Origin is the caller of a change and its request, for the audit log. Without one the audit log shows the service
// itself.
type Origin struct {
	Actor     string // id of an API key or a user, audit.Operator, or the name of a component
	RequestID string
	RemoteIP  netip.Addr
	Related   string // id of another entity that the changes are related to; see audit.Entry
}

// WithOrigin returns a context with the origin of the changes that are made with it.
func WithOrigin(ctx context.Context, from Origin) context.Context {
	return context.WithValue(ctx, originKey{}, from)
}

// OriginOf returns the origin of the changes that are made with a context; zero for none.
func OriginOf(ctx context.Context) Origin {
	from, _ := ctx.Value(originKey{}).(Origin)
	return from
}

// WriteResult is the result of a record after this node has applied it.
type WriteResult struct {
	Entity *Entity // the entity after the record; nil when there is none
	Second *Entity // of a transaction: the other entity after the record

	result     result
	nextOffset int64     // offset after the record: a node at this position has applied it
	appliedAt  time.Time // when this node applied it, which is after the append
}

// CurrentPosition returns a result for everything that this node has applied, for use with Barrier.
func (l *Log) CurrentPosition() WriteResult {
	return WriteResult{nextOffset: l.view.Load().nextOffset, appliedAt: time.Now()}
}

// writer appends records.
type writer struct{ *Log }

// write appends one record and waits until this node has applied it and the brokers have acknowledged it. It returns
// the error of a bound or of the level when the record was not applied because of it. ErrUnavailable after the append
// means that the outcome is unknown, unless the producer's buffer was full.
func (l writer) write(ctx context.Context, r record) (res WriteResult, err error) {
	return l.writeSigned(ctx, r, l.macKeys.Load())
}

// writeSigned is write with the given MAC keys: for the first record of a log, whose secret is not known yet.
func (l writer) writeSigned(ctx context.Context, r record, keys *macKeys) (res WriteResult, err error) {
	defer func() { l.countWrite(res, err) }()
	s := l.view.Load()
	if err := s.checkLevel(r.kind); err != nil {
		return res, err
	}
	outbox(l).setOrigin(ctx, &r)
	if err := l.checkAppend(&r); err != nil {
		return res, err
	}
	rec, err := l.encode(r, keys)
	if err != nil {
		return res, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timing.WriteTimeout)
	defer cancel()
	found := l.pendingWrites.expect(r.OpID)
	defer l.pendingWrites.forget(r.OpID)
	acked := make(chan error, 1)
	l.producer.Produce(stream.Control, 0, rec, func(_ *stream.Record, err error) { acked <- err })

	// Wait for both: the embedded engine delivers a record to readers before it is on disk.
	for waitAck, waitResult := true, true; waitAck || waitResult; {
		select {
		case res = <-found:
			waitResult = false
		case err := <-acked:
			if err != nil && waitResult {
				return l.resolveFailedAppend(ctx, found, err)
			}
			waitAck = false
		case <-l.stopped:
			return res, fmt.Errorf("%w: this node is stopping", ErrUnavailable)
		case <-ctx.Done():
			return res, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	if res.result == early {
		return res, l.view.Load().errEarly(r.kind) // an older node has written the first record of the log in the meantime
	}
	if res.result == full { // other writers have used the room in the meantime
		return res, cmp.Or(l.checkAppend(&r), fmt.Errorf("%w: a bound of the configuration was reached", ErrUnavailable))
	}
	return res, nil
}

// encode returns the signed Kafka record.
func (l writer) encode(r record, keys *macKeys) (*stream.Record, error) {
	if keys == nil {
		return nil, fmt.Errorf("%w: the log has no first record yet", ErrUnavailable)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record of %s: %w", r.ID, err)
	}
	return keys.sign(macRecord, &stream.Record{Key: []byte(r.ID), Value: body}), nil
}

// checkAppend returns why a record is not even appended: every node would refuse it, or the outbox is full. Records
// that only restrict or revoke something are always appended. A full outbox does not stop what the service itself
// changes in kinds with AuditRequested: these changes get no entry.
func (l writer) checkAppend(r *record) error {
	s := l.view.Load().state
	if r.Op != opPut {
		return nil
	}
	waiting := s.sets[KindOutbox].bySeq.Len
	info := &l.kinds.infos[r.kind]
	noEntry := info.Audited == AuditRequested && r.By == ""
	if waiting >= l.cfg.Limits.Outbox && !r.Exempt && !info.AllowWhenOutboxFull && !noEntry {
		return fmt.Errorf("%w: %d changes wait to be written to the audit log", ErrUnavailable, waiting)
	}
	p := put{size: len(r.Value), exempt: r.Exempt}
	if index, err := l.index(r.kind, r.Value); err == nil {
		p.pending = index.Pending
	}
	return s.checkBounds(r.kind, s.sets[r.kind].findLiving(r.ID), p)
}

// CheckPut returns the error with which a new value of an entity would be refused, or nil. It writes nothing. exempt:
// the value only restricts or revokes something, which is allowed even when a bound is reached.
func CheckPut(l *Log, k Kind, id string, value []byte, exempt bool) error {
	return writer{l}.checkAppend(&record{Op: opPut, kind: k, ID: id, Value: value, Exempt: exempt})
}

// resolveFailedAppend finds out whether a record whose append failed is in the log nevertheless.
func (l writer) resolveFailedAppend(ctx context.Context, found <-chan WriteResult, failed error) (WriteResult, error) {
	if errors.Is(failed, stream.ErrBufferFull) {
		return WriteResult{}, fmt.Errorf("%w: %w", ErrUnavailable, failed)
	}
	syncErr := l.sync(ctx)
	// The tail delivers the result right after it has published the state.
	timer := time.NewTimer(l.timing.PeerWait)
	defer timer.Stop()
	select {
	case res := <-found:
		return res, nil
	case <-timer.C:
		return WriteResult{}, errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, failed), syncErr)
	}
}

// Create writes a new entity. It returns ErrConflict when an entity with its id or hash exists.
func (l *Log) Create(ctx context.Context, k Kind, id string, value []byte) (WriteResult, error) {
	if err := l.WaitReady(ctx); err != nil {
		return WriteResult{}, err
	}
	return l.CreateBeforeReady(ctx, k, id, value)
}

// CreateBeforeReady is Create for the start steps, which run before the node is ready.
func (l *Log) CreateBeforeReady(ctx context.Context, k Kind, id string, value []byte) (WriteResult, error) {
	r := l.newRecord(l.view.Load().state, k, id, preAbsent, opPut)
	r.Value = value
	res, err := (writer{l}).write(ctx, r)
	if err == nil && res.result != applied {
		err = fmt.Errorf("create %s %s: %w: it exists already", r.Kind, id, ErrConflict)
	}
	return res, err
}

// Delete deletes an entity and leaves a tombstone. It returns ErrNotFound when there is none, or another writer deleted
// it first. Unless rev is 0, it returns ErrConflict when the entity has another revision.
func (l *Log) Delete(ctx context.Context, k Kind, id string, rev int64) (WriteResult, error) {
	if err := l.WaitReady(ctx); err != nil {
		return WriteResult{}, err
	}
	s := l.view.Load().state
	if s.sets[k].findLiving(id) == nil {
		return WriteResult{}, ErrNotFound
	}
	r, otherwise := l.newRecord(s, k, id, preExists, opDelete), ErrNotFound
	if rev != 0 {
		r, otherwise = l.newRecord(s, k, id, preRev, opDelete), ErrConflict
		r.Rev = rev
	}
	res, err := (writer{l}).write(ctx, r)
	if err != nil {
		return res, fmt.Errorf("delete %s: %w", l.kinds.name(k), err)
	}
	return res, errUnless(res.result == applied, otherwise)
}

// Forget removes an expired entity without a tombstone. It returns nil when there is none.
func (l *Log) Forget(ctx context.Context, k Kind, id string) error {
	if err := l.WaitReady(ctx); err != nil {
		return err
	}
	s := l.view.Load().state
	if s.sets[k].findLiving(id) == nil {
		return nil
	}
	return (writer{l}).forget(ctx, l.newRecord(s, k, id, preExists, opForget))
}

// ForgetIfUnchanged is Forget if the entity still has that revision; otherwise it does nothing.
func (l *Log) ForgetIfUnchanged(ctx context.Context, k Kind, id string, rev int64) error {
	if err := l.WaitReady(ctx); err != nil {
		return err
	}
	r := l.newRecord(l.view.Load().state, k, id, preRev, opForget)
	r.Rev = rev
	return (writer{l}).forget(ctx, r)
}

func (l writer) forget(ctx context.Context, r record) error {
	if _, err := l.write(ctx, r); err != nil {
		return fmt.Errorf("forget %s %s: %w", r.Kind, r.ID, err)
	}
	return nil
}

// Adopt replaces the only entity of a singleton kind, whatever its id.
func (l *Log) Adopt(ctx context.Context, k Kind, id string, value []byte) error {
	r := l.newRecord(l.view.Load().state, k, id, preNone, opAdopt)
	r.Value = value
	res, err := (writer{l}).write(ctx, r)
	if err == nil && res.result != applied {
		err = fmt.Errorf("replace the %s: %w: the result of its record is %q", r.Kind, ErrConflict, res.result)
	}
	return err
}

// entityLocks serializes the writers of one entity on this node, so that only writers on other nodes can win a
// conflict. Entities whose hashes collide share a lock.
type entityLocks [64]chan struct{}

func newEntityLocks() *entityLocks {
	t := new(entityLocks)
	for i := range t {
		t[i] = make(chan struct{}, 1)
	}
	return t
}

func (t *entityLocks) lockOf(id string) chan struct{} { return t[hash64(id)%uint64(len(t))] }

// NewValue is the new value of an entity. A nil Value leaves the entity unchanged.
type NewValue struct {
	Value []byte
	// Exempt marks a change that is applied even when a bound is reached: it only restricts or revokes something, or
	// cannot be refused.
	Exempt bool
}

// Change replaces the value of an entity by the result of next. When a writer on another node wins, next is called
// again with the newer entity, MaxWriteTries times in all; then it returns ErrConflict. It returns ErrNotFound when no
// living entity has the id. before is the entity that was replaced or left unchanged.
func (l *Log) Change(ctx context.Context, k Kind, id string, next func(old *Entity) (NewValue, error)) (
	before *Entity, res WriteResult, err error,
) {
	return (writer{l}).change(ctx, k, id, func(v *View, old *Entity) (*record, error) {
		if old == nil {
			return nil, ErrNotFound
		}
		n, err := next(old)
		if err != nil || n.Value == nil {
			return nil, err
		}
		r := l.newRecord(v.state, k, id, preRev, opPut)
		r.Rev, r.replaced, r.Value, r.Exempt = old.Rev, old, n.Value, n.Exempt
		return &r, nil
	})
}

// change appends the record that next returns; a nil record leaves the entity unchanged. old is the living entity with
// the id, nil if there is none. When a writer on another node wins, next is called again with the newer entity,
// MaxWriteTries times in all; then change returns ErrConflict. before is the entity of the last call.
func (l writer) change(ctx context.Context, k Kind, id string, next func(v *View, old *Entity) (*record, error)) (
	before *Entity, res WriteResult, err error,
) {
	if err := l.WaitReady(ctx); err != nil {
		return nil, res, err
	}
	lock := l.entityLocks.lockOf(id)
	select {
	case lock <- struct{}{}:
		defer func() { <-lock }()
	case <-ctx.Done():
		return nil, res, fmt.Errorf("%w: wait for other writers: %w", ErrUnavailable, ctx.Err())
	}
	for range MaxWriteTries {
		v := l.view.Load()
		old := v.sets[k].findLiving(id)
		r, err := next(v, old)
		if err != nil || r == nil {
			return old, WriteResult{Entity: old}, err
		}
		if res, err = l.write(ctx, *r); err != nil {
			return old, res, err
		}
		switch res.result {
		case applied:
			return old, res, nil
		case conflict:
		default:
			return old, res, fmt.Errorf("change %s %s: %w: the result of its record is %q", l.kinds.name(k), id, ErrConflict,
				res.result)
		}
	}
	return nil, res, fmt.Errorf("change %s %s: %w: other writers were first %d times in a row", l.kinds.name(k), id,
		ErrConflict, MaxWriteTries)
}

// BatchChange is one of several changes that WriteBatch appends together.
type BatchChange struct {
	Kind  Kind
	ID    string
	Old   *Entity // the entity that is replaced; nil = create
	Value []byte  // nil = delete the entity
}

// WriteBatch appends changes in their order, without waiting between them, and then waits until this node has applied
// them. Before that it waits until the outbox with all of them would be at most half full. It takes at most a minute.
// The changes are not atomic: when one fails, the others may be applied.
func (l *Log) WriteBatch(ctx context.Context, batch []BatchChange) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	hasRoom := func() bool { return l.view.Load().Len(KindOutbox)+len(batch) <= l.cfg.Limits.Outbox/2 }
	if err := l.changed.await(ctx, hasRoom); err != nil {
		return fmt.Errorf("%w: earlier changes are not copied to the audit log: %w", ErrUnavailable, err)
	}
	results := make([]<-chan WriteResult, len(batch))
	acked := make(chan error, len(batch))
	for i, c := range batch {
		r := l.newRecord(l.view.Load().state, c.Kind, c.ID, preAbsent, opPut)
		if r.Value = c.Value; c.Value == nil {
			r.Op = opDelete
		}
		if c.Old != nil {
			r.Pre, r.Rev, r.replaced = preRev, c.Old.Rev, c.Old
		}
		(outbox{l}).setOrigin(ctx, &r)
		rec, err := (writer{l}).encode(r, l.macKeys.Load())
		if err != nil {
			return err
		}
		results[i] = l.pendingWrites.expect(r.OpID)
		defer l.pendingWrites.forget(r.OpID)
		l.producer.Produce(stream.Control, 0, rec, func(_ *stream.Record, err error) { acked <- err })
	}
	for range batch {
		select {
		case err := <-acked:
			if err != nil {
				return fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	for i, c := range batch {
		select {
		case res := <-results[i]:
			if err := res.batchErr(l.kinds.name(c.Kind), c.ID); err != nil {
				return err
			}
		case <-l.stopped:
			return fmt.Errorf("%w: this node is stopping", ErrUnavailable)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	return nil
}

// batchErr returns why a change of a batch was not applied.
func (w WriteResult) batchErr(kind, id string) error {
	switch w.result {
	case applied:
		return nil
	case full:
		return fmt.Errorf("%w: %s %s exceeds a bound of the configuration", ErrStateFull, kind, id)
	}
	return fmt.Errorf("write %s %s: %w: the result of its record is %q; was the configuration changed meanwhile?", kind,
		id,
		ErrConflict, w.result)
}

// WaitForPeers waits up to 300 ms until the other living nodes have applied the record, so that a client whose next
// request goes to another node finds what it has just written.
func (l *Log) WaitForPeers(ctx context.Context, res WriteResult) {
	ctx, cancel := context.WithTimeout(ctx, l.timing.PeerWait)
	defer cancel()
	err := l.peers.updated.await(ctx, func() bool {
		if l.usesDigests() {
			d, _ := l.peers.newest()
			return d.Reached >= res.nextOffset
		}
		return l.peers.allReached(res.nextOffset, l.now(), l.timing.Lease, l.bootID)
	})
	if err != nil {
		l.metrics.peerWaitTimeouts.Inc()
	}
}

// Barrier waits until no node can act on the configuration from before the record: every living node has announced a
// position after it, or all leases from before it have expired (5.5 s). A node is living while its heartbeats arrive.
// When this node, or the aggregator whose digest it has read, reads this node's own heartbeat with that position, it
// has also read all heartbeats before it.
func (l *Log) Barrier(ctx context.Context, res WriteResult) error {
	limited, cancel := context.WithDeadline(ctx, res.appliedAt.Add(l.timing.BarrierTimeout))
	defer cancel()
	err := l.peers.updated.await(limited, func() bool {
		if l.usesDigests() {
			d, _ := l.peers.newest()
			return d.Reached >= res.nextOffset && l.announced.includes(&d, res.nextOffset)
		}
		return l.peers.hasReached(l.bootID, res.nextOffset) && l.peers.allReached(res.nextOffset, l.now(), l.timing.Lease, "")
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: the change is written, but not every node has confirmed it: %w", ErrUnavailable, ctx.Err())
	}
	return nil
}

func (l writer) countWrite(res WriteResult, err error) {
	outcome := res.result.String()
	if err != nil {
		outcome = "error"
	}
	l.metrics.writes.WithLabelValues(outcome).Inc()
}
