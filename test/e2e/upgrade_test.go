package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// One machine is upgraded by replacing its program, and goes back in the same way. relay upgrade --check of the new
// program says what that does, and changes nothing. Nothing is lost or accepted twice.
func TestUpgradeByReplacingTheFile(t *testing.T) {
	t.Parallel()
	skipShort(t)
	above := t.TempDir()
	build := func(version string) (path string) {
		path = filepath.Join(above, version)
		cmd := exec.Command("go", "build", "-ldflags", "-s -w -X main.commit="+version, "-o", path, ".")
		cmd.Dir, cmd.Env = kit.Root(t), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		return path
	}
	installed, programs := filepath.Join(above, "relay"), []string{build("old"), build("new"), build("old")}
	must.Do(t, os.Link(programs[0], installed))
	var down atomic.Bool
	dest := newSink(t, func(received) int {
		if down.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	dir := nodeDir(t)
	p := newProcess(t, dir, []string{"serve", "--data-dir", dir})
	p.binary = installed
	p.start()
	ep, _, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 2, "max_attempts": 50, "jitter": 0}})
	var ids []string
	post := func(n int) string {
		t.Helper()
		status, answer := tryPost(p.url+"/v1/endpoints/"+ep+"/events", p.key, fmt.Sprintf("order-%d", n),
			`{"type":"order.paid","data":{}}`)
		if status != http.StatusAccepted {
			t.Fatal(status, answer)
		}
		return fmt.Sprint(answer["id"])
	}
	for i, program := range programs[1:] {
		down.Store(true)
		for range 20 {
			ids = append(ids, post(len(ids)))
		}
		p.awaitStatus(ids[len(ids)-1], "retrying", arrival)
		check := newProcess(t, dir, nil)
		check.binary = program
		out, code := runToEnd(t, check.command("upgrade", "--check", "--data-dir", dir))
		if running := []string{"old", "new"}[i]; code != cli.ExitDone ||
			!strings.Contains(out, running+" runs") || !strings.Contains(out, "change nothing") {
			t.Errorf("relay upgrade --check ended with %d: %s", code, out)
		}
		must.Do(t, os.Link(program, installed+".new"))
		must.Do(t, os.Rename(installed+".new", installed))
		must.Do(t, p.stop(syscall.SIGTERM))
		p.start()
		down.Store(false)
		for n, id := range ids {
			p.awaitStatus(id, "delivered", arrival)
			is.Equal(t, post(n), id, "a repeat of %s is accepted as", id)
		}
	}
	if r := awaitSettledLedger(t, p.streamConfig); r.Duplicates > 0 || r.Delivered != len(ids) {
		t.Errorf("%v", r.Counts)
	}

	old := nodeDir(t)
	must.Do(t, os.Mkdir(filepath.Join(old, "kafka"), 0o700))
	for dir, want := range map[string]string{old: "convert the log", nodeDir(t): "no relay runs"} {
		if out, _ := runToEnd(t, p.command("upgrade", "--check", "--data-dir", dir)); !strings.Contains(out, want) {
			t.Errorf("relay upgrade --check says %s, want %q", out, want)
		}
	}
}

