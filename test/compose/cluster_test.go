package compose

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// cluster is docker-compose.yml, brought up from a clone.
type cluster struct {
	t                  *testing.T
	program, clone     string
	profile            string
	env                []string
	url, receiver, key string
	prometheus         string // address
	endpoint, ingest   string // id and address of the endpoint that gets the events
	once               string // Idempotency-Key of calls; empty: none

	mu       sync.Mutex
	sent     int
	accepted map[int]string // by the event's number: its id, "" if it went to the ingest address
	refused  int
	received map[int]bool
}

// newCluster is for a profile of the file. It needs a Docker engine of its own with the images: test/compose/test.sh
// makes it.
func newCluster(t *testing.T, profile string) *cluster {
	t.Helper()
	program, clone := os.Getenv("RELAY_TEST_COMPOSE"), os.Getenv("RELAY_TEST_CLONE")
	if program == "" || clone == "" {
		t.Skip("test/compose/test.sh runs this (make torture PART=compose)")
	}
	port, receiver, prometheus := kit.FreePort(t), kit.FreePort(t), kit.FreePort(t)
	c := &cluster{
		t: t, program: program, clone: clone, profile: profile, accepted: map[int]string{}, received: map[int]bool{},
		prometheus: fmt.Sprintf("http://127.0.0.1:%d", prometheus),
		url:        fmt.Sprintf("http://127.0.0.1:%d", port), receiver: fmt.Sprintf("http://127.0.0.1:%d", receiver),
	}
	c.env = append(os.Environ(),
		"RELAY_PORT="+strconv.Itoa(port), "RECEIVER_PORT="+strconv.Itoa(receiver),
		"PROMETHEUS_PORT="+strconv.Itoa(prometheus), "RELAY_EGRESS_ALLOW=172.16.0.0/12,192.168.0.0/16",
		"RELAY_EGRESS_ALLOW_HTTP=true")
	t.Cleanup(func() { c.run(context.WithoutCancel(t.Context()), "down", "--volumes", "--timeout", "10") })
	return c
}

// compose runs docker compose and fails the test if it fails.
func (c *cluster) compose(args ...string) {
	c.t.Helper()
	began := time.Now()
	if out, err := c.run(c.t.Context(), args...); err != nil {
		logs, _ := c.run(c.t.Context(), "logs", "--no-color", "--tail", "30")
		c.t.Fatalf("docker compose %v: %v\n%s\n%s", args, err, out, logs)
	}
	c.t.Logf("docker compose %s: %.0f s", strings.Join(args, " "), time.Since(began).Seconds())
}

func (c *cluster) run(ctx context.Context, args ...string) ([]byte, error) {
	return c.command(ctx, args...).CombinedOutput()
}

func (c *cluster) command(ctx context.Context, args ...string) *exec.Cmd {
	args = append([]string{
		"-f", "docker-compose.yml", "-f", "test/docker/standins/override.yml", "--profile", c.profile}, args...)
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Dir, cmd.Env = c.clone, c.env
	return cmd
}

