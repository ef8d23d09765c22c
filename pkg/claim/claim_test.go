package claim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/test/must"
)

// script is a store that answers each claim with the next of its states, the last one forever, and notes the other
// calls.
type script struct {
	states   []claim.Claim
	asked    int
	calls    []string
	failed   error // of MarkStored
	takeOver claim.State
}

func (s *script) Claim(_ context.Context, _ string, _ id.ID, _ string, lasts time.Duration) claim.Claim {
	if lasts == claim.TakeOverAfter {
		return claim.Claim{State: s.takeOver}
	}
	s.asked++
	return s.states[min(s.asked, len(s.states))-1]
}

func (s *script) MarkStored(ctx context.Context, key string, _ id.ID, note string, window time.Duration) error {
	s.calls = append(s.calls, fmt.Sprint("stored ", key, " ", note, " ", window, " ", ctx.Err()))
	return s.failed
}

func (s *script) Release(ctx context.Context, key string, _ id.ID) {
	s.calls = append(s.calls, fmt.Sprint("released ", key, " ", ctx.Err()))
}

func at(t *testing.T, when time.Time) id.ID {
	t.Helper()
	ids := id.NewGenerator(func() time.Time { return when })
	d := must.Get(ids.New(0))(t)
	return d
}

const (
	atOnce = iota
	briefly
	toTheEnd
)

// Begin waits for another request that holds the key, but only for one that may still end it.
func TestBegin(t *testing.T) {
	const wide = 8
	for name, x := range map[string]struct {
		states   string // the states of the key in order, by the letters of held
		room     int64
		isStored bool // the event of the pending claim is durable
		away     bool // the look-up fails
		takeOver claim.State
		want     claim.State
		waits    int
		lookups  int
	}{
		"first":                   {states: "n", room: wide, want: claim.New},
		"repeat":                  {states: "s", room: wide, want: claim.Stored},
		"store away":              {states: "u", room: wide, want: claim.Unavailable},
		"waits for the first":     {states: "pps", room: wide, want: claim.Stored, waits: briefly},
		"the first gave up":       {states: "pn", room: wide, want: claim.New, waits: briefly},
		"store away meanwhile":    {states: "pus", room: wide, want: claim.Stored, waits: briefly},
		"store away from then on": {states: "pu", room: wide, want: claim.Pending, waits: toTheEnd},
		"no room":                 {states: "p", room: 1, want: claim.Pending},
		"another body":            {states: "o", room: wide, want: claim.Pending},
		"in flight":               {states: "P", room: wide, want: claim.Pending, waits: toTheEnd, lookups: 1},
		"take over":               {states: "D", room: 1, takeOver: claim.New, want: claim.New, lookups: 1},
		"another takes over": {states: "Ds", room: wide, takeOver: claim.Pending, want: claim.Stored, waits: briefly,
			lookups: 1},
		"the process of the first ended": {states: "X", room: 1, takeOver: claim.New, want: claim.New, lookups: 1},
		"another repeat was faster": {states: "Xs", room: wide, takeOver: claim.Pending, want: claim.Stored, waits: briefly,
			lookups: 1},
		"no take-over without look-up": {states: "D", room: 1, takeOver: claim.New, away: true, want: claim.Pending,
			lookups: 1},
		"the node of the first failed": {states: "P", room: 1, isStored: true, want: claim.Stored, lookups: 1},
		"it fails meanwhile": {states: "p", room: wide, isStored: true, want: claim.Stored, waits: briefly,
			lookups: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				fresh, old := at(t, began), at(t, began.Add(-2*time.Second))
				dead := at(t, began.Add(-claim.TakeOverAfter))
				held := map[rune]claim.Claim{
					'n': {State: claim.New, Event: fresh, Note: "mine"}, 'p': {State: claim.Pending, Event: fresh, Note: "mine"},
					'P': {State: claim.Pending, Event: old, Note: "mine"}, 'o': {State: claim.Pending, Event: fresh, Note: "other"},
					's': {State: claim.Stored, Event: fresh, Note: "mine"}, 'u': {},
					'D': {State: claim.Pending, Event: dead, Note: "mine"},
					'X': {State: claim.Pending, Event: old, Note: "mine", Orphaned: true},
				}
				s := &script{takeOver: x.takeOver}
				for _, state := range x.states {
					s.states = append(s.states, held[state])
				}
				lookups := 0
				c := claim.Claims{
					Store: s, Now: time.Now, Room: wait.NewRoom(x.room),
					Pause: wait.Backoff{First: 10 * time.Millisecond, Longest: 100 * time.Millisecond},
					IsStored: func(ctx context.Context, account string, e id.ID) (bool, error) {
						if lookups++; account != "acc_1" || e != s.states[0].Event || ctx.Err() != nil {
							t.Errorf("looks for %s of %s", e, account)
						}
						if x.away {
							return true, errors.New("away")
						}
						return x.isStored, nil
					},
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				r := &claim.Request{
					Account: "acc_1", Key: "k", Event: fresh, Note: "mine", Size: 2, Window: time.Hour,
					Differs: func(note string) bool { return note != "mine" },
				}
				got := c.Begin(ctx, r)
				tookOver := r.Event != fresh
				if tookOver != (strings.ContainsAny(x.states, "DX") && x.want == claim.New) ||
					got.State == claim.New && got.Event != r.Event {
					t.Errorf("stores %s", r.Event)
				}
				if got.State != x.want || lookups != x.lookups || c.Room.Used() != 0 {
					t.Errorf("%+v after %d lookups; %d of the room is taken", got, lookups, c.Room.Used())
				}
				waits := atOnce
				if waited := time.Since(began); waited == 3*time.Second {
					waits = toTheEnd
				} else if waited > 0 {
					waits = briefly
				}
				if waits != x.waits {
					t.Errorf("waited %v", time.Since(began))
				}
				if want := []string{"stored k mine 1h0m0s <nil>"}; x.isStored && !slices.Equal(s.calls, want) {
					t.Errorf("then %q", s.calls)
				}
			})
		})
	}
}

// Finish ends a claim also for a client that has left.
func TestFinish(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range []struct {
		stored error
		age    time.Duration
		want   []string
	}{
		{nil, 0, []string{"stored k note 1m0s <nil>"}},
		{fmt.Errorf("produce: %w", stream.ErrBufferFull), 0, []string{"released k <nil>"}},
		{fmt.Errorf("produce: %w", stream.ErrNotStored), 0, []string{"released k <nil>"}},
		{stream.ErrNotStored, claim.TakeOverAfter, nil}, // a repeat may be storing the event
		{id.ErrClock, 0, []string{"released k <nil>"}},
		{context.DeadlineExceeded, 0, nil}, // it may still become durable
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{failed: errors.New("away"), states: []claim.Claim{{State: claim.New}}}
			c := claim.Claims{Store: s, Now: time.Now}
			r := &claim.Request{Key: "k", Note: "note", Window: time.Minute}
			c.Try(gone, r)
			time.Sleep(x.age)
			err := c.Finish(gone, r, x.stored)
			if !slices.Equal(s.calls, x.want) || (x.stored == nil) != errors.Is(err, s.failed) {
				t.Errorf("%v: %v, then %q", x.stored, err, s.calls)
			}
		})
	}
}