// A data directory of the last release, with an endpoint, a key, a user, a finding and events that wait for a retry, is
// upgraded under load. Its copy goes back to that release. Nothing is lost, or delivered again.
func TestUpgradeFromTheLastRelease(t *testing.T) {
	if os.Getenv("RELAY_TORTURE") == "" {
		t.Skip("builds the last release; set RELAY_TORTURE")
	}
	dir := nodeDir(t)
	old, now := newDevProcess(t, dir), newDevProcess(t, dir)
	old.binary = buildOldRelay(t)
	var down atomic.Bool
	dest := newSink(t, func(received) int {
		if down.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	old.start()
	_, in, _ := old.endpoint(map[string]any{"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 2, "max_attempts": 50, "jitter": 0}})
	words := strings.Fields(old.keys("create", "--name", "app", "--scope", "read"))
	addPerson(t, old, "owner@example.com")
	sendLines(old.url+old.drain("app"), []byte(leakOf(1)+"\n"), nil)
	tr := startTraffic(4, 5*time.Millisecond, in)
	tr.awaitCount(t, 1000)
	down.Store(true)
	tr.awaitCount(t, 1500)
	must.Do(t, old.stop(syscall.SIGTERM))
	before := tr.count()
	was := nodeDir(t)
	must.Do(t, os.RemoveAll(was))
	must.Do(t, exec.Command("cp", "-a", dir, was).Run())

	now.url = old.url
	now.start()
	down.Store(false)
	tr.awaitCount(t, before+500)
	accepted := tr.finish()
	awaitDelivered(t, now.client, dest, "", accepted, time.Minute)
	if r := awaitSettledLedger(t, now.streamConfig); r.Duplicates > 0 || r.Delivered != len(accepted) {
		t.Errorf("%v", r.Counts)
	}
	if n := len(now.must(http.StatusOK, "GET", "/v1/findings", nil)["data"].([]any)); n != 1 {
		t.Errorf("%d findings", n)
	}
	now.withKey(words[len(words)-1]).must(http.StatusOK, "GET", "/v1/endpoints", nil)
	is.Has(t, string(must.Get(now.output("users", "list", "--data-dir", dir))(t)), "owner@example.com")
	must.Do(t, now.stop(syscall.SIGTERM))

	must.Do(t, os.RemoveAll(dir))
	must.Do(t, os.Rename(was, dir))
	old.start()
	eventually(t, arrival, func() string {
		if n := len(old.list("", 100)); n != before {
			return fmt.Sprintf("%d events are listed of %d", n, before)
		}
		return ""
	})
	t.Logf("%d accepted, %d of them by the last release, whose copy lists those", len(accepted), before)
}

// runToEnd runs a command and returns its output and exit code.
func runToEnd(t *testing.T, cmd *exec.Cmd) (output string, code int) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// Topics whose settings could lose events are refused by migrate and serve with the same message, corrected by --fix,
// and given more partitions while a node runs.
func TestMigrate(t *testing.T) {
	t.Parallel()
	tables := sharedEngine(t, "clickhouse")
	t.Run("on Apache Kafka", func(t *testing.T) {
		t.Parallel()
		testMigrate(t, newCluster(t, engines{kit.Kafka(t).Addr, "127.0.0.1:1", tables}, "wrong"))
	})
	t.Run("on the embedded engine", func(t *testing.T) {
		t.Parallel()
		testMigrate(t, newCluster(t, engines{sharedEngine(t, "kafka"), "127.0.0.1:1", tables}, "wrongembedded"))
	})
}

func testMigrate(t *testing.T, c *cluster) {
	topics, keyed := len(stream.Topics()), 0
	for _, topic := range stream.Topics() {
		if topic.Keyed {
			keyed++
		}
	}
	n := c.node("a")
	migrate := func(want int, flags ...string) string {
		t.Helper()
		out, code := runToEnd(t, n.command(append([]string{"migrate"}, flags...)...))
		must.Equal(t, code, want, "migrate %v ended with: \n%s", flags, out)
		return out
	}
	if out := migrate(cli.ExitDone); strings.Count(out, " created ") != topics || !strings.HasPrefix(out, "TOPIC ") {
		t.Errorf("first migrate:\n%s", out)
	}
	if out := migrate(cli.ExitDone); strings.Count(out, " right ") != topics || strings.Contains(out, "created") {
		t.Errorf("second migrate:\n%s", out)
	}

	c.setTopicConfig("events", "retention.ms", "604800000")
	c.setTopicConfig("retry.1h", "max.message.bytes", "1000")
	words := "topic " + c.prefix + "events: retention.ms is 604800000, want -1\n" +
		"topic " + c.prefix + "retry.1h: max.message.bytes is 1000, want at least 12582912"
	out := migrate(cli.ExitRefused)
	if !strings.Contains(out, words) || !strings.Contains(out, "`relay migrate --fix` sets them") {
		t.Errorf("migrate:\n%s", out)
	}
	if out, code := runToEnd(t, n.command(append(n.args, "--listen", "127.0.0.1:0")...)); code != cli.ExitRefused ||
		!strings.Contains(out, words) {
		t.Errorf("serve ended with %d:\n%s", code, out)
	}
	if out := migrate(cli.ExitRefused, "--replication-factor", "2", "--fix"); !strings.Contains(
		out, "replication.factor is 1, want at least 2") {
		t.Errorf("a higher replication factor than there are brokers:\n%s", out)
	}
	c.setTopicConfig("events", "retention.ms", "1000")
	type setting struct {
		Setting, Found, Want string
		Fixed                bool
	}
	var answer struct {
		Tables string
		Topics []struct {
			State   string
			Differs []setting
		}
	}
	must.Do(t, json.Unmarshal([]byte(migrate(cli.ExitDone, "--fix", "--json")), &answer))
	if first := answer.Topics[0]; answer.Tables != "ready" || first.State != "fixed" || len(first.Differs) != 1 ||
		first.Differs[0] != (setting{"retention.ms", "1000", "-1", true}) {
		t.Errorf("fixed: %+v", answer)
	}

	n.start()
	is.Has(t, migrate(cli.ExitDone, "--finalize"), "the newest, already; no step",
		"migrate --finalize of a log that is at the newest level")
	dest := newSink(t, nil)
	ep, _, _ := n.forTest(t).endpoint(map[string]any{"destinations": []any{dest.URL}})
	n.forTest(t).awaitStatus(n.forTest(t).send(ep, 1), "delivered", arrival)
	if out := migrate(cli.ExitRefused, "--partitions", "3"); !strings.Contains(
		out, "partitions is 4, want 3: partitions cannot be removed") {
		t.Errorf("fewer partitions:\n%s", out)
	}
	if out := migrate(cli.ExitDone, "--partitions", "7"); strings.Count(out, " grown ") != keyed {
		t.Errorf("more partitions:\n%s", out)
	}
	n.forTest(t).awaitStatus(n.forTest(t).send(ep, 2), "delivered", arrival)
	must.Do(t, n.stop(syscall.SIGTERM), "SIGTERM ended with: %s", n.logs)
	n.start()
	n.forTest(t).awaitStatus(n.forTest(t).send(ep, 3), "delivered", arrival)
	// The probability that 24 endpoints miss three of seven partitions is 1 in 700,000.
	var last string
	for range 24 {
		made, _, _ := n.forTest(t).endpoint(map[string]any{"destinations": []any{dest.URL}})
		last = n.forTest(t).send(made, 4)
	}
	n.forTest(t).awaitStatus(last, "delivered", arrival)
	if used := c.usedPartitions("events"); used < 5 {
		t.Errorf("new endpoints use only %d of 7 partitions", used)
	}
	if e := n.forTest(t).must(http.StatusOK, "GET", "/v1/events?limit=100", nil); len(e["data"].([]any)) != 27 {
		t.Errorf("%d events are listed, want 27", len(e["data"].([]any)))
	}
}

// --print connects to nothing, and needs the address of ClickHouse for the name of the database only.
func TestMigratePrintTouchesNothing(t *testing.T) {
	f := func(want int, text string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		args = append([]string{"migrate", "--print"}, args...)
		code := run(t.Context(), args, func(string) string { return "" }, &out, &errs)
		if code != want || !strings.Contains(out.String()+errs.String(), text) {
			t.Errorf("relay %v: %d, want %d and %q in it:\n%s%s", args, code, want, text, out.String(), errs.String())
		}
	}
	two := "http://ch1:8123/x,http://ch2:8123/x"
	f(cli.ExitDone, "CREATE TABLE IF NOT EXISTS x.events ON CLUSTER 'blue' (", "--clickhouse-url", two, "--cluster",
		"blue", "--retention-days", "7")
	f(cli.ExitDone, "TTL toStartOfDay(toDateTime(ts)) + INTERVAL 8 DAY", "--clickhouse-url", two,
		"--clickhouse-cluster", "blue",
		"--retention-days", "7")
	f(cli.ExitDone, "CREATE TABLE IF NOT EXISTS x.events (", "--clickhouse-url", two)
	f(cli.ExitDone, "GRANT SELECT ON x.* TO read_x;", "--clickhouse-url", two, "--print-grants", "--print=false")
	f(cli.ExitMisused, "RELAY_CLICKHOUSE_URL: is required by migrate --print\n")
	f(cli.ExitRefused, "clickhouse cluster: \"blue'\" is not a plain name", "--clickhouse-url", two,
		"--cluster", "blue'")
}

func (c *cluster) admin() *kadm.Client {
	cl := must.Get(kgo.NewClient(kgo.SeedBrokers(c.kafka)))(c.t)
	c.t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// setTopicConfig sets a configuration of a topic.
func (c *cluster) setTopicConfig(topic, name, value string) {
	c.t.Helper()
	resp, err := c.admin().AlterTopicConfigs(
		c.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, c.prefix+topic)
	for _, r := range resp {
		err = errors.Join(err, r.Err)
	}
	must.Do(c.t, err)
}

// usedPartitions counts the partitions of a topic that hold records.
func (c *cluster) usedPartitions(topic string) (n int) {
	c.t.Helper()
	ends := must.Get(c.admin().ListEndOffsets(c.t.Context(), c.prefix+topic))(c.t)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			n++
		}
	})
	return n
}
