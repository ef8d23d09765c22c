package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// puller is a consumer of one destination.
type puller struct {
	client
	name, path string
}

// newPulled creates an endpoint with a destination that consumers pull and returns its id, a consumer and the secret.
func newPulled(c client, leaseSeconds int) (ep string, p puller, secret string) {
	c.t.Helper()
	made := c.must(http.StatusCreated, "POST", "/v1/endpoints", map[string]any{
		"destinations": []any{map[string]any{"pull": map[string]any{"lease_seconds": leaseSeconds}}},
		"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 1, "max_attempts": 50, "jitter": 0},
	})
	dest := made["destinations"].([]any)[0].(map[string]any)
	ep = made["id"].(string)
	return ep, puller{c, "worker-1", "/v1/endpoints/" + ep + "/destinations/" + dest["id"].(string)},
		dest["signing"].(map[string]any)["secret"].(string)
}

// pull returns events; an error is none.
func (p puller) pull(most, wait int) (events []wire.PulledEvent) {
	p.t.Helper()
	path := fmt.Sprintf("%s/pull?consumer=%s&max=%d&wait=%d", p.path, p.name, most, wait)
	status, raw, _, err := p.request("GET", path, nil)
	if err != nil || status != http.StatusOK {
		p.t.Logf("pull of %s: %d %s %v", p.name, status, raw, err)
		return nil
	}
	var answer wire.Pulled
	must.Do(p.t, json.Unmarshal(raw, &answer))
	return answer.Data
}

// ack acknowledges events and returns the statuses.
func (p puller) ack(events ...wire.PulledEvent) (statuses []string) {
	p.t.Helper()
	var names []string
	for _, e := range events {
		names = append(names, e.AttemptID)
	}
	answer := p.must(http.StatusOK, "POST", p.path+"/ack", map[string]any{"attempt_ids": names})
	for _, x := range answer["data"].([]any) {
		statuses = append(statuses, x.(map[string]any)["status"].(string))
	}
	return statuses
}

// drain pulls and acknowledges until n different events were seen, and returns how often each was.
func (p puller) drain(n int) map[string]int {
	p.t.Helper()
	seen := map[string]int{}
	eventually(p.t, arrival, func() string {
		events := p.pull(50, 1)
		for _, e := range events {
			seen[e.EventID]++
		}
		if len(events) > 0 {
			p.ack(events...)
		}
		if len(seen) < n {
			return fmt.Sprintf("%d of %d events", len(seen), n)
		}
		return ""
	})
	return seen
}

// Consumers share the events of a destination. What they acknowledge is delivered and, after its commit, comes to
// nobody again, whatever is killed. What they do not acknowledge comes again.
func TestPull(t *testing.T) {
	t.Parallel()
	const events = 60
	p := startDevProcess(t, t.TempDir())
	ep, one, secret := newPulled(p.forTest(t), 600)
	two := one
	two.name = "worker-2"
	verifier := must.Get(standardwebhooks.NewWebhook(secret))(t)
	for n := range events {
		one.send(ep, n)
	}
	var mu sync.Mutex
	var consumers sync.WaitGroup
	owner, acknowledged := map[string]string{}, map[string]bool{}
	for _, c := range []puller{one, two} {
		consumers.Go(func() {
			for range 4 {
				for _, e := range c.pull(5, 10) {
					header := http.Header{}
					for name, value := range e.Headers {
						header.Set(name, value)
					}
					is.OK(t, verifier.Verify([]byte(e.Body), header), e.EventID)
					mu.Lock()
					is.Equal(t, owner[e.EventID], "", "%s went to: and %s", e.EventID, c.name)
					owner[e.EventID] = c.name
					mu.Unlock()
					if got := c.ack(e); got[0] != "acknowledged" {
						t.Errorf("acknowledging %s: %v", e.EventID, got)
					}
					mu.Lock()
					acknowledged[e.EventID] = true
					mu.Unlock()
				}
			}
		})
	}
	consumers.Wait()
	byConsumer := map[string]int{}
	for event, name := range owner {
		byConsumer[name]++
		if byConsumer[name] == 1 {
			detail := one.must(http.StatusOK, "GET", "/v1/events/"+event, nil)
			is.Has(t, fmt.Sprint(detail["attempts"]), "pull://"+name, "the attempt does not name %s", name)
		}
	}
	is.Equal(t, len(byConsumer), 2, "the consumers got %v", byConsumer)
	leased := one.pull(10, 10)
	if got := one.ack(wire.PulledEvent{AttemptID: "att_nothing"}, leased[0], leased[0]); fmt.Sprint(got) !=
		"[unknown acknowledged acknowledged]" {
		t.Errorf("acknowledgements: %v", got)
	}
	acknowledged[leased[0].EventID] = true
	list := one.must(http.StatusOK, "GET", one.path+"/consumers", nil)["data"].([]any)
	if newest := list[0].(map[string]any); len(list) != 2 || newest["consumer"] != one.name ||
		newest["leases"] != float64(len(leased)-1) {
		t.Errorf("consumers: %v", list)
	}
	time.Sleep(2 * time.Second) // until what was acknowledged is committed
	p.kill()
	p.start()
	for event := range one.drain(events - len(acknowledged)) {
		if acknowledged[event] {
			t.Errorf("%s was acknowledged and came again", event)
		}
	}
	for _, event := range leased[1:] {
		is.Equal(t, one.ack(event)[0], "unknown", "the lease of %s outlived its node", event.EventID)
	}
}

// A second pull of a consumer is refused while the first one waits. An event that is not acknowledged in time has
// failed an attempt, and comes again. A stop waits for no pull.
func TestPullLease(t *testing.T) {
	t.Parallel()
	p := startDevProcess(t, t.TempDir())
	ep, c, _ := newPulled(p.forTest(t), 1)
	var waiting sync.WaitGroup
	awaitPull := func(c puller) {
		t.Helper()
		eventually(t, arrival, func() string {
			list := c.must(http.StatusOK, "GET", c.path+"/consumers", nil)["data"].([]any)
			if len(list) == 0 || list[0].(map[string]any)["pulling"] != true {
				return fmt.Sprint("nobody pulls: ", list)
			}
			return ""
		})
	}
	waiting.Go(func() { c.pull(1, 30) })
	awaitPull(c)
	if status, answer := c.try("GET", c.path+"/pull?consumer="+c.name, nil); status != http.StatusBadRequest ||
		fmt.Sprint(answer["error"].(map[string]any)["type"]) != "conflict" {
		t.Errorf("a second pull: %d %v", status, answer)
	}
	event := c.send(ep, 1) // the waiting pull leases it, and nobody acknowledges it
	waiting.Wait()
	again := c.pull(1, 10)
	if len(again) != 1 || again[0].EventID != event || again[0].Attempt != 2 {
		t.Fatalf("after the lease: %+v", again)
	}
	detail := fmt.Sprint(c.must(http.StatusOK, "GET", "/v1/events/"+event, nil)["attempts"])
	is.Has(t, detail, "not_acknowledged", "the first attempt")
	time.Sleep(1500 * time.Millisecond)
	is.Equal(t, c.ack(again[0])[0], "expired", "acknowledged after the lease")
	_, idle, _ := newPulled(p.forTest(t), 1) // where no attempt becomes due
	waiting.Go(func() { idle.pull(1, 30) })
	awaitPull(idle)
	began := time.Now()
	must.Do(t, p.stop(15))
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stop waited for a pull: it took %v", took)
	}
	waiting.Wait()
}
