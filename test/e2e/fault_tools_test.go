package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// faultTools uses what a relay does beside deliveries while its parts break: a drain, and in the long form also scans,
// tripwires and an agent. Its goroutines end with finish, which checks what they did.
type faultTools struct {
	t      *testing.T
	nodes  []*process
	site   *website
	stop   chan struct{}
	wg     sync.WaitGroup
	drain  string // its path
	lines  int    // that the drain has accepted, each with a secret
	domain string
	wires  []plantedTripwire
	// uses counts requests to a tripwire's URL, by its id, and promised those that were answered 200.
	uses, promised map[string]int
	want           map[string]string // what a scan finds; see website.plant
	scans          []string
	agentKey       string
	event          string // that the agent reads
	reads          int    // of it, with a true answer
	refused        int    // or answered in part: a part of the relay was down
	changes        []*approvedChange
	person         *browser
}

// approvedChange is a replay that an agent asks for and a person approves.
type approvedChange struct {
	event, act string
	done       bool // its page says how it ended
	givenUp    bool // not done for five minutes: each node that tried was killed
}

const (
	secretsInLines = 10
	linesOfRequest = 5
	manualScans    = 4 // one less than a day has
	askedChanges   = 5
)

// startTools prepares the tools and begins to use them.
func startTools(t *testing.T, nodes []*process, site *website) *faultTools {
	k := &faultTools{t: t, nodes: nodes, site: site, stop: make(chan struct{}), uses: map[string]int{},
		promised: map[string]int{}, drain: nodes[0].drain("production")}
	if rounds(0, 0, 1) > 0 {
		k.prepareRest()
		k.repeat(5*time.Second, k.scan)
		k.repeat(8*time.Second, k.touch)
		k.repeat(200*time.Millisecond, k.read)
		k.repeat(20*time.Second, k.change)
	}
	k.repeat(100*time.Millisecond, k.sendLines)
	return k
}

// repeat calls f again and again, on the nodes in turn, until finish.
func (k *faultTools) repeat(pause time.Duration, f func(turn int, node *process)) {
	k.wg.Go(func() {
		for turn := 0; ; turn++ {
			f(turn, k.nodes[turn%len(k.nodes)])
			select {
			case <-k.stop:
				return
			case <-time.After(pause):
			}
		}
	})
}

func (k *faultTools) prepareRest() {
	p := k.nodes[0]
	k.want = k.site.plant()
	k.domain = p.prove(k.site, "shop")
	p.prove(k.site, "www")
	k.wires = p.plantTripwires(k.site, k.domain)
	words := strings.Fields(p.keys("create", "--name", "agent", "--scope", "read_write", "--agent"))
	k.agentKey = words[len(words)-1]
	dest := newSink(k.t, nil)
	ep, _, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	k.event = p.send(ep, 0)
	for i := range askedChanges {
		k.changes = append(k.changes, &approvedChange{event: p.send(ep, i+1)})
	}
	for _, x := range k.changes {
		p.awaitStatus(x.event, "delivered", arrival)
	}
	p.awaitStatus(k.event, "delivered", arrival)
	k.person = newBrowser(k.t, p.url)
	k.person.want(p.client, 303, "/app/password", "", "POST", addPerson(k.t, p, "agents@example.com"), nil)
	k.person.want(p.client, 303, "/app", "", "POST", "/app/password", newPassword)
}

// sendLines sends lines, each with a secret, until they are accepted.
func (k *faultTools) sendLines(turn int, node *process) {
	var lines strings.Builder
	for i := range linesOfRequest {
		fmt.Fprintf(&lines, `{"app":"web","n":%d,"msg":"failed with %s"}`+"\n", k.lines+i,
			leakOf(100+(k.lines+i)%secretsInLines))
	}
	sendLines(node.url+k.drain, []byte(lines.String()), nil)
	k.lines += linesOfRequest
}

// scan starts a scan, if none runs.
func (k *faultTools) scan(_ int, node *process) {
	if len(k.scans) == manualScans {
		return
	}
	if status, s := node.try("POST", "/v1/scans", map[string]any{"domain_id": k.domain}); status == http.StatusCreated {
		k.scans = append(k.scans, s["id"].(string))
	}
}

