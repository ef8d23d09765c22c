package e2e

import (
	"errors"
	"fmt"
	"github.com/eventrelay/relay/test/is"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

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
			p.binary = buildRelay(t, "faults")
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
