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

// MaxWriteTries bounds how often a write is made again because another writer came first.
const MaxWriteTries = 5

// originKey is the key of a context's origin.
type originKey struct{}

// Origin is who asks for a change, and by which request; the audit log shows it. Without one it is the service itself.
type Origin struct {
	Actor     string // id of an API key or a user, audit.Operator, or the name of a part of the service
	RequestID string
	RemoteIP  netip.Addr
}

// WithOrigin says where the changes come from that are made with the context.
func WithOrigin(ctx context.Context, from Origin) context.Context {
	return context.WithValue(ctx, originKey{}, from)
}

func originOf(ctx context.Context) Origin {
	from, _ := ctx.Value(originKey{}).(Origin)
	return from
}

// Written is what became of a record in this node's own log.
type WriteResult struct {
	Entity *Entity // after it; nil when there is none

	result     result
	nextOffset int64     // offset after the record: the position that acknowledges it
	appliedAt  time.Time // when it was applied here, which is after its append
}

// Here stands for whatever this node has applied.
func (l *Log) CurrentPosition() WriteResult {
	return WriteResult{nextOffset: l.view.Load().nextOffset, appliedAt: time.Now()}
}

// writer appends records.
type writer struct{ *Log }

// write appends one record and waits until this node has applied it and the log has it durably. Its
// error is ErrUnavailable; the outcome is then unknown unless the producer's buffer was full.
func (l writer) write(ctx context.Context, r record) (res WriteResult, err error) {
	return l.writeSigned(ctx, r, l.auth.Load())
}

func (l writer) writeSigned(ctx context.Context, r record, own *authority) (res WriteResult, err error) {
	defer func() { l.countWrite(res, err) }()
	s := l.view.Load()
	if err := s.checkLevel(r.kind); err != nil {
		return res, err
	}
	if err := l.checkAppend(&r); err != nil {
		return res, err
	}
	outbox(l).setOrigin(ctx, &r)
	rec, err := l.encode(r, own)
	if err != nil {
		return res, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timing.WriteTimeout)
	defer cancel()
	found := l.pendingWrites.expect(r.OpID)
	defer l.pendingWrites.forget(r.OpID)
	acked := make(chan error, 1)
	l.producer.Produce(stream.Control, 0, rec, func(_ *stream.Record, err error) { acked <- err })

	// Both are waited for: the embedded engine shows a record to readers before it is on the disk.
	for waitAck, waitOwn := true, true; waitAck || waitOwn; {
		select {
		case res = <-found:
			waitOwn = false
		case err := <-acked:
			if err != nil && waitOwn {
				return l.resolveFailedAppend(ctx, found, err)
			}
			waitAck = false
		case <-l.stopped:
			return res, fmt.Errorf("%w: it was stopped", ErrUnavailable)
		case <-ctx.Done():
			return res, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	if res.result == early {
		return res, l.view.Load().errEarly(r.kind) // an older node wrote the first record of the log meanwhile
	}
	if res.result == full { // others have filled it meanwhile
		return res, cmp.Or(l.checkAppend(&r), fmt.Errorf("%w: a bound of the configuration was reached", ErrUnavailable))
	}
	return res, nil
}

// encode is a record as it is appended.
func (l writer) encode(r record, own *authority) (*stream.Record, error) {
	if own == nil {
		return nil, fmt.Errorf("%w: the log has no first record yet", ErrUnavailable)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record of %s: %w", r.ID, err)
	}
	return own.sign(macRecord, &stream.Record{Key: []byte(r.ID), Value: body}), nil
}

// refused reports why a record is not even written: no node would apply it, or the outbox is full. What takes something
// away is always written.
func (l writer) checkAppend(r *record) error {
	s := l.view.Load().state
	if r.Op != opPut {
		return nil
	}
	waiting := s.sets[KindOutbox].bySeq.len
	if waiting >= l.cfg.Limits.Outbox && !r.Exempt && !l.kinds.infos[r.kind].AllowWhenOutboxFull {
		return fmt.Errorf("%w: %d changes wait to be written to the audit log", ErrUnavailable, waiting)
	}
	return s.checkBounds(r.kind, s.sets[r.kind].findLiving(r.ID), len(r.Value), r.Exempt)
}

// look finds out whether a record whose append failed is in the log nevertheless.
func (l writer) resolveFailedAppend(ctx context.Context, found <-chan WriteResult, failed error) (WriteResult, error) {
	if errors.Is(failed, stream.ErrBufferFull) {
		return WriteResult{}, fmt.Errorf("%w: %w", ErrUnavailable, failed)
	}
	syncErr := l.sync(ctx)
	handed := time.NewTimer(l.timing.PeerWait) // the tail hands the result over right after it has published the state
	defer handed.Stop()
	select {
	case res := <-found:
		return res, nil
	case <-handed.C:
		return WriteResult{}, errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, failed), syncErr)
	}
}

