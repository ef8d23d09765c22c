package config

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/id"
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
func (n *testNode) inject(k entity.Kind, what string, to int64) {
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
		case "pending":
			field = set.FieldByName("pending").FieldByName("Len")
		}
		opened(field).SetInt(to)
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
