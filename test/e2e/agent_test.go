package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// agentReads calls tools of the agent server, and finds the calls in the audit log.
func agentReads(t *testing.T, p *process) {
	c := p.forTest(t)
	dest := newSink(t, nil)
	ep, _, _ := c.endpoint(map[string]any{"destinations": []any{dest.URL}})
	id := c.send(ep, 1)
	tool := c.tool
	if e := tool("event_get", `{"id":"`+id+`","include_body":true}`); e["id"] != id ||
		!strings.Contains(e["body"].(string), "order.paid") {
		t.Errorf("event %v", e)
	}
	eventually(t, arrival, func() string { // a list has an event once the store has it
		rows := c.must(http.StatusOK, "GET", "/v1/events?endpoint_id="+ep, nil)["data"].([]any)
		return map[bool]string{false: fmt.Sprint("events ", rows)}[len(rows) == 1]
	})
	if rows := tool("events_list", `{"endpoint_id":"`+ep+`"}`)["data"].([]any); len(rows) != 1 {
		t.Errorf("events %v", rows)
	}
	if row := tool("endpoints_list", `{"limit":1}`)["data"].([]any)[0].(map[string]any); row["id"] == nil {
		t.Errorf("endpoint %v", row)
	}
	for _, name := range []string{"findings_list", "recoveries_list"} {
		if list := tool(name, `{}`); list["data"] == nil {
			t.Errorf("%s: %v", name, list)
		}
	}
	if usage := tool("usage_get", `{}`); usage["period_start"] == nil {
		t.Errorf("usage %v", usage)
	}
	agentAsksForAReplay(t, p, c, id, tool)
	entries := c.must(http.StatusOK, "GET", "/v1/audit?action=tool.called", nil)["data"].([]any)
	is.Equal(t, len(entries), 8, "entries of calls: %v", entries)
}

// tool calls a tool of the agent server and returns its result.
func (c client) tool(name, arguments string) (result map[string]any) {
	c.t.Helper()
	content := ""
	eventually(c.t, arrival, func() string { // an agent asks again, too
		answer := c.must(http.StatusOK, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+
			name+`","arguments":`+arguments+`}}`)
		content = answer["result"].(map[string]any)["content"].([]any)[0].(map[string]any)["text"].(string)
		if strings.HasPrefix(content, "unavailable: ") {
			return content
		}
		return ""
	})
	must.Do(c.t, json.Unmarshal([]byte(content), &result), "%s: %s", name, content)
	return result
}

// agentAsksForAReplay asks for a replay of an event, approves it in the dashboard twice, and finds one run.
func agentAsksForAReplay(t *testing.T, p *process, c client, id string,
	tool func(name, arguments string) map[string]any) {
	t.Helper()
	c.awaitStatus(id, "delivered", arrival)
	asked := tool("event_replay", `{"id":"`+id+`","note":"the receiver lost it"}`)
	path, ok := strings.CutPrefix(asked["confirm_url"].(string), p.url)
	if !ok || asked["status"] != "confirmation_required" {
		t.Fatalf("asked %v", asked)
	}
	b := newBrowser(t, p.url)
	b.want(c, 303, "/app/password", "", "POST", addPerson(t, p, "agents@example.com"), nil)
	b.want(c, 303, "/app", "", "POST", "/app/password", newPassword)
	decision := b.decisionOn(c, path)
	replays := func() (runs []string) {
		for _, run := range c.must(http.StatusOK, "GET", "/v1/replays", nil)["data"].([]any) {
			if run := run.(map[string]any); run["filter"].(map[string]any)["event_id"] == id {
				runs = append(runs, run["run_id"].(string))
			}
		}
		return runs
	}
	if runs := replays(); len(runs) != 0 {
		t.Fatalf("replayed before the approval: %v", runs)
	}
	for range 2 {
		b.want(c, 303, path, "", "POST", path+"/approve", decision)
	}
	b.want(c, 200, "", "Done, approved", "GET", path, nil)
	runs := replays()
	done := tool("action_status", `{"action_id":"`+asked["action_id"].(string)+`"}`)
	if len(runs) != 1 || done["state"] != "done" || done["result"] != runs[0] {
		t.Errorf("runs %v, the act %v", runs, done)
	}
}

// decisionOn opens the page of a change that an agent asks for, and returns the form that decides on it.
func (b *browser) decisionOn(to client, path string) url.Values {
	b.t.Helper()
	res, body, err := b.send(to, http.MethodGet, path, nil)
	if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(body, "Nothing has been changed") {
		b.t.Fatalf("%s: %v %s", path, err, body)
	}
	_, text, _ := strings.Cut(body, path+`/approve"><input type="hidden" name="nonce" value="`)
	nonce, _, _ := strings.Cut(text, `"`)
	return url.Values{"nonce": {nonce}}
}