// Create writes a new entity. ErrConflict means that there is one with its id or its hash.
func (l *Log) Create(ctx context.Context, k Kind, id string, value []byte) (WriteResult, error) {
	if err := l.WaitReady(ctx); err != nil {
		return WriteResult{}, err
	}
	return l.CreateBeforeReady(ctx, k, id, value)
}

// Enter is Create for the steps of the beginning, before the node is ready.
func (l *Log) CreateBeforeReady(ctx context.Context, k Kind, id string, value []byte) (WriteResult, error) {
	r := l.newRecord(l.view.Load().state, k, id, preAbsent, opPut)
	r.Value = value
	res, err := (writer{l}).write(ctx, r)
	if err == nil && res.result != applied {
		err = fmt.Errorf("create %s %s: %w: it exists already", r.Kind, id, ErrConflict)
	}
	return res, err
}

// Delete deletes an entity and leaves a tombstone; ErrNotFound when there is none, or another writer was first.
func (l *Log) Delete(ctx context.Context, k Kind, id string) (WriteResult, error) {
	if err := l.WaitReady(ctx); err != nil {
		return WriteResult{}, err
	}
	s := l.view.Load().state
	if s.sets[k].findLiving(id) == nil {
		return WriteResult{}, ErrNotFound
	}
	res, err := (writer{l}).write(ctx, l.newRecord(s, k, id, preExists, opDelete))
	if err != nil {
		return res, fmt.Errorf("delete %s: %w", l.kinds.name(k), err)
	}
	return res, errUnless(res.result == applied, ErrNotFound)
}

// Forget removes what has ended by age, without a tombstone. Nothing to remove is no error.
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

// ForgetIfUnchanged is Forget for what nobody has changed since the revision; otherwise it does nothing.
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

// Adopt makes a value the sole entity of its kind, whatever was before.
func (l *Log) Adopt(ctx context.Context, k Kind, id string, value []byte) error {
	r := l.newRecord(l.view.Load().state, k, id, preNone, opAdopt)
	r.Value = value
	res, err := (writer{l}).write(ctx, r)
	if err == nil && res.result != applied {
		err = fmt.Errorf("take over the %s: %w: record was %s", r.Kind, ErrConflict, res.result)
	}
	return err
}

// turns lets the writers of this node change one entity one after the other, so that only writers on
// other nodes can come first. Entities share a turn by chance.
type entityLocks [64]chan struct{}

func newEntityLocks() *entityLocks {
	t := new(entityLocks)
	for i := range t {
		t[i] = make(chan struct{}, 1)
	}
	return t
}

func (t *entityLocks) lockOf(id string) chan struct{} { return t[hash64(id)%uint64(len(t))] }

// Next is the value that an entity is to have: none leaves it as it is.
type NewValue struct {
	Value []byte
	// Exempt says that the change takes something away and does nothing else, or must be made: it is made also when
	// nothing may grow.
	Exempt bool
}

