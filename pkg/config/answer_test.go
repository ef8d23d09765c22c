package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// withMovableClock gives a node a clock that a test can move forward.
func withMovableClock(ahead *atomic.Int64) func(*options) {
	return func(o *options) {
		o.deps.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		o.sweeping = 20 * time.Millisecond
	}
}

func claim(name string, expires time.Time) *Answer {
	return &Answer{Meta: entity.Meta{ID: name}, BodyHash: []byte("body"), CallID: id.Random("call_"), ExpiresAt: expires}
}

// TestOneCallWinsTheClaim: of many calls on two nodes one wins, and the others learn which. The claim ends when the
// winner releases it, and by time.
func TestOneCallWinsTheClaim(t *testing.T) {
	conf := broker(t)
	var ahead atomic.Int64
	a, b := node(t, conf, Config{Node: "a"}, withMovableClock(&ahead)),
		node(t, conf, Config{Node: "b"}, withMovableClock(&ahead))
	expires := time.Now().Add(24 * time.Hour)
	winners := func(name string) map[string]int {
		var mu sync.Mutex
		calls := map[string]int{}
		var all sync.WaitGroup
		for _, n := range []*testNode{a, b, a, b, a, b} {
			all.Go(func() {
				got, err := n.ClaimAnswer(t.Context(), claim(name, expires), false)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				calls[got.CallID]++
			})
		}
		all.Wait()
		return calls
	}
	for i := range 20 {
		if calls := winners(fmt.Sprint("ans_", i)); len(calls) != 1 {
			t.Fatalf("claimed by %v", calls)
		}
	}
	held, _ := a.Answer("ans_0")
	kept, err := a.ChangeAnswer(t.Context(), "ans_0", func(x *Answer) error { x.Status = 201; return nil })
	if err != nil || kept.Status != 201 || kept.CallID != held.CallID {
		t.Fatalf("kept %+v, %v", kept, err)
	}
	if err := a.ReleaseClaim(t.Context(), held); err != nil { // the claim has changed meanwhile
		t.Fatal(err)
	}
	if got, _ := a.Answer("ans_0"); got == nil || got.Status != 201 {
		t.Fatal("a claim was released although it had become an answer")
	}
	noError(t, a.ReleaseClaim(t.Context(), kept))
	if got, p := a.Answer("ans_0"); got != nil || p != entity.Unknown {
		t.Fatalf("after its release it is %+v", got)
	}
	// A day later the claims have expired, whether they are removed or not.
	ahead.Store(int64(24*time.Hour + time.Second))
	expires = expires.Add(48 * time.Hour)
	before, _ := b.Answer("ans_1")
	if calls := winners("ans_1"); len(calls) != 1 || calls[before.CallID] > 0 {
		t.Fatalf("a day later it is claimed by %v, before by %s", calls, before.CallID)
	}
	b.SetOwner(true)
	left := func() int { return b.View().Len(entity.KindAnswer) }
	for end := time.Now().Add(2 * time.Minute); left() > 1 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
	if got, _ := b.Answer("ans_1"); left() != 1 || got == nil {
		t.Fatalf("%d answers are left, one of which has not expired: %v", left(), got)
	}
}

// inject makes a node believe that a kind has another size or number of entities. It changes a copy of the view,
// because others read the view at the same time. Records that are applied meanwhile stay applied.
func (n *testNode) inject(k entity.Kind, what string, to any) {
	opened := func(f reflect.Value) reflect.Value { return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem() }
	copied := func(p reflect.Value) reflect.Value {
		c := reflect.New(p.Type().Elem())
		c.Elem().Set(p.Elem())
		p.Set(c)
		return c.Elem()
	}
	at := (*atomic.Pointer[conflog.View])(reflect.ValueOf(n.Log).Elem().FieldByName("view").Addr().UnsafePointer())
	for {
		old := at.Load()
		view := *old
		state := copied(opened(reflect.ValueOf(&view).Elem().FieldByName("state")))
		sets := opened(state.FieldByName("sets"))
		clone := reflect.MakeSlice(sets.Type(), sets.Len(), sets.Len())
		reflect.Copy(clone, sets)
		sets.Set(clone)
		set := copied(clone.Index(int(k)))
		field := set.FieldByName("bytes")
		switch what {
		case "len":
			field = set.FieldByName("bySeq").FieldByName("Len")
		case "bySeq":
			field = set.FieldByName("bySeq")
		case "pending":
			field = set.FieldByName("pending").FieldByName("Len")
		}
		opened(field).Set(reflect.ValueOf(to).Convert(field.Type()))
		if at.CompareAndSwap(old, &view) {
			return
		}
	}
}

