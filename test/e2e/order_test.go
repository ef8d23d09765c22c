package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/test/must"
)

// orderKeys is how many keys the events of TestOrder have.
const orderKeys = 10

// An ordered destination fails three of ten requests, the process is killed three times, and the endpoint moves. The
// first successes of each key are in the order of its events, none is lost, and another destination is not delayed.
// With RELAY_TORTURE it takes 2,000 events of each key; then a key has 600 retries, one after the other.
func TestOrder(t *testing.T) {
	t.Parallel()
	skipShort(t)
	perKey := rounds(0, 60, 2000)
	var seen sync.Mutex // guards what follows
	last, random := map[string]int{}, rand.New(rand.NewPCG(1, uint64(perKey)))
	dest := newSink(t, func(r received) int {
		seen.Lock()
		defer seen.Unlock()
		if random.IntN(10) < 3 {
			return http.StatusServiceUnavailable
		}
		key := r.header.Get("X-Key")
		if n, _ := strconv.Atoi(r.header.Get("X-Number")); n == last[key]+1 {
			last[key] = n
		} else if n > last[key] {
			t.Errorf("event %d of %s was delivered after event %d", n, key, last[key])
		}
		return http.StatusOK
	})
	other := newSink(t, nil)
	p := startDevProcess(t, t.TempDir())
	ep, in, _ := p.endpoint(map[string]any{
		"destinations": []any{
			map[string]any{"url": dest.URL, "ordering": map[string]any{"by": "header:X-Key"}, "max_in_flight": 64},
			other.URL},
		"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 1, "max_attempts": 50, "jitter": 0},
	})
	post := func(from, to int) *sync.WaitGroup {
		var all sync.WaitGroup
		for k := range orderKeys {
			all.Go(func() {
				for n := from; n <= to; {
					req := must.Get(http.NewRequest(http.MethodPost, in, strings.NewReader("{}")))(t)
					req.Header.Set("X-Key", fmt.Sprint("key-", k))
					req.Header.Set("X-Number", strconv.Itoa(n))
					if resp, err := http.DefaultClient.Do(req); err == nil {
						resp.Body.Close()
						if resp.StatusCode == http.StatusOK {
							n++
							continue
						}
					}
					time.Sleep(50 * time.Millisecond) // the relay is down at the moment
				}
			})
		}
		return &all
	}
	posted := post(1, perKey*2/3)
	for range 3 {
		time.Sleep(time.Duration(rounds(0, 4, 60)) * time.Second)
		p.kill()
		p.start()
	}
	posted.Wait()
	home := partitionOf(t, p.send(ep, 0))                     // without the header, and so without an order
	p.move(command.ExitRefused, ep, int(home+1)%4, "--leave") // what it leaves behind would be overtaken
	posted = post(perKey*2/3+1, perKey)
	steps, _ := p.move(command.ExitDone, ep, int(home+1)%4, "--wait", "3600s")
	posted.Wait()
	began := time.Now()
	eventually(t, time.Hour, func() string {
		seen.Lock()
		defer seen.Unlock()
		for k := range orderKeys {
			if n := last[fmt.Sprint("key-", k)]; n < perKey {
				return fmt.Sprintf("%d of %d events of key %d were delivered", n, perKey, k)
			}
		}
		return ""
	})
	if got := len(other.received()); got < perKey*orderKeys {
		t.Errorf("the other destination got %d of %d events", got, perKey*orderKeys)
	}
	t.Logf("%d events of %d keys, %d requests, 3 kills, moved in %d steps; the last %v after the move", perKey*orderKeys,
		orderKeys, len(dest.received()), len(steps), time.Since(began).Round(time.Second))
}
