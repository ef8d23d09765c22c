package config

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

// maxTries bounds how often a write is made again because another writer came first.
const maxTries = 5

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

// write appends one record and waits until this node has applied it and the log has it durably. Its
// error is ErrUnavailable; the outcome is then unknown unless the producer's buffer was full.
func (c *Control) write(ctx context.Context, r record, v value) (res opResult, err error) {
	own := c.auth.Load()
	if own == nil {
		return res, fmt.Errorf("%w: the log has no first record yet", ErrUnavailable)
	}
	return c.writeSigned(ctx, r, v, *own)
}

func (c *Control) writeSigned(ctx context.Context, r record, v value, own authority) (res opResult, err error) {
	defer func() { c.countWrite(res, err) }()
	of, _ := kindNamed(r.Kind) // newRecord took it from a kind
	if err := c.view.Load().allows(of); err != nil {
		return res, err
	}
	if v != nil {
		if r.Value, err = json.Marshal(v); err != nil {
			return res, fmt.Errorf("encode %s %s: %w", r.Kind, r.ID, err)
		}
	}
	if err := c.refused(of, &r); err != nil {
		return res, err
	}
	c.sign(ctx, &r)
	rec, err := c.encode(r, &own)
	if err != nil {
		return res, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timing.write)
	defer cancel()
	found := c.ops.expect(r.OpID)
	defer c.ops.forget(r.OpID)
	acked := make(chan error, 1)
	c.producer.Produce(stream.Control, 0, rec, func(_ *stream.Record, err error) { acked <- err })

	// Both are waited for: the embedded engine shows a record to readers before it is on the disk.
	for waitAck, waitOwn := true, true; waitAck || waitOwn; {
		select {
		case res = <-found:
			waitOwn = false
		case err := <-acked:
			if err != nil && waitOwn {
				return c.look(ctx, found, err)
			}
			waitAck = false
		case <-c.stopped:
			return res, fmt.Errorf("%w: it was stopped", ErrUnavailable)
		case <-ctx.Done():
			return res, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	if res.result == early {
		return res, errEarly(of, c.view.Load().level) // an older node wrote the first record of the log meanwhile
	}
	if res.result == full { // others have filled it meanwhile
		return res, cmp.Or(c.refused(of, &r), fmt.Errorf("%w: a bound of the configuration was reached", ErrUnavailable))
	}
	return res, nil
}

// encode is a record as it is appended.
func (c *Control) encode(r record, own *authority) (*stream.Record, error) {
	if own == nil {
		return nil, fmt.Errorf("%w: the log has no first record yet", ErrUnavailable)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record of %s: %w", r.ID, err)
	}
	return own.sign(macRecord, &stream.Record{Key: []byte(r.ID), Value: body}), nil
}

// refused reports why a record is not even written: no node would apply it, or the audit log could not be told. What
// takes something away is always written.
func (c *Control) refused(of kind, r *record) error {
	s := c.view.Load().state
	if r.Op != opPut {
		return nil
	}
	if waiting := s.sets[kindTrail].bySeq.len; waiting >= c.room && !r.Exempt && of != kindErasure {
		return fmt.Errorf("%w: %d changes wait to be written to the audit log", ErrUnavailable, waiting)
	}
	return s.exceeds(of, s.sets[of].living(r.ID), len(r.Value), r.Exempt)
}

// look finds out whether a record whose append failed is in the log nevertheless.
func (c *Control) look(ctx context.Context, found <-chan opResult, failed error) (opResult, error) {
	if errors.Is(failed, stream.ErrFull) {
		return opResult{}, fmt.Errorf("%w: %w", ErrUnavailable, failed)
	}
	syncErr := c.sync(ctx)
	handed := time.NewTimer(c.timing.courtesy) // the tail hands the result over right after it has published the state
	defer handed.Stop()
	select {
	case res := <-found:
		return res, nil
	case <-handed.C:
		return opResult{}, errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, failed), syncErr)
	}
}

// create writes a new entity.
func (c *Control) create(ctx context.Context, k kind, v value) (opResult, error) {
	r := c.newRecord(c.view.Load().state, k, v.entityID(), preAbsent, opPut)
	res, err := c.write(ctx, r, v)
	if err == nil && res.result != applied {
		err = fmt.Errorf("create %s %s: %w: it exists already", k, r.ID, ErrConflict)
	}
	return res, err
}

// turns lets the writers of this node change one entity one after the other, so that only writers on
// other nodes can come first. Entities share a turn by chance.
type turns [64]chan struct{}

func newTurns() *turns {
	t := new(turns)
	for i := range t {
		t[i] = make(chan struct{}, 1)
	}
	return t
}

func (t *turns) of(id string) chan struct{} { return t[int(hashOf(id)[0])%len(t)] }

// change replaces the value of an entity by what next makes of it; nil leaves it. When a writer on
// another node comes first, next is asked again with the newer value.
func (c *Control) change(
	ctx context.Context, k kind, id string, next func(old value) (value, error),
) (before, after *entity, res opResult, err error) {
	return c.changeAs(ctx, k, id, exempt, next)
}

// changeAs is change for what is exempt from bounds by another rule.
func (c *Control) changeAs(
	ctx context.Context, k kind, id string, free func(old, new value) bool, next func(old value) (value, error),
) (before, after *entity, res opResult, err error) {
	turn := c.turns.of(id)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, nil, res, fmt.Errorf("%w: wait for other writers: %w", ErrUnavailable, ctx.Err())
	}
	for range maxTries {
		s := c.view.Load().state
		old := s.sets[k].living(id)
		if old == nil {
			return nil, nil, res, ErrNotFound
		}
		was := c.codec.value(old)
		v, err := next(was)
		if err != nil || v == nil {
			return old, old, res, err
		}
		r := c.newRecord(s, k, id, preRev, opPut)
		r.Rev, r.before, r.Exempt = old.rev, old, free(was, v)
		if res, err = c.write(ctx, r, v); err != nil {
			return nil, nil, res, err
		}
		switch res.result {
		case applied:
			return old, res.entity, res, nil
		case conflict:
		default:
			return nil, nil, res, fmt.Errorf("change %s %s: %w: record was %s", k, id, ErrConflict, res.result)
		}
	}
	return nil, nil, res, ErrConflict
}

// courtesy waits a moment for the other nodes, so that a client that is sent to another one next finds
// what it has just written.
func (c *Control) courtesy(ctx context.Context, res opResult) {
	ctx, cancel := context.WithTimeout(ctx, c.timing.courtesy)
	defer cancel()
	err := c.peers.heard.await(ctx, func() bool {
		return c.peers.reached(res.next, c.now(), c.timing.lease, c.boot)
	})
	if err != nil {
		c.metrics.late.Inc()
	}
}

// barrier waits until no node can act on the configuration before the record any more: every living
// node announced its position, or every lease from before has run out. A node is living while it is
// heard of; hearing its own announcement of the position tells this node that it has heard all that
// were made before.
func (c *Control) barrier(ctx context.Context, res opResult) error {
	limited, cancel := context.WithDeadline(ctx, res.at.Add(c.timing.strict))
	defer cancel()
	err := c.peers.heard.await(limited, func() bool {
		return c.peers.has(c.boot, res.next) && c.peers.reached(res.next, c.now(), c.timing.lease, "")
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: it is written, but not confirmed by every node: %w", ErrUnavailable, ctx.Err())
	}
	return nil
}

func (c *Control) countWrite(res opResult, err error) {
	outcome := res.result.String()
	if err != nil {
		outcome = "error"
	}
	c.metrics.writes.WithLabelValues(outcome).Inc()
}