// TestAnswersAreBounded fills the room for answers in the state of a node.
func TestAnswersAreBounded(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	fillTo := func(want int64) { n.inject(entity.KindAnswer, "bytes", want) }
	try := func(name string, spare bool, want error) {
		t.Helper()
		if _, err := n.ClaimAnswer(t.Context(), claim(name, time.Now().Add(time.Hour)), spare); !errors.Is(err, want) {
			t.Errorf("%s at %d bytes: %v, want %v", name, n.View().Bytes(entity.KindAnswer), err, want)
		}
	}
	fillTo(MaxAnswersBytes/2 - 1)
	try("ans_1", true, nil)
	try("ans_2", true, ErrAnswersFull)
	try("ans_2", false, nil)
	fillTo(MaxAnswersBytes - answersReserve - 1000)
	try("ans_3", false, nil)
	fillTo(MaxAnswersBytes - answersReserve)
	try("ans_4", false, ErrAnswersFull)
	try("ans_3", true, nil) // it exists already
	keep := func(name string, answer seal.Secret) error {
		_, err := n.ChangeAnswer(t.Context(), name, func(a *Answer) error { a.Status, a.Answer = 201, answer; return nil })
		return err
	}
	if err := keep("ans_1", "test:answer"); err != nil { // an existing claim has room for its answer
		t.Error(err)
	}
	fillTo(MaxAnswersBytes)
	is.ErrorIs(t, keep("ans_3", "test:answer"), ErrAnswersFull, "an answer beyond the bound")
	if err := keep("ans_3", ""); err != nil { // the end of a call is always stored
		t.Error(err)
	}
}

// rotateToken sets the token of an endpoint and keeps the one before it until the given time.
func (n *testNode) rotateToken(t *testing.T, endpoint, token string, until time.Time) {
	t.Helper()
	must(n.UpdateEndpoint(t.Context(), endpoint, func(e *Endpoint) error {
		e.RotateToken(n.Keyring.SealString(e.ID, seal.FieldToken, token), "", until)
		return nil
	}))(t)
}

// The current token finds an endpoint, and the former one until its end; also on a node that reads the snapshot.
func TestTokenRotation(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	e := n.create(t)
	f := func(n *testNode, want bool, token string) {
		t.Helper()
		if got := n.EndpointByToken(token); (got != nil && got.ID == e.ID) != want {
			t.Errorf("token %s finds the endpoint: %v, want %v", token, !want, want)
		}
	}
	later, earlier := time.Now().Add(time.Hour), time.Now().Add(-time.Minute)
	first := "tok_" + e.ID
	n.rotateToken(t, e.ID, "tok_2", later)
	f(n, true, "tok_2")
	f(n, true, first)
	n.rotateToken(t, e.ID, "tok_3", later) // ends the former token at once
	f(n, true, "tok_3")
	f(n, true, "tok_2")
	f(n, false, first)
	must(n.UpdateEndpoint(t.Context(), e.ID, func(e *Endpoint) error {
		e.Name = "renamed"
		return nil
	}))(t)
	f(n, true, "tok_2")
	noError(t, n.WriteSnapshot(t.Context()))
	trim(t, conf, stream.Control)
	if found := node(t, conf, Config{Node: "b"}).EndpointByToken("tok_2"); found == nil || found.ID != e.ID {
		t.Error("a snapshot loses the former token")
	}
	n.rotateToken(t, e.ID, "tok_4", earlier)
	f(n, false, "tok_3")
	f(n, true, "tok_4")
	n.rotateToken(t, e.ID, "tok_5", time.Time{})
	f(n, false, "tok_4")
	f(n, true, "tok_5")
	n.rotateToken(t, e.ID, "tok_6", later)
	f(n, true, "tok_5")
	n.rotateToken(t, e.ID, "tok_7", time.Time{}) // ends the current token at once, and the former one with it
	f(n, false, "tok_5")
	f(n, false, "tok_6")
	n.rotateToken(t, e.ID, "tok_8", later)
	if former := n.EndpointByToken("tok_8").FormerToken; !former.Until.Equal(later) {
		t.Errorf("%+v", former)
	} else if text, err := n.Keyring.OpenString(e.ID, seal.FieldToken, former.Token); err != nil || text != "tok_7" {
		t.Errorf("the former token is %q, %v", text, err)
	}
	noError(t, n.DeleteEndpoint(t.Context(), e.ID, 0))
	f(n, false, "tok_7")
	f(n, false, "tok_8")
}

