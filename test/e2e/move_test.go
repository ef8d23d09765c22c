package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features/move"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// move runs relay endpoints move, expects the exit code want, and returns the steps that it reports.
func (p *process) move(want int, ep string, partition int, flags ...string) (steps []move.Step, output string) {
	p.t.Helper()
	args := append([]string{"endpoints", "move", ep, "--partition", strconv.Itoa(partition), "--data-dir",
		p.dir, "--json"},
		flags...)
	out, code := runToEnd(p.t, p.command(args...))
	must.Equal(p.t, code, want, "move %v ended with: \n%s\n%s", flags, out, p.logs)
	for line := range strings.Lines(out) {
		var s move.Step
		if json.Unmarshal([]byte(line), &s) == nil && s.State != "" {
			steps = append(steps, s)
		}
	}
	return steps, out
}

// openStore connects to a database until the test ends.
func openStore(t *testing.T, url string) driver.Conn {
	t.Helper()
	opts := must.Get(clickhouse.ParseDSN(url))(t)
	conn := must.Get(clickhouse.Open(opts))(t)
	t.Cleanup(func() { _ = conn.Close() }) // nothing is pending on the connection
	return conn
}

// countStoredOn counts the events on one of two shards. All of them must belong to it.
func countStoredOn(t *testing.T, url string, shard int32) (n int) {
	t.Helper()
	conn := openStore(t, url)
	rows := must.Get(conn.Query(t.Context(), "SELECT DISTINCT id FROM events"))(t)
	defer rows.Close()
	for ; rows.Next(); n++ {
		var d id.ID
		must.Do(t, rows.Scan((*[16]byte)(&d)))
		if d.Partition()%2 != shard {
			t.Errorf("an event of partition %d is on shard %d", d.Partition(), shard+1)
		}
	}
	must.Do(t, rows.Err())
	return n
}

// partitionOf returns the partition in which an event was accepted.
func partitionOf(t *testing.T, event string) int32 {
	t.Helper()
	e := must.Get(id.Parse(id.Event, event))(t)
	return e.Partition()
}

