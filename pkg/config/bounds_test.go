package config

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
)

// In a full configuration, and while the outbox is full, changes that only restrict something and erasures are
// accepted. Others are refused with the reason.
func TestRestrictionsIgnoreBounds(t *testing.T) {
	fill := map[string]struct {
		change func(*testNode)
		want   error
	}{
		"full":     {func(n *testNode) { n.inject(entity.KindAlertSettings, "bytes", conflog.MaxStateBytes) }, ErrStateFull},
		"no audit": {func(n *testNode) { n.inject(conflog.KindOutbox, "len", 100_000) }, ErrUnavailable},
	}
	for name, f := range fill {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			n := node(t, broker(t), Config{Node: "a"})
			e := n.create(t)
			_, k, err := n.CreateKey(ctx, NewKey{Name: "k", Scope: ReadWrite})
			if err != nil {
				t.Fatal(err)
			}
			ops := addUser(t, n, "ops@example.com", ReadWrite)
			second := addUser(t, n, "second@example.com", ReadWrite)
			f.change(n)
			if _, err := n.CreateEndpoint(ctx, endpoint(n.Keyring)); !errors.Is(err, f.want) {
				t.Errorf("a new endpoint: %v", err)
			}
			grow := func(e *Endpoint) error { e.Enabled, e.Name = false, strings.Repeat("n", 100); return nil }
			if _, err := n.UpdateEndpoint(ctx, e.ID, grow); !errors.Is(err, f.want) {
				t.Errorf("disabling and growing at once: %v", err)
			}
			must := func(what string, err error) {
				t.Helper()
				is.OK(t, err, what)
			}
			_, err = n.UpdateEndpoint(ctx, e.ID, func(e *Endpoint) error {
				e.Enabled, e.Paused = false, true
				e.Destinations[0].Enabled, e.Destinations[0].StateReason = false, "gone_410"
				e.Destinations[0].PurgeBefore = time.Now()
				return nil
			})
			must("disabling", err)
			must("revoking", n.RevokeKey(ctx, k.ID))
			must("ending a session", n.EndSession(ctx, ops.ID, "s", time.Now().Add(time.Hour)))
			must("ending sessions", n.EndSessions(ctx, ops.ID))
			_, err = n.SetUserScope(ctx, second.ID, Read, 0)
			must("taking the right to write", err)
			_, _, err = n.ResetUser(ctx, ops.ID, 0)
			must("resetting a user", err)
			must("removing a user", n.RemoveUser(ctx, second.ID))
			if _, err := n.SetUserScope(ctx, ops.ID, Read, 0); !errors.Is(err, ErrLastWriter) {
				t.Errorf("the last user with read_write: %v", err)
			}
			must("deleting", n.DeleteEndpoint(ctx, e.ID, 0))
			d, err := id.NewGenerator(nil).New(0)
			must("an id", err)
			_, err = n.ErasePayload(ctx, d)
			must("erasing", err)
			if got, _ := n.Endpoint(e.ID); got != nil || !n.Erased(d) {
				t.Error("the change was answered but not applied")
			}
		})
	}
}

// The number of recovery jobs in 30 days is bounded, and none is removed earlier.
func TestRecoveryHistoryIsBounded(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	n.inject(entity.KindRecovery, "len", MaxRecoveries-1)
	job := func(name string) error {
		_, err := n.AddRecovery(context.Background(),
			&jobs.Recovery{Meta: entity.Meta{ID: name, Account: n.Account().ID}, State: jobs.RecoveryReady})
		return err
	}
	noError(t, job("rec_last"))
	is.ErrorIs(t, job("rec_more"), ErrRecoveryHistoryFull, "one more than the maximum")
	_, err := n.UpdateRecovery(t.Context(), "rec_last", func(j *jobs.Recovery) error {
		j.Destinations = []jobs.RecoveryDestination{{ID: strings.Repeat("d", 100)}}
		j.End(jobs.RecoveryCancelled, jobs.StopCancelled, time.Now())
		return nil
	})
	is.OK(t, err, "cancelling the last")
	unsettled, forgotten := n.UnsettledRecoveries(time.Now().Add(-time.Minute))
	if len(unsettled)+len(forgotten) != 0 || n.View().Len(entity.KindRecovery) != MaxRecoveries {
		t.Errorf("%d unsettled, %d to be removed", len(unsettled), len(forgotten))
	}
}

// The number of erasures is bounded. A payload that is erased already can be erased again.
func TestErasuresAreBounded(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	n.inject(entity.KindErasure, "len", MaxErasures-1)
	ids := id.NewGenerator(nil)
	erase := func(event id.ID) error {
		_, err := n.ErasePayload(t.Context(), event)
		return err
	}
	last, more := ids.NewUnbounded(0), ids.NewUnbounded(0)
	noError(t, erase(last))
	if err := erase(more); !errors.Is(err, ErrTooManyErasures) || n.Erased(more) {
		t.Errorf("one more than the maximum: %v", err)
	}
	is.OK(t, erase(last), "the last one again")
}

// Keys expire by the corrected clock that all nodes share.
func TestKeysExpireByTheBrokersClock(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	text, _, err := n.CreateKey(t.Context(), NewKey{Name: "k", Scope: Read, ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	must(n.Authenticate(text))(t)
	clock := reflect.ValueOf(n.Log).Elem().FieldByName("clock").Elem().FieldByName("correction")
	(*atomic.Int64)(clock.Addr().UnsafePointer()).Store(int64(2 * time.Hour)) // this node's clock is two hours behind
	if _, err := n.Authenticate(text); !errors.Is(err, ErrInvalidKey) {
		t.Errorf("a key that has expired by the broker's clock: %v", err)
	}
}
