package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features/doctor"
	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// runDoctor runs relay doctor and returns its checks by name, and its exit code.
func (p *process) runDoctor(flags ...string) (map[string]doctor.Check, int) {
	p.t.Helper()
	cmd := p.command(append([]string{"doctor", "--data-dir", p.dir, "--json"}, flags...)...)
	out, err := cmd.Output()
	var report doctor.Report
	must.Do(p.t, json.Unmarshal(out, &report), "doctor: %s", out)
	checks := make(map[string]doctor.Check)
	for _, c := range report.Checks {
		checks[c.Name] = c
	}
	if failed := report.Err() != nil; failed != (err != nil) {
		p.t.Errorf("doctor ended with %v, the report says %v", err, report.Err())
	}
	return checks, cmd.ProcessState.ExitCode()
}

// awaitFindings waits until exactly the checks in want are not ok, each with a text that contains the value.
func (p *process) awaitFindings(want map[string]string, flags ...string) {
	p.t.Helper()
	eventually(p.t, arrival, func() string {
		checks, code := p.runDoctor(flags...)
		exit := cli.ExitDone
		for name, c := range checks {
			if name == "writers" && strings.Contains(c.Text, "requires no key") {
				continue // does not apply to the engines of these tests
			}
			part, odd := want[name]
			if name == "disk" && !odd {
				continue // of the machine that tests
			}
			if c.State == doctor.StateFail {
				exit = cli.ExitRefused
			}
			if odd != (c.State != doctor.StateOK) || odd && !strings.Contains(c.State+": "+c.Text+" → "+c.Advice, part) {
				return name + " is " + c.State + ": " + c.Text + " → " + c.Advice + "; want " + part
			}
		}
		all := 21
		if _, known := checks["base URL"]; known { // only a node reports it, and how many files it may open
			all += 2
		}
		is.Equal(p.t, len(checks), all, "checks")
		if code != exit && checks["disk"].State != doctor.StateFail {
			p.t.Errorf("exit code %d, want %d", code, exit)
		}
		return ""
	})
}

// The doctor reports all planted faults and no others, through a node and, without one, directly from the engines.
func TestDoctorFindsFaults(t *testing.T) {
	t.Parallel()
	tables := startEngine(t, "clickhouse")
	c := newCluster(t, engines{sharedEngine(t, "kafka"), sharedEngine(t, "redis"), tables.url}, "doctor",
		"RELAY_TAKEOVER_SECONDS=6")
	c.migrate()
	n := c.node("a")
	if out, code := runToEnd(t, newProcess(t, n.dir, nil).
		command("doctor", "--data-dir", n.dir)); code != cli.ExitNoProcess ||
		!strings.Contains(out, "no running process answers") {
		t.Errorf("without a process and without settings: %d\n%s", code, out)
	}
	n.awaitFindings(map[string]string{
		"nodes": "fail: no node runs → start a node: relay serve", "clock": "warn: no node",
		"dispatch": "fail: no record waits; 0 nodes",
		"store":    "fail: no record waits; 0 nodes",
		"alerts":   "fail: no record waits; 0 nodes in the consumer group",
		"findings": "fail: no record waits; 0 nodes in the consumer group"})
	n.start()
	dest := newSink(t, nil)
	ep, _, _ := n.endpoint(map[string]any{"destinations": []any{dest.URL}})
	n.awaitStatus(n.send(ep, 1), "delivered", arrival)
	n.awaitFindings(nil)

	c.setTopicConfig("outcomes", "retention.ms", "1000")
	n.awaitFindings(map[string]string{
		"topics": "fail: 1 topic setting may lose events or stop the relay → run relay migrate --fix"})
	c.migrate("--fix")
	n.awaitFindings(nil)

	conf := stream.Config{Brokers: []string{c.kafka}, Prefix: c.prefix}
	producer := must.Get(stream.NewProducer(conf, "test"))(t)
	defer producer.Close()
	must.Do(t, producer.ProduceSync(t.Context(), stream.Events, 0, &stream.Record{Value: []byte("poison")}))
	deadLetters := "warn: 2 records in the dead letter topic: they could not be read or stored → " +
		"run relay dead list" // by both groups
	n.awaitFindings(map[string]string{"dead": deadLetters})

	tables.kill()
	n.awaitFindings(map[string]string{"dead": deadLetters, "clickhouse": "fail: "})
	tables.start()

	must.Do(t, n.stop(syscall.SIGTERM), "SIGTERM ended with: %s", n.logs)
	young := seal.GenerateKey("young")
	for i, e := range n.env {
		if name, keys, _ := strings.Cut(e, "="); name == "RELAY_MASTER_KEYS" {
			n.env[i] = "RELAY_MASTER_KEYS=" + young + "," + keys
		}
	}
	n.env = append(n.env, "RELAY_REDIS_URL=redis://127.0.0.1:1")
	n.start()
	want := map[string]string{
		"dead": deadLetters, "redis": "warn: ping redis", "master keys": "warn: 4 of 4 secrets are not sealed with " +
			"the first key, young → run relay keys rewrap",
	}
	n.awaitFindings(want)
	n.kill()
	want["nodes"], want["clock"] = "fail: no node", "warn: no node"
	// The groups forget the node when its session expires.
	eventually(t, time.Minute, func() string {
		if checks, _ := n.runDoctor(); checks["dispatch"].State != doctor.StateFail ||
			checks["store"].State != doctor.StateFail || checks["alerts"].State != doctor.StateFail ||
			checks["findings"].State != doctor.StateFail {
			return "the groups have members: " + checks["dispatch"].Text + ", " + checks["store"].Text + ", " +
				checks["alerts"].Text + ", " + checks["findings"].Text
		}
		return ""
	})
	want["dispatch"] = "fail: no record waits; 0 nodes"
	// These groups commit periodically, so the node may have ended with uncommitted records.
	for _, group := range []string{"store", "alerts", "findings"} {
		want[group] = "0 nodes in the consumer group"
	}
	n.awaitFindings(want)
}

