package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// countRowsWith counts the rows of a database that contain the text in a payload column.
func countRowsWith(t *testing.T, url, text string) (n uint64) {
	t.Helper()
	conn := openStore(t, url)
	must.Do(t, conn.QueryRow(t.Context(),
		`SELECT (SELECT count() FROM events WHERE position(concat(body, headers, query), {text:String}) > 0)
		+ (SELECT count() FROM attempts WHERE position(concat(req_headers, resp_headers, resp_body), {text:String}) > 0)`,
		clickhouse.Named("text", text)).Scan(&n))
	return n
}

// erasure is an endpoint on two shards whose events have failed. Each event has its own text in every part of its
// payload.
type erasure struct {
	t        *testing.T
	a, b     client
	endpoint string
	in       string
	shards   []string
	texts    map[string]string // by event id, of the events that are not erased
}

// failedEvent posts an event and waits until its delivery has failed.
func (x *erasure) failedEvent(text string) (event string) {
	x.t.Helper()
	res := x.a.post(x.in+"?q="+text, map[string]string{"X-Planted": text}, []byte(`{"planted":"`+text+`"}`))
	event = res.Header.Get("Relay-Event-Id")
	x.a.awaitStatus(event, "failed", time.Minute)
	x.texts[event] = text
	return event
}

// erase erases a payload through one node and checks that the other node shows nothing of it from the answer on.
func (x *erasure) erase(event string) (text string) {
	x.t.Helper()
	x.a.must(http.StatusOK, "DELETE", "/v1/events/"+event+"/payload", nil)
	text = x.texts[event]
	delete(x.texts, event)
	read := x.b.must(http.StatusOK, "GET", "/v1/events/"+event, nil)
	_, attempts, _ := x.b.call("GET", "/v1/events/"+event+"/attempts", nil) // 503 if they are on a server that is down
	if shown := fmt.Sprint(read, attempts); strings.Contains(shown, text) || read["payload_erased_at"] == nil {
		x.t.Errorf("the other node shows %s", shown)
	}
	status, answer, _ := x.b.call("POST", "/v1/events/"+event+"/replay", nil)
	if e, _ := answer["error"].(map[string]any); status != http.StatusBadRequest || e["type"] != "invalid_state" ||
		!strings.Contains(fmt.Sprint(e["message"]), "erased") {
		x.t.Errorf("a replay of an erased event is answered %d %v", status, answer)
	}
	return text
}

// checkFound compares lists, searches and selections with the events that are not erased.
func (x *erasure) checkFound(text, event string) {
	x.t.Helper()
	for _, row := range x.b.list("&endpoint_id="+x.endpoint, 100) {
		if erased := row["payload_erased_at"] != nil; erased != (x.texts[row["id"].(string)] == "") {
			x.t.Errorf("the list says of %v: erased %v", row["id"], erased)
		}
	}
	if rows := x.b.list("&q="+text, 10); len(rows) > 0 {
		x.t.Errorf("a search for an erased text finds %v", rows)
	}
	for kept, other := range x.texts {
		if rows := x.b.list("&q="+other, 10); len(rows) != 1 || rows[0]["id"] != kept {
			x.t.Errorf("a search for %s finds %v", other, rows)
		}
	}
	if rows := x.b.list("&q="+strings.ToLower(event), 10); len(rows) != 1 || rows[0]["id"] != event {
		x.t.Errorf("a search for the event's id finds %v", rows)
	}
	run := x.b.must(http.StatusOK, "POST", "/v1/replays",
		map[string]any{"endpoint_id": x.endpoint, "since": anHourAgo(), "dry_run": true})
	if run["events"] != float64(len(x.texts)) {
		x.t.Errorf("a replay selects %v events, want %d", run["events"], len(x.texts))
	}
	job := x.b.awaitJob(x.t, x.b.must(
		http.StatusCreated, "POST", "/v1/recoveries",
		map[string]any{"endpoint_id": x.endpoint, "since": anHourAgo(), "rate_per_second": 100}), time.Minute, "ready")
	var items []string
	for _, item := range x.b.items(job, "") {
		items = append(items, item["event_id"].(string))
	}
	slices.Sort(items)
	if want := slices.Sorted(maps.Keys(x.texts)); !slices.Equal(items, want) || job["total"] != float64(len(want)) {
		x.t.Errorf("a recovery job selects %v, want %v", items, want)
	}
	x.b.doAction(job, "cancel")
}