// touch uses each tripwire once. A use of a key may get lost with the process, one of a URL that is answered 200 not.
func (k *faultTools) touch(turn int, node *process) {
	for _, x := range k.wires {
		if x.key != "" {
			k.uses[x.id]++
			if status, _ := node.withKey(x.key).try("POST", "/v1/endpoints", "{}"); status/100 == 2 {
				k.t.Errorf("a %s opens something: %d", x.kind, status)
			}
		}
		if x.url != "" {
			_, path, _ := strings.Cut(x.url, "/in/")
			k.uses[x.id]++
			if status, _ := node.withKey("none").try("POST", "/in/"+path, `{"type":"ping"}`); status == http.StatusOK {
				k.promised[x.id]++
			}
		}
	}
}

// tryTool calls a tool as the agent. The result is nil if a part of the relay is down.
func (k *faultTools) tryTool(node *process, name string, arguments map[string]any) (result map[string]any) {
	status, answer := node.withKey(k.agentKey).try("POST", "/mcp", map[string]any{"jsonrpc": "2.0", "id": 1,
		"method": "tools/call", "params": map[string]any{"name": name, "arguments": arguments}})
	outcome, _ := answer["result"].(map[string]any)
	content, _ := outcome["content"].([]any)
	if status != http.StatusOK || len(content) == 0 || outcome["isError"] == true {
		return nil
	}
	text, _ := content[0].(map[string]any)["text"].(string)
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		k.t.Errorf("%s: %v: %s", name, err, text)
	}
	return result
}

func (k *faultTools) read(_ int, node *process) {
	e := k.tryTool(node, "event_get", map[string]any{"id": k.event})
	switch {
	case e == nil || e["complete_until"] != nil: // the store is away
		k.refused++
	case e["id"] != k.event || e["status"] != "delivered":
		k.t.Errorf("the agent reads %v", e)
	default:
		k.reads++
	}
}