// deadLetterNode is a node to whose topics the test produces records.
type deadLetterNode struct {
	*process
	t        *testing.T
	conf     stream.Config
	producer *stream.Producer
	ids      *id.Generator
}

func newDeadLetterNode(t *testing.T) *deadLetterNode {
	c := newCluster(t, engines{sharedEngine(t, "kafka"), "127.0.0.1:1", sharedEngine(t, "clickhouse")}, "dead")
	b := &deadLetterNode{process: c.start("a")[0], t: t, conf: stream.Config{Brokers: []string{c.kafka}, Prefix: c.prefix},
		ids: id.NewGenerator(time.Now)}
	var err error
	if b.producer, err = stream.NewProducer(b.conf, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.producer.Close)
	return b
}

func (b *deadLetterNode) produce(topic string, partition int32, r *stream.Record) {
	b.t.Helper()
	must.Do(b.t, b.producer.ProduceSync(b.t.Context(), topic, partition, r))
}

// addDeadLetter produces a dead letter as a node does whose consumer group could not decode the record.
func (b *deadLetterNode) addDeadLetter(topic string, partition int32, group string, r *stream.Record) {
	b.t.Helper()
	r.Topic, r.Partition, r.Offset = b.conf.Prefix+topic, partition, 7
	b.produce(stream.Dead, partition, b.conf.DeadLetterRecord(r, group, errors.New("version 9 is too new")))
}

func (b *deadLetterNode) runDead(want int, args ...string) string {
	b.t.Helper()
	out, code := runToEnd(b.t, b.command(slices.Concat([]string{"dead"}, args, []string{"--data-dir", b.dir})...))
	must.Equal(b.t, code, want, "relay dead %v ended with: \n%s", args, out)
	return out
}

// list waits until relay dead list shows want records and returns them.
func (b *deadLetterNode) list(want int, args ...string) (records []admin.DeadRecord) {
	b.t.Helper()
	eventually(b.t, arrival, func() string {
		out := b.runDead(cli.ExitDone, append([]string{"list", "--json"}, args...)...)
		records = nil
		must.Do(b.t, json.Unmarshal([]byte(out), &records))
		if len(records) != want {
			return fmt.Sprintf("%d dead letters, want %d: %s", len(records), want, out)
		}
		return ""
	})
	return records
}

// event returns an event for the endpoint's destination that this relay never accepted.
func (b *deadLetterNode) event(ep string, partition int32, body string) *event.Event {
	b.t.Helper()
	eventID := must.Get(b.ids.New(partition))(b.t)
	e := b.must(http.StatusOK, "GET", "/v1/endpoints/"+ep, nil)
	me := b.must(http.StatusOK, "GET", "/v1/me", nil)
	return &event.Event{
		ID: eventID, Account: me["account_id"].(string), Endpoint: ep, Source: event.SourceProvider,
		Verdict: event.VerdictUnverified, Method: "POST",
		Dests: []string{e["destinations"].([]any)[0].(map[string]any)["id"].(string)}, Body: []byte(body),
		Header: []event.Field{{Name: "Authorization", Value: "Bearer planted"}, {Name: "X-Plain", Value: "shown"}},
	}
}