// relay runs a command of the relay in the container of a service, and returns what it writes to standard output.
func (c *cluster) relay(service string, input []byte, args ...string) []byte {
	c.t.Helper()
	var output, faults bytes.Buffer
	cmd := c.command(c.t.Context(), append([]string{"exec", "-T", service, "relay"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &output, &faults
	must.Do(c.t, cmd.Run(), "relay %v: %s%s", args, &output, &faults)
	return output.Bytes()
}

// up starts what does not run and waits until the relay takes requests.
func (c *cluster) up() {
	c.t.Helper()
	up := []string{"up", "--detach"}
	if os.Getenv("RELAY_TEST_IMAGE") != "" {
		up = append(up, "--no-build") // the image of a release is there
	}
	c.compose(up...)
	c.awaitReady(true)
	key := must.Get(os.ReadFile(filepath.Join(c.clone, "secrets/relay/bootstrap_key")))(c.t)
	c.key = strings.TrimSpace(string(key))
}

// awaitReady waits until the relay is ready, with or without the store.
func (c *cluster) awaitReady(store bool) {
	c.t.Helper()
	kit.Eventually(c.t, time.Minute, func() string {
		var answer struct {
			Checks []struct {
				Name string
				OK   bool
			}
		}
		status, err := c.call("GET", "/readyz", nil, &answer)
		if err != nil || status != http.StatusOK {
			return fmt.Sprintf("not ready: %d %v", status, err)
		}
		for _, check := range answer.Checks {
			if check.OK != (store || check.Name != "store") {
				return fmt.Sprintf("checks: %+v", answer.Checks)
			}
		}
		return ""
	})
}

// call sends a request to the load balancer and decodes the answer unless into is nil.
func (c *cluster) call(method, path string, body, into any) (status int, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	if c.once != "" {
		req.Header.Set("Idempotency-Key", c.once)
	}
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(answer, into)
	}
	return resp.StatusCode, err
}

// createEndpoint creates the endpoint that delivers to the receiver at destination.
func (c *cluster) createEndpoint(destination string) {
	c.t.Helper()
	var answer struct {
		ID        string `json:"id"`
		IngestURL string `json:"ingest_url"`
	}
	status, err := c.call("POST", "/v1/endpoints", map[string]any{
		"name":         "compose",
		"destinations": []any{map[string]any{"url": destination}},
		"retry_policy": map[string]any{"strategy": "exponential", "initial_seconds": 1, "max_attempts": 20},
	}, &answer)
	if err != nil || status != http.StatusCreated {
		c.t.Fatalf("create an endpoint: %d %v", status, err)
	}
	_, path, _ := strings.Cut(answer.IngestURL, "/in/")
	c.endpoint, c.ingest = answer.ID, "/in/"+path
}

// send sends the next event, by turns to the ingest address and through the API.
func (c *cluster) send() {
	c.mu.Lock()
	number := c.sent
	c.sent++
	c.mu.Unlock()
	var answer struct {
		ID string `json:"id"`
	}
	path, body := c.ingest, map[string]any{"type": "order.paid", "number": number}
	if number%2 == 1 {
		path, body = "/v1/endpoints/"+c.endpoint+"/events", map[string]any{"type": "order.paid", "data": body}
	}
	status, err := c.call("POST", path, body, &answer)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || status/100 != 2 {
		c.refused++
		return
	}
	c.accepted[number] = answer.ID
}

// load sends 20 events a second until ctx ends.
func (c *cluster) load(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.send()
		}
	}
}

func (c *cluster) countAccepted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.accepted)
}

// awaitAccepted waits until this many more events are accepted.
func (c *cluster) awaitAccepted(more int) {
	c.t.Helper()
	want := c.countAccepted() + more
	kit.Eventually(c.t, 2*time.Minute, func() string {
		if got := c.countAccepted(); got < want {
			return fmt.Sprintf("%d events accepted, want %d", got, want)
		}
		return ""
	})
}

// awaitReceived waits until the receiver has all events that are accepted now.
func (c *cluster) awaitReceived() {
	c.t.Helper()
	c.mu.Lock()
	var want []int
	for number := range c.accepted {
		want = append(want, number)
	}
	c.mu.Unlock()
	kit.Eventually(c.t, 3*time.Minute, func() string {
		resp, err := http.Get(c.receiver + "/seen")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		var seen []int
		if err := json.NewDecoder(resp.Body).Decode(&seen); err != nil {
			return err.Error()
		}
		for _, number := range seen {
			c.received[number] = true
		}
		missing := 0
		for _, number := range want {
			if !c.received[number] {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Sprintf("%d of %d accepted events have not arrived", missing, len(want))
		}
		return ""
	})
}

// awaitStored waits until the API lists every accepted event as delivered.
func (c *cluster) awaitStored() {
	c.t.Helper()
	kit.Eventually(c.t, 2*time.Minute, func() string {
		statuses, listed, cursor := map[string]string{}, 0, ""
		for {
			var page struct {
				Data []struct {
					ID, Status string
				}
				Next string `json:"next_cursor"`
			}
			status, err := c.call("GET", "/v1/events?limit=100&endpoint_id="+c.endpoint+cursor, nil, &page)
			if err != nil || status != http.StatusOK {
				return fmt.Sprintf("list events: %d %v", status, err)
			}
			for _, e := range page.Data {
				statuses[e.ID] = e.Status
				listed++
			}
			if page.Next == "" {
				break
			}
			cursor = "&cursor=" + page.Next
		}
		if listed < len(c.accepted) {
			return fmt.Sprintf("%d events listed, %d accepted", listed, len(c.accepted))
		}
		for number, id := range c.accepted {
			if id != "" && statuses[id] != "delivered" {
				return fmt.Sprintf("event %d, %s, is %q", number, id, statuses[id])
			}
		}
		return ""
	})
}

// awaitScraped waits until Prometheus has read the metrics of this many nodes.
func (c *cluster) awaitScraped(nodes string) {
	c.t.Helper()
	kit.Eventually(c.t, time.Minute, func() string {
		resp, err := http.Get(c.prometheus + "/api/v1/query?query=sum(up)")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(text), `,"`+nodes+`"]`) {
			return fmt.Sprintf("Prometheus reads other than %s nodes: %v %s", nodes, err, text)
		}
		return ""
	})
}