func TestTokenOfAnotherEndpoint(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	e := n.create(t)
	if _, err := n.UpdateEndpoint(t.Context(), e.ID, func(e *Endpoint) error {
		e.RotateToken(n.Keyring.SealString("ep_other", seal.FieldToken, "tok"), "", time.Time{})
		return nil
	}); !errors.Is(err, seal.ErrOpen) {
		t.Fatalf("token sealed for another endpoint: %v", err)
	}
}

// The former token of one endpoint cannot become the token of another.
func TestFormerTokenIsNotReused(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	first, second := n.create(t), endpoint(n.Keyring)
	n.rotateToken(t, first.ID, "tok_2", time.Now().Add(time.Hour))
	second.Token = n.Keyring.SealString(second.ID, seal.FieldToken, "tok_"+first.ID)
	if _, err := n.CreateEndpoint(t.Context(), second); !errors.Is(err, ErrConflict) {
		t.Errorf("a token that was replaced: %v", err)
	}
}

// Only one move of an endpoint runs at a time. It changes nothing else in the endpoint, and other changes do not affect
// it. It ends forward or back. The partitions of earlier events are kept.
func TestMoveEndpoint(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b := node(t, conf, Config{Node: "a"}), node(t, conf, Config{Node: "b"})
		created := a.create(t)
		from := created.Partition
		to, third := (from+1)%4, (from+2)%4
		until := time.Now().Add(time.Minute)
		moved := must(a.MoveEndpoint(ctx, created.ID, to, until))(t)
		now := time.Now()
		if moved.Partition != to || !slices.Equal(moved.FormerPartitions, []int32{from}) || !moved.Move.Until.Equal(until) ||
			!moved.UpdatedAt.Equal(created.UpdatedAt) {
			t.Fatalf("%+v, %+v", moved, moved.Move)
		}
		if !moved.HoldsDeliveries(to, now) || moved.HoldsDeliveries(from, now) || moved.HoldsDeliveries(to, until) ||
			created.HoldsDeliveries(from, now) {
			t.Error("deliveries of new events must wait until the end of the move, others must not")
		}
		// When the move is answered, the other node has it.
		if there, _ := b.Endpoint(created.ID); there.Partition != to {
			t.Errorf("the other node has %+v", there)
		}
		if _, err := b.MoveEndpoint(ctx, created.ID, third, until); !errors.Is(err, ErrMoving) {
			t.Errorf("a second move: %v", err)
		}
		must(b.UpdateEndpoint(ctx, created.ID, func(e *Endpoint) error {
			e.Name, e.Partition, e.FormerPartitions, e.Move = "renamed", third, nil, nil
			return nil
		}))(t)
		held, err := a.ExtendMove(ctx, moved, until.Add(time.Minute))
		if err != nil || held.Name != "renamed" || held.Partition != to || !held.HoldsDeliveries(to, until) {
			t.Fatalf("%+v, %v", held, err)
		}
		if _, err := a.EndMove(ctx, moved, true); !errors.Is(err, ErrMoving) {
			t.Errorf("the end of a move that was replaced by another: %v", err)
		}
		back, err := a.EndMove(ctx, held, true)
		if err != nil || back.Partition != from || back.Move != nil || !slices.Equal(back.FormerPartitions, []int32{to}) {
			t.Fatalf("back: %+v, %v", back, err)
		}
		if _, err := a.ExtendMove(ctx, held, until); !errors.Is(err, ErrMoving) {
			t.Errorf("a move that has ended: %v", err)
		}
		if _, err := a.MoveEndpoint(ctx, created.ID, from, until); !errors.Is(err, ErrSamePartition) {
			t.Errorf("to its own partition: %v", err)
		}
		// The node that moved it has failed: after a while another node may move it.
		must(a.MoveEndpoint(ctx, created.ID, to, time.Now().Add(time.Minute)))(t)
		time.Sleep(time.Minute)
		moved = must(b.MoveEndpoint(ctx, created.ID, third, time.Now().Add(time.Minute)))(t)
		end, err := b.EndMove(ctx, moved, false)
		if want := []int32{from, to}; err != nil || end.Partition != third || end.Move != nil ||
			!slices.Equal(end.FormerPartitions, sorted(want)) {
			t.Fatalf("%+v, %v", end, err)
		}
		if _, err := a.MoveEndpoint(ctx, "ep_nope", to, until); !errors.Is(err, ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
	})
}

func sorted(s []int32) []int32 { slices.Sort(s); return s }