// A busy endpoint is moved between partitions of different nodes. No event is lost or delivered twice, and every status
// is right, also after replays of earlier events. Two ClickHouse servers share the rows; each move changes the server.
func TestMoveEndpoint(t *testing.T) {
	t.Parallel()
	skipShort(t)
	on := engines{sharedEngine(t, "kafka"), "127.0.0.1:1", sharedEngine(t, "clickhouse")}
	database := "/" + unusedName("moves")
	shards := []string{"http://" + on.clickhouse + database, "http://" + startEngine(t, "clickhouse").url + database}
	nodes := newCluster(t, on, "move", "RELAY_CLICKHOUSE_URL="+strings.Join(shards, ",")).start("a", "b")
	a, b := nodes[0].forTest(t), nodes[1].forTest(t)
	dest := newSink(t, func(r received) int { // every tenth event needs a retry
		if r.earlier == 0 && strings.ContainsAny(r.event()[len(r.event())-1:], "012") {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	ep, in, _ := a.endpoint(map[string]any{
		"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 1, "max_attempts": 5, "jitter": 0},
	})
	first := a.send(ep, 0)
	home := partitionOf(t, first)
	a.awaitStatus(first, "delivered", arrival)
	tr := startTraffic(4, 40*time.Millisecond, in, strings.Replace(in, a.url, b.url, 1))
	moves := rounds(2, 2, 3)
	for i := range moves {
		tr.awaitCount(t, tr.count()+100)
		to := (int(home) + 1 + i) % 4
		began := time.Now()
		steps, out := nodes[i%2].move(cli.ExitDone, ep, to, "--wait", "60s")
		if last := steps[len(steps)-1]; steps[0].State != move.StateOpen || last.State != move.StateMoved ||
			int(last.To) != to {
			t.Fatalf("%s", out)
		}
		t.Logf("moved in %v", time.Since(began).Round(time.Millisecond))
		if e := b.send(ep, 1); partitionOf(t, e) != int32(to) {
			t.Errorf("an event after the move is in partition %d, want %d", partitionOf(t, e), to)
		}
	}
	accepted := tr.finish()
	awaitDelivered(t, b, dest, "&endpoint_id="+ep, accepted, time.Minute)
	awaitAllDelivered(t, nodes[0].streamConfig, len(accepted)+1+moves, dest)
	is.Equal(t, len(a.list("&endpoint_id="+ep, 100)), len(accepted)+1+moves, "events of the endpoint are listed")
	for i, url := range shards {
		if n := countStoredOn(t, url, int32(i)); n == 0 {
			t.Errorf("shard %d has no events", i+1)
		}
	}
	if duplicates := redelivered(t, dest); duplicates > 0 {
		t.Errorf("%d duplicates, though no process was killed", duplicates)
	}
	used := map[int32]int{}
	for _, r := range dest.received() {
		used[partitionOf(t, r.event())]++
	}
	t.Logf("%d accepted, 0 lost, by partition %v", len(accepted), used)
	is.Equal(t, len(used), moves+1, "events were accepted in the partitions %v", used)
	// A replay runs in its event's partition, and its result updates the event.
	replayed := a.must(http.StatusOK, "POST", "/v1/events/"+first+"/replay", map[string]any{})
	eventually(t, arrival, func() string {
		e := a.event(first)
		d := e["deliveries"].([]any)[0].(map[string]any)
		if e["status"] != "delivered" || d["run_id"] != replayed["run_id"] {
			return fmt.Sprint(e["status"], d)
		}
		return ""
	})
}

// A move is refused, and changes nothing, if deliveries are open for longer than --wait. A dry run changes nothing. A
// move that cannot be completed is undone.
func TestMoveRefusesOpenDeliveries(t *testing.T) {
	t.Parallel()
	p := startDevProcess(t, t.TempDir())
	hang := make(chan struct{})
	dest := newSink(t, func(r received) int {
		if r.path == "/hang" {
			<-hang
			return http.StatusOK
		}
		return http.StatusServiceUnavailable
	})
	t.Cleanup(func() { close(hang) })
	policy := map[string]any{"strategy": "linear", "interval_seconds": 3600, "max_attempts": 5, "jitter": 0}
	failing, _, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL + "/fail"}, "retry_policy": policy})
	e := p.send(failing, 1)
	home := int(partitionOf(t, e))
	away := (home + 1) % 4
	p.awaitStatus(e, "retrying", arrival)
	refuse := func(want, ep string, partition int, flags ...string) {
		t.Helper()
		if _, out := p.move(cli.ExitRefused, ep, partition, flags...); !strings.Contains(out, want) {
			t.Errorf("%s\nwant %q", out, want)
		}
		if next := p.send(ep, 2); int(partitionOf(t, next)) == partition && partition != home {
			t.Errorf("the endpoint was moved although the move was refused")
		}
	}
	refuse("wait for a retry, the last until", failing, away)
	refuse("wait for a retry", failing, away, "--dry-run")
	refuse("the endpoint is already in this partition", failing, home)
	refuse("must be from 0 to 3", failing, 4)
	_, out := p.move(cli.ExitRefused, "ep_nope", away)
	if !strings.Contains(out, `no endpoint has the id or the name "ep_nope"`) {
		t.Errorf("%s", out)
	}
	p.must(http.StatusOK, "PATCH", "/v1/endpoints/"+failing, map[string]any{"paused": true})
	refuse("the endpoint is paused", failing, away)
	p.must(http.StatusOK, "PATCH", "/v1/endpoints/"+failing, map[string]any{"paused": false})
	// With --leave the open retries stay in the old partition.
	eventually(t, time.Minute, func() string {
		steps, _ := p.move(cli.ExitDone, failing, away, "--leave", "--dry-run")
		if steps[0].Open > 0 {
			return fmt.Sprintf("deliveries are still in flight: %+v", steps[0])
		}
		return ""
	})
	if steps, _ := p.move(cli.ExitDone, failing, away, "--leave"); steps[0].Waiting < 1 ||
		steps[len(steps)-1].State != move.StateMoved {
		t.Errorf("%+v", steps)
	}
	if next := p.send(failing, 3); int(partitionOf(t, next)) != away {
		t.Errorf("the endpoint was not moved")
	}

	hanging, _, _ := p.endpoint(
		map[string]any{"destinations": []any{map[string]any{"url": dest.URL + "/hang", "timeout_seconds": 60}},
			"retry_policy": policy})
	stuck := p.send(hanging, 1)
	home = int(partitionOf(t, stuck))
	dest.wait(t, 1, arrival)
	steps, out := p.move(cli.ExitRefused, hanging, (home+1)%4, "--wait", "2s")
	if !strings.Contains(out, "1 records are still open in partition "+strconv.Itoa(home)) ||
		steps[1].State != move.StateSwitched {
		t.Errorf("%s", out)
	}
	if next := p.send(hanging, 2); int(partitionOf(t, next)) != home {
		t.Error("the endpoint was not moved back")
	}
	if out, code := runToEnd(
		t, p.command("endpoints", "move", hanging, "--data-dir", p.dir)); code != cli.ExitMisused ||
		!strings.Contains(out, "--partition is required") {
		t.Errorf("%d %s", code, out)
	}
}
