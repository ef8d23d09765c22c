package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
)

// board keeps the messages that a webhook and a Slack channel were given.
type board struct {
	mu   sync.Mutex // guards told
	told []told
}

// told is one message: down which channel, about which endpoint, and the id by which repeats are known.
type told struct{ channel, endpoint, kind, id string }

// take is an endpoint of HTTP for both channels; what a Slack message is about stands in its text alone.
func (b *board) take(r received) int {
	var body struct {
		ID, Type string
		Data     struct {
			EndpointID string `json:"endpoint_id"`
		}
	}
	m := told{channel: strings.Trim(r.path, "/"), kind: "firing"}
	if err := json.Unmarshal(r.body, &body); err != nil {
		return http.StatusBadRequest
	}
	m.endpoint, m.id = body.Data.EndpointID, body.ID
	if strings.HasSuffix(body.Type, ".resolved") || strings.Contains(string(r.body), "[Resolved]") {
		m.kind = "resolved"
	}
	if _, rest, in := strings.Cut(string(r.body), "(ep_"); in && m.endpoint == "" {
		name, _, _ := strings.Cut(rest, ")")
		m.endpoint = "ep_" + name
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, m)
	return http.StatusOK
}

// all is what was told so far, mails included.
func (b *board) all(mail *kit.MailServer) []told {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := append([]told(nil), b.told...)
	for _, l := range mail.Messages() {
		m := told{channel: "mail", kind: "firing", id: l.Header.Get("Message-Id")}
		if strings.HasSuffix(l.Header.Get("X-Relay-Type"), ".resolved") {
			m.kind = "resolved"
		}
		_, rest, _ := strings.Cut(l.Body, "(ep_")
		name, _, _ := strings.Cut(rest, ")")
		m.endpoint = "ep_" + name
		all = append(all, m)
	}
	return all
}

// alertsOfThreeNodes: the destinations of several endpoints die while three nodes share the work, one node is killed
// when the first message comes, and the destinations come back. Every channel hears of the beginning and of the end
// of each endpoint's trouble once.
func alertsOfThreeNodes(t *testing.T, c *cluster, _ uint64) {
	mail := kit.NewMailServer(t, nil, kit.MailOptions{})
	c.env = append(c.env, "RELAY_SMTP_URL=smtp://"+mail.Addr+"?from=relay@example.com")
	nodes := c.start("a", "b", "c")
	b := &board{}
	channels := newSink(t, b.take)
	var dead atomic.Bool
	dead.Store(true)
	dest := newSink(t, func(received) int {
		if dead.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	write := nodes[0].in(t)
	off := map[string]any{"enabled": false}
	settings := write.must(http.StatusOK, "PATCH", "/v1/alerts", map[string]any{
		"email": "ops@example.com", "slack_webhook_url": channels.URL + "/slack", "webhook_url": channels.URL + "/webhook",
		"cooldown_seconds": 3600,
		"rules": map[string]any{"delivery_failed": off, "failure_rate": off, "backlog_age": off, "destination_state": off,
			"consecutive_failures": map[string]any{"threshold": 4}},
	})
	if settings["warnings"] != nil {
		t.Fatalf("%v", settings)
	}
	endpoints := map[string]bool{}
	for len(endpoints) < 8 { // enough for every node to have some
		ep, _, _ := write.endpoint(map[string]any{
			"destinations": []any{dest.URL + "/" + fmt.Sprint(len(endpoints))},
			"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 1, "max_attempts": 50, "jitter": 0},
		})
		endpoints[ep] = true
		write.send(ep, len(endpoints))
	}
	eventually(t, time.Minute, func() string {
		if len(b.all(mail)) == 0 {
			return "nobody was told anything"
		}
		return ""
	})
	nodes[2].kill()
	begin := time.Now()
	heard := func(kind string) {
		t.Helper()
		eventually(t, 2*time.Minute, func() string { return missing(b.all(mail), endpoints, kind) })
	}
	heard("firing")
	t.Logf("all %d endpoints are told of %v after the kill", len(endpoints), time.Since(begin).Round(time.Millisecond))
	dead.Store(false)
	heard("resolved")
	nodes[2].start() // the one that was killed has nothing to add
	c.balanced(len(nodes))
	time.Sleep(2 * time.Second)
	counts := map[told]int{}
	ids := map[told]map[string]bool{}
	for _, m := range b.all(mail) {
		id := m.id
		m.id = ""
		if counts[m]++; ids[m] == nil {
			ids[m] = map[string]bool{}
		}
		ids[m][id] = true
	}
	repeats := 0
	for m, n := range counts {
		// Killed between a message and its word in the log: it comes again, as the same, from the node that took it over.
		if repeats += n - 1; n > 2 || len(ids[m]) != 1 || !endpoints[m.endpoint] {
			t.Errorf("%+v came %d times, as %v", m, n, ids[m])
		}
	}
	if want := 2 * 3 * len(endpoints); len(counts) != want {
		t.Errorf("%d different messages, want %d; %d came again", len(counts), want, repeats)
	}
	t.Logf("%d messages, %d came again after the kill", len(counts)+repeats, repeats)
}

// missing says what of a kind was not yet told of which endpoint.
func missing(all []told, endpoints map[string]bool, kind string) string {
	have := map[told]bool{}
	for _, m := range all {
		m.id = ""
		have[m] = true
	}
	for ep := range endpoints {
		for _, channel := range []string{"mail", "slack", "webhook"} {
			if m := (told{channel: channel, endpoint: ep, kind: kind}); !have[m] {
				return fmt.Sprintf("nobody was told %+v; told are %d messages", m, len(all))
			}
		}
	}
	return ""
}
