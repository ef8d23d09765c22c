package e2e

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/node/doctor"
	"github.com/eventrelay/relay/pkg/config/seal"
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
		exit := command.ExitDone
		for name, c := range checks {
			if name == "writers" && strings.Contains(c.Text, "requires no key") {
				continue // does not apply to the engines of these tests
			}
			part, odd := want[name]
			if name == "disk" && !odd {
				continue // of the machine that tests
			}
			if c.State == doctor.StateFail {
				exit = command.ExitRefused
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
		command("doctor", "--data-dir", n.dir)); code != command.ExitNoProcess ||
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
