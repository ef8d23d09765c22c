package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// While Kafka, Redis and a node are suspended, each alone and all at once, clients repeat their sends with the same
// Idempotency-Key until they are answered: one event for each key. RELAY_TORTURE=1 makes ten rounds.
func TestKeysWhileEnginesStall(t *testing.T) {
	t.Parallel()
	skipShort(t)
	kafka, redis := startEngine(t, "kafka"), startEngine(t, "redis")
	c := newCluster(t, engines{kafka.url, redis.url, sharedEngine(t, "clickhouse")}, "stall", shortWaits+"=1")
	nodes := c.start("a", "b")
	dest := newSink(t, nil)
	ep, _, _ := nodes[0].endpoint(map[string]any{"destinations": []any{dest.URL}})
	var next atomic.Int64
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					sendOneKey(t, nodes, ep, strconv.FormatInt(next.Add(1), 10))
				}
			}
		})
	}
	stall := func(all ...*process) {
		for _, p := range all {
			p.signal(syscall.SIGSTOP)
		}
		time.Sleep(12 * time.Second)
		for _, p := range all {
			p.signal(syscall.SIGCONT)
		}
		time.Sleep(3 * time.Second)
	}
	rounds := 1
	if os.Getenv("RELAY_TORTURE") != "" {
		rounds = 10
	}
	for range rounds {
		stall(kafka)
		stall(redis)
		stall(nodes[1])
		stall(kafka, redis, nodes[1])
	}
	close(stop)
	clients.Wait()
	keys := int(next.Load())
	eventually(t, time.Minute, func() string {
		if n := len(eventsByID(dest)); n < keys {
			return fmt.Sprintf("%d of %d keys were delivered", n, keys)
		}
		return ""
	})
	for key, events := range eventsByID(dest) {
		if len(events) != 1 {
			t.Errorf("key %s became %d events", key, len(events))
		}
	}
	t.Logf("%d keys", keys)
}

// sendOneKey sends an event until it is accepted, by one node after the other.
func sendOneKey(t *testing.T, nodes []*process, ep, key string) {
	client := http.Client{Timeout: 6 * time.Second}
	for n, began := 0, time.Now(); time.Since(began) < busy*2*time.Minute; n++ {
		req, err := http.NewRequest(http.MethodPost, nodes[n%len(nodes)].url+"/v1/endpoints/"+ep+"/events",
			strings.NewReader(`{"type":"a.b","data":{"key":"`+key+`"}}`))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+testKey)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "key-"+key)
		req.Header.Set("X-Id", key)
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusAccepted {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("key %s was never accepted", key)
}