// Change replaces the value of an entity by what next makes of it. When a writer on another node comes first, next is
// asked again with the newer entity.
func (l *Log) Change(ctx context.Context, k Kind, id string, next func(old *Entity) (NewValue, error)) (
	before *Entity, res WriteResult, err error,
) {
	if err := l.WaitReady(ctx); err != nil {
		return nil, res, err
	}
	turn := l.entityLocks.lockOf(id)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, res, fmt.Errorf("%w: wait for other writers: %w", ErrUnavailable, ctx.Err())
	}
	for range MaxWriteTries {
		s := l.view.Load().state
		old := s.sets[k].findLiving(id)
		if old == nil {
			return nil, res, ErrNotFound
		}
		v, err := next(old)
		if err != nil || v.Value == nil {
			return old, WriteResult{Entity: old}, err
		}
		r := l.newRecord(s, k, id, preRev, opPut)
		r.Rev, r.replaced, r.Value, r.Exempt = old.Rev, old, v.Value, v.Exempt
		if res, err = (writer{l}).write(ctx, r); err != nil {
			return nil, res, err
		}
		switch res.result {
		case applied:
			return old, res, nil
		case conflict:
		default:
			return nil, res, fmt.Errorf("change %s %s: %w: record was %s", r.Kind, id, ErrConflict, res.result)
		}
	}
	return nil, res, ErrConflict
}

// Replacement is one of several changes that are appended at once.
type BatchChange struct {
	Kind  Kind
	ID    string
	Old   *Entity // what it replaces; nil: it is new
	Value []byte  // nil: the entity is deleted
}

// Replace appends changes in their order, all at once, and waits until this node has applied them. It first waits until
// the audit log has taken enough of what was changed before.
func (l *Log) WriteBatch(ctx context.Context, batch []BatchChange) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	roomy := func() bool { return l.view.Load().Len(KindOutbox)+len(batch) <= l.cfg.Limits.Outbox/2 }
	if err := l.changed.await(ctx, roomy); err != nil {
		return fmt.Errorf("%w: the audit log does not take what was changed: %w", ErrUnavailable, err)
	}
	results := make([]<-chan WriteResult, len(batch))
	acked := make(chan error, len(batch))
	for i, x := range batch {
		r := l.newRecord(l.view.Load().state, x.Kind, x.ID, preAbsent, opPut)
		if r.Value = x.Value; x.Value == nil {
			r.Op = opDelete
		}
		if x.Old != nil {
			r.Pre, r.Rev, r.replaced = preRev, x.Old.Rev, x.Old
		}
		(outbox{l}).setOrigin(ctx, &r)
		rec, err := (writer{l}).encode(r, l.auth.Load())
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
	for i, x := range batch {
		select {
		case res := <-results[i]:
			if err := res.batchErr(l.kinds.name(x.Kind), x.ID); err != nil {
				return err
			}
		case <-l.stopped:
			return fmt.Errorf("%w: it was stopped", ErrUnavailable)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	return nil
}

func (w WriteResult) batchErr(kind, id string) error {
	switch w.result {
	case applied:
		return nil
	case full:
		return fmt.Errorf("%w: %s %s goes beyond a bound of the configuration", ErrStateFull, kind, id)
	}
	return fmt.Errorf("write %s %s: %w: record was %s; was the configuration changed meanwhile?", kind, id,
		ErrConflict, w.result)
}

// Courtesy waits a moment for the other nodes, so that a client that is sent to another one next finds
// what it has just written.
func (l *Log) WaitForPeers(ctx context.Context, res WriteResult) {
	ctx, cancel := context.WithTimeout(ctx, l.timing.PeerWait)
	defer cancel()
	err := l.peers.updated.await(ctx, func() bool {
		return l.peers.allReached(res.nextOffset, l.now(), l.timing.Lease, l.bootID)
	})
	if err != nil {
		l.metrics.peerWaitTimeouts.Inc()
	}
}

// Barrier waits until no node can act on the configuration before the record any more: every living
// node announced its position, or every lease from before has run out. A node is living while it is
// heard of; hearing its own announcement of the position tells this node that it has heard all that
// were made before.
func (l *Log) Barrier(ctx context.Context, res WriteResult) error {
	limited, cancel := context.WithDeadline(ctx, res.appliedAt.Add(l.timing.BarrierTimeout))
	defer cancel()
	err := l.peers.updated.await(limited, func() bool {
		return l.peers.hasReached(l.bootID, res.nextOffset) && l.peers.allReached(res.nextOffset, l.now(), l.timing.Lease, "")
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: it is written, but not confirmed by every node: %w", ErrUnavailable, ctx.Err())
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
