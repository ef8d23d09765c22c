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

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

// alertInbox keeps the alerts that a webhook and a Slack channel received.
type alertInbox struct {
	mu       sync.Mutex // guards messages
	messages []alertMessage
}

// alertMessage is one alert: its channel, its endpoint, firing or resolved, and the id by which a receiver recognises
// repeats.
type alertMessage struct{ channel, endpoint, kind, id string }

// receive answers the requests of both channels. A Slack message names its endpoint only in its text.
func (b *alertInbox) receive(r received) int {
	var body struct {
		ID, Type string
		Data     struct {
			EndpointID string `json:"endpoint_id"`
		}
	}
	m := alertMessage{channel: strings.Trim(r.path, "/"), kind: "firing"}
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
	b.messages = append(b.messages, m)
	return http.StatusOK
}

// withMails returns all alerts so far, mails included.
func (b *alertInbox) withMails(mail *kit.MailServer) []alertMessage {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := append([]alertMessage(nil), b.messages...)
	for _, l := range mail.Messages() {
		m := alertMessage{channel: "mail", kind: "firing", id: l.Header.Get("Message-Id")}
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

// alertsOfThreeNodes checks alerts while a node dies. The destinations of eight endpoints fail while three nodes share
// the work, one node is killed when the first alert arrives, and the destinations recover. Every channel gets one
// firing and one resolved alert for each endpoint.
func alertsOfThreeNodes(t *testing.T, c *cluster, nodes []*process, mail *kit.MailServer) {
	b := &alertInbox{}
	channels := newSink(t, b.receive)
	var dead atomic.Bool
	dead.Store(true)
	dest := newSink(t, func(received) int {
		if dead.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	write := nodes[0].forTest(t)
	off := map[string]any{"enabled": false}
	settings := write.must(http.StatusOK, "PATCH", "/v1/alerts", map[string]any{
		"email": "ops@example.com", "slack_webhook_url": channels.URL + "/slack", "webhook_url": channels.URL + "/webhook",
		"cooldown_seconds": 3600,
		"rules": map[string]any{"delivery_failed": off, "failure_rate": off, "backlog_age": off, "destination_state": off,
			"consecutive_failures": map[string]any{"threshold": 2}},
	})
	if settings["warnings"] != nil {
		t.Fatalf("%v", settings)
	}
	endpoints := map[string]bool{}
	for len(endpoints) < 8 { // so many that every node owns some
		ep, _, _ := write.endpoint(map[string]any{
			"destinations": []any{dest.URL + "/" + fmt.Sprint(len(endpoints))},
			"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 1, "max_attempts": 50, "jitter": 0},
		})
		endpoints[ep] = true
		write.send(ep, len(endpoints))
	}
	eventually(t, time.Minute, func() string {
		if len(b.withMails(mail)) == 0 {
			return "no alert has arrived"
		}
		return ""
	})
	nodes[2].kill()
	begin := time.Now()
	awaitAlerts := func(kind string) {
		t.Helper()
		eventually(t, 2*time.Minute, func() string { return missingAlerts(b.withMails(mail), endpoints, kind) })
	}
	awaitAlerts("firing")
	t.Logf("alerts of all %d endpoints arrived %v after the kill", len(endpoints),
		time.Since(begin).Round(time.Millisecond))
	dead.Store(false)
	awaitAlerts("resolved")
	nodes[2].start() // the restarted node must send nothing
	c.awaitBalanced(len(nodes))
	time.Sleep(2 * time.Second)
	counts := map[alertMessage]int{}
	ids := map[alertMessage]map[string]bool{}
	for _, m := range b.withMails(mail) {
		id := m.id
		m.id = ""
		if counts[m]++; ids[m] == nil {
			ids[m] = map[string]bool{}
		}
		ids[m][id] = true
	}
	repeats := 0
	for m, n := range counts {
		// A node that was killed after sending an alert and before recording it in the log leaves it to the new owner,
		// which sends it again with the same id.
		if repeats += n - 1; n > 2 || len(ids[m]) != 1 || !endpoints[m.endpoint] {
			t.Errorf("%+v arrived %d times, with the ids %v", m, n, ids[m])
		}
	}
	is.Equal(t, len(counts), 2*3*len(endpoints), "different alerts: %d repeats", repeats)
	t.Logf("%d alerts, %d of them repeats after the kill", len(counts)+repeats, repeats)
}

// missingAlerts describes which channel has no alert of the kind for which endpoint yet.
func missingAlerts(all []alertMessage, endpoints map[string]bool, kind string) string {
	have := map[alertMessage]bool{}
	for _, m := range all {
		m.id = ""
		have[m] = true
	}
	for ep := range endpoints {
		for _, channel := range []string{"mail", "slack", "webhook"} {
			if m := (alertMessage{channel: channel, endpoint: ep, kind: kind}); !have[m] {
				return fmt.Sprintf("nobody was told %+v; told are %d messages", m, len(all))
			}
		}
	}
	return ""
}
