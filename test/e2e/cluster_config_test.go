package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
)

// concurrentPatches: two nodes change one endpoint at the same time, each its own number in the metadata.
// Every answer shows both numbers, so the answers say which changes came before which: they must fit into
// one order, in which none is missing at the end.
func concurrentPatches(t *testing.T, c *cluster, seed uint64) {
	nodes := c.start("a", "b")
	each := rounds(50, 50, 500)
	endpoint, _, _ := nodes[0].in(t).endpoint(
		map[string]any{"destinations": []any{"https://example.com/h"}, "metadata": map[string]any{"a": "0", "b": "0"}})
	began := time.Now()
	shown := make([][]pair, 2) // what the answers to each node's changes showed
	conflicts := make([]int, 2)
	var wg sync.WaitGroup
	for i, name := range []string{"a", "b"} {
		wg.Go(func() { shown[i], conflicts[i] = patches(t, nodes[i].in(t), endpoint, name, each) })
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for i, n := range nodes {
		got, err := numbers(n.in(t).must(http.StatusOK, "GET", "/v1/endpoints/"+endpoint, nil))
		if err != nil || got != (pair{each, each}) {
			t.Errorf("node %d shows %v at the end (%v), want %d changes of each", i, got, err, each)
		}
	}
	if fault := serial(shown[0], shown[1]); fault != "" {
		t.Error(fault)
	}
	t.Logf("RELAY_SEED=%d: accepted %d changes, lost 0, all in one order; %d conflicts were tried again; %v a change",
		seed, 2*each, conflicts[0]+conflicts[1], (time.Since(began) / time.Duration(2*each)).Round(time.Microsecond))
}

// pair is how many changes of each node an endpoint shows.
type pair struct{ a, b int }

// patches makes changes, one after the other, and returns what their answers showed.
func patches(t *testing.T, c client, endpoint, name string, n int) (shown []pair, conflicts int) {
	for i := 1; i <= n; i++ {
		for {
			status, answer, _ := c.call(
				"PATCH", "/v1/endpoints/"+endpoint, map[string]any{"metadata": map[string]any{name: strconv.Itoa(i)}})
			if fault, _ := answer["error"].(map[string]any); status == http.StatusBadRequest && fault["type"] == "conflict" {
				conflicts++ // so many others came between that the node gave up; nothing was changed
				continue
			}
			got, err := numbers(answer)
			if status != http.StatusOK || err != nil {
				t.Errorf("change %s%d was answered %d %v: %v", name, i, status, answer, err)
				return shown, conflicts
			}
			shown = append(shown, got)
			break
		}
	}
	return shown, conflicts
}

func numbers(endpoint map[string]any) (pair, error) {
	metadata, ok := endpoint["metadata"].(map[string]any)
	if !ok {
		return pair{}, fmt.Errorf("no metadata in %v", endpoint)
	}
	a, errA := strconv.Atoi(fmt.Sprint(metadata["a"]))
	b, errB := strconv.Atoi(fmt.Sprint(metadata["b"]))
	if errA != nil || errB != nil {
		return pair{}, fmt.Errorf("metadata is %v", metadata)
	}
	return pair{a, b}, nil
}

// serial says why the answers to the changes of a and of b fit into no order. Change i of a comes before
// change j of b if its answer does not show j; then the answer to j must show i, and the other way round.
func serial(a, b []pair) (fault string) {
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

// revokedWhileHung: with Redis away and one node hanging, a revocation is answered when that node's lease has
// run out. From then on nobody takes the key: not the others, and not the one that hung, though requests
// waited for it to go on.
func revokedWhileHung(t *testing.T, c *cluster, limiter *kit.Engine, seed uint64) {
	nodes := c.start("a", "b", "c")
	a, b, hung := nodes[0], nodes[1], nodes[2]
	limiter.Kill(t)
	var worst time.Duration
	taken := 0
	for range rounds(1, 1, 20) {
		words := strings.Fields(a.keys("create", "--name", "short-lived", "--scope", "read"))
		id, key := words[0], words[2]
		for _, n := range nodes {
			eventually(t, arrival, func() string {
				if status, answer, _ := n.in(t).with(key).call("GET", "/v1/me", nil); status != http.StatusOK {
					return fmt.Sprintf("a new key is answered %d %v", status, answer)
				}
				return ""
			})
		}
		hung.signal(syscall.SIGSTOP)
		began := time.Now()
		a.keys("revoke", id)
		worst = max(worst, time.Since(began))
		for _, n := range []*process{a, b} {
			n.in(t).with(key).must(http.StatusUnauthorized, "GET", "/v1/me", nil)
		}
		var wg sync.WaitGroup
		waiting := make(chan int, 32) // one for each request
		for range cap(waiting) {
			wg.Go(func() {
				status, _, _ := hung.in(t).with(key).call("GET", "/v1/me", nil)
				waiting <- status
			})
		}
		time.Sleep(200 * time.Millisecond) // most of them are in its queue now
		hung.signal(syscall.SIGCONT)
		wg.Wait()
		for range cap(waiting) {
			if <-waiting == http.StatusOK {
				taken++
			}
		}
		eventually(t, arrival, func() string {
			if status, answer, _ := hung.in(t).with(key).call("GET", "/v1/me", nil); status != http.StatusUnauthorized {
				return fmt.Sprintf("the node that hung answers a revoked key %d %v", status, answer)
			}
			return ""
		})
	}
	t.Logf("RELAY_SEED=%d: revoked keys that were taken 0, longest revocation %v", seed, worst.Round(time.Millisecond))
	if taken > 0 {
		t.Errorf("a node that hung took revoked keys %d times", taken)
	}
}