// Dead letters are listed without secrets. A retry puts a record back once for the groups that could not read it, and
// hides it. A record that can never be read stays listed.
func TestDeadLettersAreListedAndRedelivered(t *testing.T) {
	t.Parallel()
	b := newDeadLetterNode(t)
	dest := newSink(t, nil)
	ep, _, _ := b.endpoint(map[string]any{"destinations": []any{dest.URL}})
	is.Equal(t, b.runDead(cli.ExitDone, "list"), "no dead letters\n")

	b.produce(stream.Events, 2, &stream.Record{Key: []byte("x"), Value: []byte("poison \x1b[2J \xff")})
	poison := b.list(2) // one of each consumer group
	for _, r := range poison {
		if r.Topic != stream.Events || r.Partition != 2 || r.Size != 13 || r.Body != nil || r.Headers != nil ||
			!strings.Contains(r.Error, "version") {
			t.Errorf("%+v", r)
		}
	}
	if out := b.runDead(cli.ExitRefused, "retry", poison[0].ID); !strings.Contains(
		out, poison[0].ID+"  refused: decode event") || !strings.Contains(out, "0 put back, 1 refused") {
		t.Errorf("%s", out)
	}
	if out := b.runDead(cli.ExitDone, "list", "--body", "--topic", "events"); strings.Contains(out, "\x1b") ||
		strings.Contains(out, "\xff") || !strings.Contains(out, "base64: ") {
		t.Errorf("%s", out)
	}

	first, second, third := b.event(ep, 0, "first"), b.event(ep, 1, "second"), b.event(ep, 1, "third")
	b.addDeadLetter(stream.Events, 0, stream.DispatchGroup, first.Record())
	b.list(1, "--topic", "events", "--limit", "1")
	again := b.list(3, "--body")[0]
	if again.Event != first.ID.Text(id.Event) || again.Group != stream.DispatchGroup ||
		again.Error != "version 9 is too new" || *again.Body != "first" || again.Offset != 7 {
		t.Errorf("%+v", again)
	}
	shown := fmt.Sprint(again.Headers)
	if strings.Contains(shown, "planted") || !strings.Contains(shown, "[h:Authorization ****]") ||
		!strings.Contains(shown, "[h:X-Plain shown]") {
		t.Errorf("%s", shown)
	}
	is.Equal(t, b.runDead(cli.ExitDone, "retry", again.ID), again.ID+"  put back\n")
	if e := b.awaitStatus(first.ID.Text(id.Event), "delivered", arrival); e["body"] != "first" {
		t.Errorf("%v", e)
	}
	b.list(2)
	is.Has(t, b.runDead(cli.ExitRefused, "retry", again.ID), "it was retried already")

	// A record that only the store could not read is not delivered again. A parked delivery is.
	b.addDeadLetter(stream.Events, 1, stream.StoreGroup, second.Record())
	work := must.Get((&event.Work{
		Event: third, Dest: third.Dests[0], Trigger: event.TriggerRetry, Attempt: 2, Due: time.Now()}).Record())(t)
	b.addDeadLetter("retry.1s", 1, stream.DispatchGroup, work)
	b.list(4)
	out := b.runDead(cli.ExitRefused, "retry", "--all", "--yes", "--json")
	if strings.Count(out, `"refused":"decode`) != 2 || strings.Count(out, `"id"`) != 4 ||
		!strings.Contains(out, "2 put back, 2 refused") {
		t.Errorf("%s", out)
	}
	got := dest.wait(t, 2, arrival)
	if string(got[1].body) != "third" || got[1].event() != third.ID.Text(id.Event) {
		t.Errorf("%+v", got[1])
	}
	eventually(t, arrival, func() string {
		if status, e, _ := b.call("GET", "/v1/events/"+second.ID.Text(id.Event), nil); status != http.StatusOK ||
			e["body"] != "second" {
			return fmt.Sprint("the store does not have the event: ", e)
		}
		return ""
	})
	b.awaitStatus(b.send(ep, 1), "delivered", arrival)
	if n := len(dest.received()); n != 3 {
		t.Errorf("%d deliveries, want 3: a record for the store alone was delivered", n)
	}
	b.list(2)
}

func TestDeadRejectsMisuse(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		p := newProcess(t, t.TempDir(), nil)
		if out, code := runToEnd(t, p.command(append([]string{"dead"}, args...)...)); code != cli.ExitMisused ||
			!strings.Contains(out, want) {
			t.Errorf("%q: %d\n%s", args, code, out)
		}
	}
	f("add --yes to confirm", "retry", "--all")
	f("--all takes no id", "retry", "1:2", "--all", "--yes")
	f("--topic goes with --all", "retry", "1:2", "--topic", "events")
	f("or --all", "retry")
	f("is not PARTITION:OFFSET", "retry", "1")
	f("--limit must be from 1 to 1000", "list", "--limit", "0")
	f("unknown command", "revive")
}
