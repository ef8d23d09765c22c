package claim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// engines are a log and a claim store that stall at times, in fake time.
type engines struct {
	began time.Time
	ids   *id.Generator

	mu     sync.Mutex // guards the fields below
	random *rand.Rand
	claims map[string]kept
	log    map[string]map[id.ID]bool // the durable events of each key
}

type kept struct {
	claim.Claim
	expires time.Time
}

// The stalls, in seconds since the start: each part alone, then all at once.
func (e *engines) logStalls() bool {
	return e.during(5, 20) || e.during(100, 115) || e.during(150, 195)
}
func (e *engines) storeStalls() bool {
	return e.during(30, 45) || e.during(100, 120) || e.during(150, 160)
}
func (e *engines) nodePauses() bool { return e.during(60, 75) || e.during(95, 110) }

func (e *engines) during(from, to float64) bool {
	now := time.Since(e.began).Seconds()
	return from <= now && now < to
}

func (e *engines) chance(p float64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.random.Float64() < p
}

// pause is where a node may stop for a while.
func (e *engines) pause() {
	if e.nodePauses() && e.chance(0.3) {
		time.Sleep(40 * time.Second)
	}
}

// exchange makes a change of the claims. While the store stalls it may or may not arrive, and nobody learns it.
func (e *engines) exchange(change func()) (answered bool) {
	if answered = !e.storeStalls() || e.chance(0.1); !answered {
		time.Sleep(1500 * time.Millisecond)
		if e.chance(0.5) {
			return false
		}
	} else if e.chance(0.2) {
		time.Sleep(time.Second) // slow
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
	return answered
}

func (e *engines) Claim(
	_ context.Context, key string, event id.ID, note string, lasts time.Duration,
) (got claim.Claim) {
	answered := e.exchange(func() {
		k, ok := e.claims[key]
		if ok = ok && time.Now().Before(k.expires); !ok {
			k = kept{claim.Claim{State: claim.Pending, Event: event, Note: note}, time.Now().Add(lasts)}
			e.claims[key] = k
		}
		if got = k.Claim; got.State == claim.Pending && got.Event == event {
			got.State = claim.New
		}
	})
	if !answered {
		return claim.Claim{}
	}
	return got
}

func (e *engines) MarkStored(_ context.Context, key string, event id.ID, note string, window time.Duration) error {
	if !e.exchange(func() {
		e.claims[key] = kept{claim.Claim{State: claim.Stored, Event: event, Note: note}, time.Now().Add(window)}
	}) {
		return errors.New("away")
	}
	return nil
}

func (e *engines) Release(_ context.Context, key string, event id.ID) {
	e.exchange(func() {
		if k := e.claims[key]; k.State == claim.Pending && k.Event == event {
			delete(e.claims, key)
		}
	})
}

// produce stores an event. While the log stalls the caller gives up after 10 s, and the record may arrive later.
func (e *engines) produce(key string, event id.ID) error {
	store := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.log[key] == nil {
			e.log[key] = map[id.ID]bool{}
		}
		e.log[key][event] = true
	}
	if !e.logStalls() {
		time.Sleep(5 * time.Millisecond)
		store()
		return nil
	}
	if e.chance(0.2) {
		return stream.ErrNotStored
	}
	if e.chance(0.8) {
		go func() {
			for e.logStalls() {
				time.Sleep(time.Second)
			}
			store()
		}()
	}
	time.Sleep(10 * time.Second)
	return context.DeadlineExceeded
}

func (e *engines) isStored(key string, event id.ID) (bool, error) {
	if e.logStalls() || e.chance(0.05) {
		time.Sleep(2 * time.Second)
		return false, errors.New("away")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log[key][event], nil
}

// request is one attempt of a client. It returns whether it was answered 2xx; the node may die within it.
func (e *engines) request(claims *claim.Claims, key string) (ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	event, err := e.ids.New(0)
	if err != nil {
		return false
	}
	r := &claim.Request{Account: key, Key: key, Event: event, Size: 1, Window: 24 * time.Hour}
	held := claims.Begin(ctx, r)
	e.pause()
	switch held.State {
	case claim.Stored:
		return true
	case claim.New:
	case claim.Unavailable:
		_ = claims.Finish(ctx, r, stream.ErrNotStored)
		return false
	default:
		return false
	}
	if e.chance(0.05) {
		return false // the node died before it stored the event
	}
	err = e.produce(key, r.Event)
	e.pause()
	if e.chance(0.05) {
		return false // and after it
	}
	_ = claims.Finish(ctx, r, err)
	return err == nil
}

// Clients repeat 10,000 keys until they are answered, while the log, the claim store and nodes stall, each alone and
// all at once, and nodes die: one event for each key.
func TestOneEventForEachKey(t *testing.T) {
	rounds := 1
	if os.Getenv("RELAY_TORTURE") != "" {
		rounds = 100
	}
	seeds := kit.Rand(t)
	for range rounds {
		oneEventForEachKey(t, 10_000, seeds.Uint64())
	}
}

func oneEventForEachKey(t *testing.T, keys int, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		e := &engines{began: time.Now(), ids: id.NewGenerator(time.Now), random: rand.New(rand.NewPCG(seed, 0)),
			claims: map[string]kept{}, log: map[string]map[id.ID]bool{}}
		claims := &claim.Claims{Store: e, Now: time.Now, Room: wait.NewRoom(1 << 40),
			Pause:    wait.Backoff{First: 100 * time.Millisecond, Longest: time.Second},
			IsStored: func(_ context.Context, account string, event id.ID) (bool, error) { return e.isStored(account, event) }}
		var clients sync.WaitGroup
		for i := range keys {
			clients.Go(func() {
				key := fmt.Sprint(i)
				time.Sleep(time.Duration(i) * 20 * time.Millisecond)
				for answered := false; !answered; {
					result := make(chan bool, 1)
					go func() { result <- e.request(claims, key) }()
					select {
					case answered = <-result:
					case <-time.After(5 * time.Second): // the client gives up, the request does not
					}
					_ = wait.For(context.Background(), wait.Jitter(2*time.Second))
				}
			})
		}
		clients.Wait()
		time.Sleep(5 * time.Minute) // what is still on its way arrives
		must.Equal(t, len(e.log), keys, "keys with an event (seed %d)", seed)
		for key, events := range e.log {
			if len(events) != 1 {
				t.Fatalf("key %s has %d events (seed %d)", key, len(events), seed)
			}
		}
	})
}
