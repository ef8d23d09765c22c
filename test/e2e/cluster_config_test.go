package e2e

import (
	"fmt"
	"github.com/eventrelay/relay/test/is"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// concurrentPatches changes one endpoint through two nodes at the same time; each node counts up its own number in the
// metadata. Every answer shows both numbers and so which changes came before it. The answers must fit into one order,
// and none may be missing at the end.
func concurrentPatches(t *testing.T, nodes []*process, seed uint64) {
	each := rounds(50, 50, 500)
	endpoint, _, _ := nodes[0].forTest(t).endpoint(
		map[string]any{"destinations": []any{"https://example.com/h"}, "metadata": map[string]any{"a": "0", "b": "0"}})
	began := time.Now()
	shown := make([][]changeCounts, 2) // what the answers to each node's changes showed
	conflicts := make([]int, 2)
	var wg sync.WaitGroup
	for i, name := range []string{"a", "b"} {
		wg.Go(func() { shown[i], conflicts[i] = patchRepeatedly(t, nodes[i].forTest(t), endpoint, name, each) })
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for i, n := range nodes[:2] {
		got, err := metadataCounts(n.forTest(t).must(http.StatusOK, "GET", "/v1/endpoints/"+endpoint, nil))
		if err != nil || got != (changeCounts{each, each}) {
			t.Errorf("at the end node %d shows %v (%v), want %d changes of each", i, got, err, each)
		}
	}
	is.Equal(t, checkSerial(shown[0], shown[1]), "")
	t.Logf("RELAY_SEED=%d: accepted %d changes, lost 0, all in one order; retried %d conflicts; %v per change",
		seed, 2*each, conflicts[0]+conflicts[1], (time.Since(began) / time.Duration(2*each)).Round(time.Microsecond))
}

// changeCounts says how many changes of each node an endpoint shows.
type changeCounts struct{ a, b int }

// patchRepeatedly makes n changes, one after the other, and returns the counts in their answers.
func patchRepeatedly(t *testing.T, c client, endpoint, name string, n int) (shown []changeCounts, conflicts int) {
	for i := 1; i <= n; i++ {
		for {
			status, answer, _ := c.call(
				"PATCH", "/v1/endpoints/"+endpoint, map[string]any{"metadata": map[string]any{name: strconv.Itoa(i)}})
			if fault, _ := answer["error"].(map[string]any); status == http.StatusBadRequest && fault["type"] == "conflict" {
				conflicts++ // the node gave up after too many concurrent changes; nothing was changed
				continue
			}
			got, err := metadataCounts(answer)
			if status != http.StatusOK || err != nil {
				t.Errorf("change %s%d: the answer is %d %v: %v", name, i, status, answer, err)
				return shown, conflicts
			}
			shown = append(shown, got)
			break
		}
	}
	return shown, conflicts
}

func metadataCounts(endpoint map[string]any) (changeCounts, error) {
	metadata, ok := endpoint["metadata"].(map[string]any)
	if !ok {
		return changeCounts{}, fmt.Errorf("no metadata in %v", endpoint)
	}
	a, errA := strconv.Atoi(fmt.Sprint(metadata["a"]))
	b, errB := strconv.Atoi(fmt.Sprint(metadata["b"]))
	if errA != nil || errB != nil {
		return changeCounts{}, fmt.Errorf("metadata is %v", metadata)
	}
	return changeCounts{a, b}, nil
}

// checkSerial says why the answers to the changes of a and b fit into no serial order; "" if they fit. Change i of a
// comes before change j of b if its answer does not show j; then the answer to j must show i, and vice versa.
func checkSerial(a, b []changeCounts) (fault string) {
	for i, x := range a {
		if x.a != i+1 {
			return fmt.Sprintf("the answer to change a%d shows %v", i+1, x)
		}
		for j, y := range b {
			if y.b != j+1 {
				return fmt.Sprintf("the answer to change b%d shows %v", j+1, y)
			}
			if before, after := x.b < j+1, y.a >= i+1; before != after {
				return fmt.Sprintf("changes a%d (showed %v) and b%d (showed %v) have no order", i+1, x, j+1, y)
			}
		}
	}
	return ""
}

// revokedWhileHung revokes keys while Redis is down and one node is frozen. The revocation is answered when that node's
// lease has expired. From then on no node accepts the key, not even the frozen one for requests that waited in its
// queue.
func revokedWhileHung(t *testing.T, nodes []*process, limiter *process, seed uint64) {
	a, b, hung := nodes[0], nodes[1], nodes[2]
	limiter.kill()
	var worst time.Duration
	taken := 0
	for range rounds(1, 1, 20) {
		words := strings.Fields(a.keys("create", "--name", "short-lived", "--scope", "read"))
		id, key := words[0], words[2]
		for _, n := range nodes {
			eventually(t, arrival, func() string {
				if status, answer, _ := n.forTest(t).withKey(key).call("GET", "/v1/me", nil); status != http.StatusOK {
					return fmt.Sprintf("a request with a new key is answered %d %v", status, answer)
				}
				return ""
			})
		}
		hung.signal(syscall.SIGSTOP)
		began := time.Now()
		a.keys("revoke", id)
		worst = max(worst, time.Since(began))
		for _, n := range []*process{a, b} {
			n.forTest(t).withKey(key).must(http.StatusUnauthorized, "GET", "/v1/me", nil)
		}
		var wg sync.WaitGroup
		waiting := make(chan int, 32) // capacity: all requests
		for range cap(waiting) {
			wg.Go(func() {
				status, _, _ := hung.forTest(t).withKey(key).call("GET", "/v1/me", nil)
				waiting <- status
			})
		}
		time.Sleep(200 * time.Millisecond) // most requests are in its queue now
		hung.signal(syscall.SIGCONT)
		wg.Wait()
		for range cap(waiting) {
			if <-waiting == http.StatusOK {
				taken++
			}
		}
		eventually(t, arrival, func() string {
			if status, answer, _ := hung.forTest(t).withKey(key).call("GET", "/v1/me", nil); status != http.StatusUnauthorized {
				return fmt.Sprintf("the thawed node answers a revoked key with %d %v", status, answer)
			}
			return ""
		})
	}
	t.Logf("RELAY_SEED=%d: accepted revoked keys 0, longest revocation %v", seed, worst.Round(time.Millisecond))
	if taken > 0 {
		t.Errorf("the thawed node accepted revoked keys %d times", taken)
	}
}