// What a person has approved is done once, also if the process is killed between the approval and the request, between
// the effect and its remembered answer, or between the answer and the end of the act.
func TestApprovedOnceThroughKills(t *testing.T) {
	t.Parallel()
	skipShort(t)
	points := []func(tool, route string) string{
		func(tool, _ string) string { return "approved " + tool },
		func(_, route string) string { return "effect " + route },
		func(tool, _ string) string { return "answered " + tool },
	}
	for first := range rounds(1, 1, len(points)) {
		t.Run(fmt.Sprint("turn ", first), func(t *testing.T) {
			t.Parallel()
			site := newWebsite(t)
			p := newDevProcess(t, nodeDir(t), "RELAY_DNS_SERVER="+site.dns.Address)
			p.start()
			changes := p.agentChanges(site)
			for i := range changes {
				x := &changes[i]
				p.approveAndCrash(x, i, points[(first+i)%len(points)](x.tool, x.route))
			}
			p.env = append(p.env, "RELAY_FAULT_CRASH=", "RELAY_FAULT_CLOCK=2m") // acts of a dead node are finished later
			p.start()
			for _, x := range changes {
				eventually(t, 2*arrival, func() string {
					if a := p.tool("action_status", `{"action_id":"`+x.act+`"}`); a["state"] != "done" {
						return fmt.Sprintf("%s: %v\n%s", x.tool, a, p.logs)
					}
					return ""
				})
				is.Equal(t, x.count(), 1, "%s was done … times", x.tool)
			}
		})
	}
}

// agentChange is a change that an agent asks for.
type agentChange struct {
	tool, arguments, route string
	count                  func() int // how often it was done
	act                    string
}

// agentChanges prepares what the changes are about.
func (p *process) agentChanges(site *website) []agentChange {
	t := p.t
	dest := newSink(t, nil)
	ep, _, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	event := p.send(ep, 1)
	p.awaitStatus(event, "delivered", arrival)
	rows := func(path string) (list []map[string]any) {
		for _, row := range p.must(http.StatusOK, "GET", path, nil)["data"].([]any) {
			list = append(list, row.(map[string]any))
		}
		return list
	}
	sendLines(p.url+p.drain("app"), []byte("key="+leakOf(1)+"\n"), nil)
	var finding string
	eventually(t, arrival, func() string {
		for _, f := range rows("/v1/findings") {
			finding = f["id"].(string)
			return ""
		}
		return "no finding"
	})
	p.prove(site, "shop")
	changes := []agentChange{
		{tool: "event_replay", arguments: `{"id":"` + event + `"}`, route: "/v1/events/{event}/replay",
			count: func() (n int) {
				for _, run := range rows("/v1/replays") {
					if run["filter"].(map[string]any)["event_id"] == event {
						n++
					}
				}
				return n
			}},
		{tool: "finding_update", arguments: `{"id":"` + finding + `","status":"resolved","resolution":"revoked"}`,
			route: "/v1/findings/update", count: func() int {
				return len(rows("/v1/audit?action=finding.updated&entity_id=" + finding))
			}},
		{tool: "scan_start", arguments: `{"domain":"` + site.host("shop") + `"}`, route: "/v1/scans", count: func() int {
			return len(rows("/v1/scans"))
		}},
	}
	if rounds(0, 0, 1) == 0 { // each change costs a start of the process
		return changes
	}
	failing, _, repair := p.failedEvents(t, 1)
	repair()
	job := p.prepareRecovery(t, failing, 10)["id"].(string)
	return append(changes, agentChange{tool: "recovery_action", route: "/v1/recoveries/{recovery}",
		arguments: `{"recovery_id":"` + job + `","action":"canary"}`, count: func() (n int) {
			for _, row := range rows("/v1/audit?action=recovery.updated&entity_id=" + job) {
				if slices.Contains(row["changes"].([]any), any("started_at")) {
					n++
				}
			}
			return n
		}})
}

// approveAndCrash restarts the process with a crash point, asks for a change, and approves it. The process kills itself
// while it does it.
func (p *process) approveAndCrash(x *agentChange, n int, point string) {
	t := p.t
	t.Helper()
	p.kill()
	p.env = append(p.env, "RELAY_FAULT_CRASH="+point)
	p.start()
	asked := p.tool(x.tool, x.arguments)
	x.act, _ = asked["action_id"].(string)
	path, ok := strings.CutPrefix(asked["confirm_url"].(string), p.url)
	if !ok {
		t.Fatalf("asked %v", asked)
	}
	b := newBrowser(t, p.url)
	b.want(p.client, 303, "/app/password", "", "POST", addPerson(t, p, fmt.Sprintf("person%d@example.com", n)), nil)
	b.want(p.client, 303, "/app", "", "POST", "/app/password", newPassword)
	for end := time.Now().Add(2 * arrival); ; time.Sleep(time.Second) {
		res, body, err := b.send(p.client, http.MethodPost, path+"/approve", b.decisionOn(p.client, path))
		if err != nil {
			break
		}
		// On a busy machine the store may be behind; nothing was approved then, and the page says to try again.
		if res.StatusCode != http.StatusServiceUnavailable || time.Now().After(end) {
			t.Fatalf("at %s the approval was answered %d %s", point, res.StatusCode, body)
		}
	}
	var exit *exec.ExitError
	if err := p.awaitExit(30 * time.Second); !errors.As(err, &exit) ||
		exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %v, not at %s\n%s", err, point, p.logs)
	}
	p.kill() // also its engine, if that still runs
}