// change asks for the next change as the agent, and approves it as a person.
func (k *faultTools) change(_ int, node *process) {
	i := slices.IndexFunc(k.changes, func(x *approvedChange) bool { return !x.done })
	if i < 0 {
		return
	}
	x := k.changes[i]
	if x.act == "" {
		asked := k.tryTool(node, "event_replay", map[string]any{"id": x.event})
		if asked["status"] != "confirmation_required" {
			return
		}
		x.act = asked["action_id"].(string)
	}
	path := "/app/confirm/" + x.act
	for range 20 {
		res, page, err := k.person.send(node.client, http.MethodGet, path, nil)
		if err == nil && res.StatusCode == http.StatusOK {
			x.givenUp = strings.Contains(page, "it could not be done in five minutes")
			if x.done = x.givenUp || strings.Contains(page, "Done, approved"); x.done {
				return
			}
			if _, text, found := strings.Cut(page, path+`/approve"><input type="hidden" name="nonce" value="`); found {
				nonce, _, _ := strings.Cut(text, `"`)
				_, _, _ = k.person.send(node.client, http.MethodPost, path+"/approve", map[string][]string{"nonce": {nonce}})
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// finish ends the use of the tools, when no part is broken any more, and checks its effects. It returns figures.
func (k *faultTools) finish() (figures string) {
	t, p := k.t, k.nodes[0]
	t.Helper()
	close(k.stop)
	k.wg.Wait()
	eventually(t, arrival, func() string {
		total := 0.0
		for _, f := range p.must(http.StatusOK, "GET", "/v1/findings?source=drain&limit=100", nil)["data"].([]any) {
			total += f.(map[string]any)["occurrences"].(float64)
		}
		if total != float64(k.lines) {
			return fmt.Sprintf("%v secrets were found in %d lines with one each", total, k.lines)
		}
		return ""
	})
	figures = fmt.Sprintf("%d drained lines, each found once", k.lines)
	if rounds(0, 0, 1) == 0 {
		return figures
	}
	return figures + "; " + k.finishScans() + "; " + k.finishTripwires() + "; " + k.finishAgent()
}

// finishScans waits for the scans. Each that was promised has ended, and what a complete one finds is a finding.
func (k *faultTools) finishScans() (figures string) {
	p, complete := k.nodes[0], 0
	for i := 0; i < len(k.scans) || complete == 0; i++ {
		if i == len(k.scans) { // all others were given up, because each node that began them was killed
			s := p.must(http.StatusCreated, "POST", "/v1/scans", map[string]any{"domain_id": k.domain})
			k.scans = append(k.scans, s["id"].(string))
		}
		report := p.awaitScan(k.scans[i])
		if report["status"] == "completed" {
			complete++
		} else if report["error"] != "interrupted" {
			k.t.Fatalf("%v", report)
		}
	}
	found := map[string]bool{}
	eventually(k.t, arrival, func() string {
		for _, x := range p.must(http.StatusOK, "GET", "/v1/findings?source=scan&limit=100", nil)["data"].([]any) {
			f := x.(map[string]any)
			name, _ := f["masked"].(string)
			if f["kind"] == "exposed_file" {
				name = strings.TrimPrefix(f["name"].(string), "Exposed ")
			}
			if found[name] = true; k.want[name] == "" {
				k.t.Fatalf("not planted: %v", f)
			}
		}
		if len(found) < len(k.want) {
			return fmt.Sprintf("scans have found %v", found)
		}
		return ""
	})
	return fmt.Sprintf("%d of %d scans complete, %d findings", complete, len(k.scans), len(found))
}

// finishTripwires waits until each tripwire has a finding that counts every use that was promised.
func (k *faultTools) finishTripwires() (figures string) {
	p := k.nodes[0]
	uses, promised, counted := 0, 0, 0
	for _, x := range k.wires {
		eventually(k.t, arrival, func() string {
			made := p.must(http.StatusOK, "GET", "/v1/tripwires/"+x.id, nil)
			trips, _ := made["trip_count"].(float64)
			if made["finding_id"] == nil || trips < float64(max(1, k.promised[x.id])) {
				return fmt.Sprintf("%s: %d uses, %d promised: %v", x.kind, k.uses[x.id], k.promised[x.id], made)
			}
			if trips > float64(k.uses[x.id]) {
				k.t.Fatalf("%s: %d uses are counted as %v", x.kind, k.uses[x.id], trips)
			}
			counted += int(trips)
			return ""
		})
		uses, promised = uses+k.uses[x.id], promised+k.promised[x.id]
	}
	return fmt.Sprintf("tripwires used %d times, %d promised, %d counted", uses, promised, counted)
}

// finishAgent approves the last change, and checks that each was made once, and none that nobody approved.
func (k *faultTools) finishAgent() (figures string) {
	p, approved, givenUp := k.nodes[0], 0, 0
	for _, x := range k.changes {
		eventually(k.t, 2*arrival, func() string {
			if x.act == "" || x.done {
				return ""
			}
			if k.change(0, p); !x.done {
				return fmt.Sprintf("%s is not done: %v", x.act, k.tryTool(p, "action_status", map[string]any{"action_id": x.act}))
			}
			return ""
		})
		runs := 0
		for _, run := range p.must(http.StatusOK, "GET", "/v1/replays?limit=100", nil)["data"].([]any) {
			if run.(map[string]any)["filter"].(map[string]any)["event_id"] == x.event {
				runs++
			}
		}
		if want := x.act != ""; runs > 1 || want != (runs == 1) && !x.givenUp {
			k.t.Errorf("the change %q was made %d times", x.act, runs)
		}
		approved += runs
		if x.givenUp {
			givenUp++
		}
	}
	if k.reads == 0 || approved == 0 {
		k.t.Errorf("%d reads, %d changes: the agent did nothing", k.reads, approved)
	}
	return fmt.Sprintf("agent read %d times (%d refused), %d approved changes made once, %d given up", k.reads, k.refused,
		approved, givenUp)
}