// awaitErased waits until no row of the shards contains the text.
func (x *erasure) awaitErased(text string, shards ...string) {
	x.t.Helper()
	eventually(x.t, time.Minute, func() string {
		for i, url := range shards {
			if n := countRowsWith(x.t, url, text); n > 0 {
				return fmt.Sprintf("%d rows of %s, shard %d of those checked, contain %s", n, url, i+1, text)
			}
		}
		return ""
	})
}

// Payloads are erased on two ClickHouse servers: of an event that was moved to the other server and replayed, of one on
// the server that is up, and of one whose server is down but which the log still has. An event that neither the log nor
// a running server has is refused with nothing erased, and the call succeeds when the server is back.
func TestErasePayloadOnShards(t *testing.T) {
	skipShort(t)
	t.Parallel()
	stores := []*process{startEngine(t, "clickhouse"), startEngine(t, "clickhouse")}
	x := &erasure{t: t, texts: map[string]string{}}
	for _, p := range stores {
		x.shards = append(x.shards, "http://"+p.url+"/erase")
	}
	c := newCluster(t, engines{sharedEngine(t, "kafka"), "127.0.0.1:1", ""}, "erase", "RELAY_CLICKHOUSE_URL="+
		strings.Join(x.shards, ","))
	nodes := c.start("a", "b")
	x.a, x.b = nodes[0].forTest(t), nodes[1].forTest(t)
	dest := newSink(t, func(received) int { return http.StatusInternalServerError })
	x.endpoint, x.in, _ = x.a.endpoint(
		map[string]any{"destinations": []any{dest.URL}, "retry_policy": map[string]any{"strategy": "none"}})

	trimmed := x.failedEvent("planted-trimmed")
	home := partitionOf(t, trimmed)
	far, near := home%2, 1-home%2
	moved, logged := x.failedEvent("planted-moved"), x.failedEvent("planted-logged")
	brokers := c.brokers()
	defer brokers.Close()
	upTo := make(kadm.Offsets) // deletes the first event from the log
	upTo.AddOffset(c.prefix+"events", home, 1, -1)
	must.Get(brokers.DeleteRecords(t.Context(), upTo))(t)
	nodes[0].move(0, x.endpoint, int(home+1)%4, "--wait", "60s")
	other := x.failedEvent("planted-other")
	must.Equal(t, partitionOf(t, other)%2, near, "the endpoint was not moved to the other shard")
	x.a.must(http.StatusOK, "POST", "/v1/events/"+moved+"/replay", nil)
	eventually(t, time.Minute, func() string {
		if e := x.a.event(moved); len(e["attempts"].([]any)) != 2 ||
			e["status"] != "failed" {
			return fmt.Sprint("the replayed event is ", e["status"])
		}
		return ""
	})
	text := x.erase(moved)
	x.checkFound(text, moved)
	x.awaitErased(text, x.shards...)

	stores[far].kill()
	x.awaitErased(x.erase(other), x.shards[near])
	text = x.erase(logged)
	status, answer, header := x.a.call("DELETE", "/v1/events/"+trimmed+"/payload", nil)
	if e, _ := answer["error"].(map[string]any); status != http.StatusServiceUnavailable || e["type"] != "unavailable" ||
		header.Get("Retry-After") == "" {
		t.Errorf("an erasure of an event that cannot be read is answered %d %v", status, answer)
	}
	if status, answer, _ := x.b.call("GET", "/v1/events", nil); status != http.StatusServiceUnavailable {
		t.Errorf("a list without one of the shards is answered %d %v", status, answer)
	}

	stores[far].start()
	x.awaitErased(text, x.shards...)
	eventually(t, time.Minute, func() string {
		status, e, _ := x.b.call("GET", "/v1/events/"+trimmed, nil)
		if status != http.StatusOK || !strings.Contains(fmt.Sprint(e["body"]), "planted-trimmed") ||
			e["payload_erased_at"] != nil {
			return fmt.Sprintf("an event that is not erased is read as %d %v", status, e)
		}
		return ""
	})
	x.checkFound(text, logged)
	text = x.erase(trimmed)
	x.awaitErased(text, x.shards...)
	told := 0
	for _, row := range x.a.must(http.StatusOK, "GET", "/v1/audit?limit=100", nil)["data"].([]any) {
		if row.(map[string]any)["action"] == "erasure.created" {
			told++
		}
	}
	is.Equal(t, told, 4, "the audit log has … erasures")
}