// The small profile has one broker and one node. Its configuration goes out of the container and into an empty cluster,
// as docs/operate/upgrade.md says.
func TestComposeSmall(t *testing.T) {
	c := newCluster(t, "small")
	c.up()
	c.createEndpoint("http://receiver:8090/hook")
	for range 10 {
		c.send()
	}
	c.awaitReceived()
	c.awaitScraped("1")
	repeated := func() (answer struct{ ID string }) {
		c.once = "order-1042"
		status, err := c.call("POST", "/v1/endpoints/"+c.endpoint+"/events",
			map[string]any{"type": "once", "data": map[string]any{"number": 9999}}, &answer)
		is.Equal(t, status, http.StatusAccepted, "a send: %v", err)
		c.once = ""
		return answer
	}
	first := repeated()
	c.compose("down")
	c.up()
	c.awaitStored()
	is.Equal(t, len(c.accepted), 10, "of 10 events were accepted")
	is.Equal(t, repeated(), first, "Redis has forgotten an Idempotency-Key: the repeat is another event")

	c.relay("relay", nil, "doctor")
	export := c.relay("relay", nil, "config", "export")
	c.compose("down", "--volumes")
	c.up()
	c.relay("relay", export, "config", "import", "-", "--paused")
	c.send() // by the ingest URL of before
	c.relay("relay", export, "config", "resume", "-")
	c.send() // with the API key of before
	c.awaitReceived()
	is.Equal(t, len(c.accepted), 12, "of 12 events were accepted")
}

// docker-compose.yml comes up from a clone, with the relay's own image. Events go on while a node of each role and a
// broker are killed, and while ClickHouse is stopped; after down and up nothing is lost, also not the configuration.
func TestComposeCluster(t *testing.T) {
	c := newCluster(t, "cluster")
	c.up()
	c.createEndpoint("http://receiver:8090/hook")
	c.send()
	c.awaitReceived()
	c.awaitScraped("6")

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { c.load(ctx) })
	defer wg.Wait()
	defer stop()
	c.awaitAccepted(100)
	c.compose("kill", "relay-dispatch-1", "relay-ingest-1", "relay-api-1", "kafka-2")
	c.awaitAccepted(200)
	c.awaitReceived()
	c.compose("start", "kafka-2", "relay-dispatch-1", "relay-ingest-1", "relay-api-1")
	c.awaitAccepted(200)

	c.compose("stop", "clickhouse")
	c.awaitReady(false)
	if status, err := c.call("PATCH", "/v1/endpoints/"+c.endpoint, map[string]any{"name": "renamed"}, nil); status != 200 {
		t.Errorf("a change without ClickHouse: %d %v", status, err)
	}
	c.awaitAccepted(50)
	c.awaitReceived()
	c.compose("start", "clickhouse")
	c.awaitReady(true)
	stop()
	wg.Wait()
	c.awaitReceived()
	c.awaitStored()

	c.compose("down")
	c.up()
	c.awaitStored()
	var endpoint struct{ Name string }
	if _, err := c.call("GET", "/v1/endpoints/"+c.endpoint, nil, &endpoint); err != nil || endpoint.Name != "renamed" {
		t.Errorf("the endpoint after down and up: %+v %v", endpoint, err)
	}
	c.send()
	c.awaitReceived()
	t.Logf("%d events accepted, %d refused, 0 lost", len(c.accepted), c.refused)
}
