package bench

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
	"github.com/google/pprof/profile"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/document"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/tools/bench/count"
)

// exportOfOne is an export with an account and one idle endpoint.
func exportOfOne(keys *seal.Keyring) ([]byte, error) {
	e := config.Endpoint{
		ID: "ep_1", Name: idleName, Token: keys.SealString("ep_1", seal.FieldToken, "token"),
		Destinations: []config.Destination{
			{ID: "dst_1", Secrets: []config.SigningSecret{{Secret: keys.SealString("dst_1", seal.FieldSecret, "whsec_x")}}}},
	}
	value, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	head := document.Header{
		Format: "eventrelay.configuration", Version: 2, Account: "acc_1", Partitions: 4, Entities: 2}
	err = document.Write(&out, head, keys, func(yield func(string, json.RawMessage) bool) {
		_ = yield("account", json.RawMessage(`{"id":"acc_1"}`)) && yield("endpoint", value)
	})
	return out.Bytes(), err
}

// fakeConfig is the command config of the fake relay: it checks that what it is to import is whole.
func fakeConfig(args []string) error {
	dir := args[slices.Index(args, "--data-dir")+1]
	spec, err := os.ReadFile(filepath.Join(dir, "master.keys"))
	if err != nil {
		return err
	}
	keys, err := seal.NewKeyring(string(spec))
	if err != nil {
		return err
	}
	if args[0] == "export" {
		text, err := exportOfOne(keys)
		if err == nil {
			_, err = os.Stdout.Write(text)
		}
		return err
	}
	in, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer in.Close()
	n := 0
	if _, err := document.Read(in, func(string, json.RawMessage) error { n++; return nil }); err != nil {
		return err
	}
	if n != 6 {
		return fmt.Errorf("%d entities are to be imported", n)
	}
	return nil
}

// Busy endpoints in turn, idle ones besides and a backlog in front: all that is accepted arrives, and is counted once.
func TestEndpointsAndBacklogAddUp(t *testing.T) {
	t.Parallel()
	own := must.Get(os.Executable())(t)
	r, said, err := runScenario(t, "flat", "--relay", own, "--endpoints", "3", "--configured", "5", "--backlog", "20",
		"--partitions", "8", "--rate", "200", "--quiet")
	if err != nil || r.Accepted == 0 || r.Delivered != r.Accepted || r.Lost+r.Duplicates+r.Refused != 0 {
		t.Fatalf("%v: accepted %d, delivered %d, lost %d, duplicates %d\n%s", err, r.Accepted, r.Delivered, r.Lost,
			r.Duplicates, said)
	}
	if !strings.Contains(r.Settings, "3 endpoints, 5 idle endpoints, 20 parked in the log, 8 partitions") {
		t.Errorf("settings %q", r.Settings)
	}
	if len(r.Figures) != 5 || r.Figures[0].Name != "idle endpoints created" || r.Figures[0].Value != 4 ||
		r.Figures[2].Name != "backlog posted" {
		t.Errorf("figures %v", r.Figures)
	}
}

// A loss at one of several endpoints is found.
func TestLossAmongEndpointsIsFound(t *testing.T) {
	t.Parallel()
	f := newFakeRelay(t, func(m count.Mark) int {
		if m.Number == 5 {
			return 0
		}
		return 1
	})
	b := runPosts(t, f, "steady", func(o *options) { o.rate, o.endpoints = 200, 7 }, time.Second)
	if r := b.result; r.Lost != 1 || r.Delivered != r.Accepted-1 || r.Accepted < 10 || r.verdict() == nil {
		t.Errorf("accepted %d, lost %d, delivered %d, verdict %v", r.Accepted, r.Lost, r.Delivered, r.verdict())
	}
}

func TestAcceptDeliversNothing(t *testing.T) {
	t.Parallel()
	f := newFakeRelay(t, deliverOnce)
	r, said, err := runScenario(t, "accept", "--target", f.URL, "--key", "secret", "--posters", "2", "--endpoints", "3")
	if err != nil || r.Accepted == 0 || r.Delivered != 0 || len(r.Streams) != 1 || len(r.Streams[0].Arrivals) != 0 {
		t.Errorf("%v: accepted %d, delivered %d, streams %v\n%s", err, r.Accepted, r.Delivered, r.Streams, said)
	}
}

func TestManyMisusesAreNamed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--endpoints 10001":                                  "--endpoints: 10001 is out of range, use 0 to 10000",
		"--configured 200001":                                "--configured: 200001",
		"--backlog -1":                                       "--backlog: -1",
		"--partitions 257":                                   "--partitions: 257",
		"--target http://x --key k --configured 1":           "--configured, --partitions: cannot be used with --target",
		"--target http://x --key k --backlog 1":              "--backlog: --admin is missing",
		"--target http://x --key k --admin x --partitions 4": "--configured, --partitions",
	} {
		var misuse MisuseError
		if _, _, err := runScenario(t, "flat", strings.Fields(args)...); !errors.As(err, &misuse) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// Every copy is an endpoint of its own: its ids, its token and secrets that open under its name.
func TestIdleCopiesAreDistinct(t *testing.T) {
	t.Parallel()
	keys, err := seal.NewKeyring(seal.GenerateKey("k"))
	if err != nil {
		t.Fatal(err)
	}
	one := must.Get(exportOfOne(keys))(t)
	text, made, err := addIdleCopies(one, keys, 9, true)
	if err != nil || made != 8 {
		t.Fatalf("%d made: %v", made, err)
	}
	seen, partitions := map[string]bool{}, map[int32]int{}
	head, err := document.Read(bytes.NewReader(text), func(kind string, value json.RawMessage) error {
		if kind == "tenant" {
			var x config.Tenant
			err := json.Unmarshal(value, &x)
			return errors.Join(err, x.Validate())
		}
		if kind != "endpoint" {
			return nil
		}
		var e config.Endpoint
		if err := json.Unmarshal(value, &e); err != nil {
			return err
		}
		if e.ID != "ep_1" && e.Tenant != e.ID {
			t.Errorf("%s belongs to %q", e.ID, e.Tenant)
		}
		token, err := keys.OpenString(e.ID, seal.FieldToken, e.Token)
		if hash := sha256.Sum256([]byte(token)); err != nil || e.ID != "ep_1" && !bytes.Equal(e.TokenHash, hash[:]) {
			t.Errorf("%s: token %q, %v", e.ID, token, err)
		}
		d := e.Destinations[0]
		if secret, err := keys.OpenString(d.ID, seal.FieldSecret, d.Secrets[0].Secret); err != nil || secret != "whsec_x" {
			t.Errorf("%s: secret %q, %v", d.ID, secret, err)
		}
		for _, id := range []string{e.ID, d.ID, token} {
			if seen[id] {
				t.Errorf("%s is there twice", id)
			}
			seen[id] = true
		}
		partitions[e.Partition]++
		return nil
	})
	if err != nil || head.Entities != 18 || len(partitions) != 4 {
		t.Errorf("%d entities, partitions %v: %v", head.Entities, partitions, err)
	}
	if _, made, err := addIdleCopies(text, keys, 9, true); err != nil || made != 0 {
		t.Errorf("%d made although they are there: %v", made, err)
	}
}

// Little and much run in turns, each with the flags of both.
func TestGrowthAlternatesScenarios(t *testing.T) {
	t.Parallel()
	own := must.Get(os.Executable())(t)
	run := func(args ...string) (string, error) {
		var out, said kit.Buffer
		err := growth(t.Context(), args, &out, &said)
		return out.String(), err
	}
	out, err := run("--turns", "1", "--n", "3", "--json", "endpoints", "--relay", own, "--rate", "100",
		"--duration", "200ms")
	var c comparison
	if err != nil || json.Unmarshal([]byte(out), &c) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if c.Settings != "endpoints" || !strings.Contains(c.New, "3 endpoints") || strings.Contains(c.Base, "endpoints") ||
		!strings.Contains(c.Base, "100/s") {
		t.Errorf("%+v", c)
	}
	for _, f := range c.Figures {
		if f.Name == "accepted per second" && (f.More.Median != f.New.Median-f.Base.Median || f.Base.Median == 0) {
			t.Errorf("%+v", f)
		}
	}
	for args, want := range map[string]string{
		"":                    "growth: a pair is missing",
		"nothing":             `no pair "nothing"`,
		"--turns 0 tls":       "--turns: 0",
		"--n 5 tls":           "--n: 5 cannot be used with tls",
		"tls --data-dir x":    "--data-dir: cannot be used with growth",
		"drain --n=5":         "--n: put it before drain",
		"tls --turns 5":       "--turns: put it before tls",
		"endpoints --nothing": "turn 1 of flat",
	} {
		if _, err := run(strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	for _, p := range pairs {
		for _, command := range []string{p.base, p.with} {
			if v := p.variant(command, p.n, nil); v.name == "" || strings.Contains(strings.Join(v.args, " "), "{") {
				t.Errorf("%s: %+v", p.name, v)
			} else if _, err := v.options(v.args, &kit.Buffer{}); err != nil {
				t.Errorf("%s: %s: %v", p.name, command, err)
			}
		}
	}
}

func TestSlopes(t *testing.T) {
	t.Parallel()
	r := Result{}
	for i := range 400 {
		at := float64(i + 1)
		n := int64(i) << 20 // a MB a second
		if i < 99 {
			n = 500 << 20 // what it takes at the start does not count
		}
		r.Series = append(r.Series, Sample{At: at, Memory: map[string]int64{"relay": n, "clickhouse": 7 << 20}})
	}
	got := slopes(r.Series)
	if len(got) != 2 || got[0].Value > 1e-6 || got[0].Value < -1e-6 || got[1].Value < 3599 || got[1].Value > 3601 {
		t.Errorf("%v", got)
	}
	if lines := memoryLines(&r); len(lines) != 2 ||
		!strings.HasPrefix(lines[1], "MB of relay every 10 s: 500 500 500 500 500 500 500 500 500 500 99 109") {
		t.Errorf("%q", lines)
	}
	if got := slopes(r.Series[:299]); got != nil {
		t.Errorf("a short run has a slope: %v", got)
	}
}

func TestBehind(t *testing.T) {
	t.Parallel()
	metrics := map[string]float64{"relay_log_unread_records": 907, `relay_log_unread_records{group="alerts"}`: 900,
		`relay_log_unread_records{group="store"}`: 7}
	long := []Sample{{At: 1}, {At: slopeSeconds}}
	if got := consumerLags(long, metrics); len(got) != 2 ||
		got[0] != (Figure{"lag of alerts", 900, "records in the log"}) ||
		got[1].Value != 7 {
		t.Errorf("%v", got)
	}
	if got := consumerLags(long[:1], metrics); got != nil {
		t.Errorf("nobody has looked at the log of a short run: %v", got)
	}
}

func TestAllocationsByStage(t *testing.T) {
	t.Parallel()
	p := &profile.Profile{}
	for i, name := range []string{"github.com/twmb/franz-go/pkg/kfake.x", "net/http.(*conn).serve"} {
		f := &profile.Function{ID: uint64(i + 1), Name: name}
		p.Function = append(p.Function, f)
		p.Sample = append(p.Sample,
			&profile.Sample{Value: []int64{1, int64(100 * (1 + 2*i)), 0, 0},
				Location: []*profile.Location{{Line: []profile.Line{{Function: f}}}}})
	}
	got := addAllocations([]Stage{{Name: "broker", PerEvent: 3}}, p, 10, 4000)
	want := []Stage{{Name: "broker", PerEvent: 3, Mallocs: 5, Bytes: 1000}, {Name: "HTTP server", Mallocs: 5, Bytes: 3000}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The parts of the bare pipeline count what they have done.
func TestFloorParts(t *testing.T) {
	t.Parallel()
	own := must.Get(os.Executable())(t)
	for _, name := range []string{"floor-http", "floor-log", "floor-row"} {
		r, said, err := runScenario(t, name, "--posters", "4", "--relay", own, "--quiet")
		if err != nil || r.Accepted == 0 || r.Delivered != r.Accepted || r.Lost != 0 || r.PostSeconds < 0.4 {
			t.Errorf("%s: %v: accepted %d, delivered %d in %v s\n%s", name, err, r.Accepted, r.Delivered, r.PostSeconds, said)
		}
		if name == "floor-log" && r.Mallocs == 0 || name == "floor-row" &&
			r.Accepted%rowsPerInsert != 0 {
			t.Errorf("%s: %v mallocs, %d rows", name, r.Mallocs, r.Accepted)
		}
	}
}

func TestNativeBlock(t *testing.T) {
	t.Parallel()
	var b proto.Block
	raw := nativeBlock(7, 3, 100)
	if err := b.Decode(chproto.NewReader(bytes.NewReader(raw)), 0); err != nil || b.Rows() != 3 {
		t.Fatalf("%d rows: %v", b.Rows(), err)
	}
	if body := b.Columns[2].Row(2, false); body != eventBody(100) {
		t.Errorf("the body is %v", body)
	}
}

// The sheet has a row for each stage, the ratio to the same stage of the bare pipeline, and sums that add up.
func TestSheet(t *testing.T) {
	t.Parallel()
	run := func(name string, stages ...Stage) *Result {
		return &Result{
			Scenario: name, Accepted: 1000, PostSeconds: 1, AllSeconds: 1, Mallocs: 8, Bytes: 800, Stages: stages,
			CPU: processes(map[string]time.Duration{
				"relay": 100 * time.Millisecond, "clickhouse": 20 * time.Millisecond, "load": 5 * time.Millisecond},
				time.Second, 1000),
		}
	}
	results := map[string][]*Result{
		"flat": {
			run("flat", Stage{Name: "HTTP server", PerEvent: 30, Mallocs: 6, Bytes: 600}, Stage{Name: "GC", PerEvent: 50},
				Stage{Name: "store rows", PerEvent: 20}),
			run("flat", Stage{Name: "HTTP server", PerEvent: 30, Mallocs: 6, Bytes: 600}, Stage{Name: "GC", PerEvent: 50},
				Stage{Name: "store rows", PerEvent: 20}),
		},
		"floor":      {run("floor", Stage{Name: "HTTP server", PerEvent: 15, Mallocs: 3, Bytes: 100})},
		"floor-http": {run("floor-http")}, "floor-log": {run("floor-log")}, "floor-row": {run("floor-row")},
	}
	var b bytes.Buffer
	newSheet(results).print(&b)
	for _, want := range []string{
		"medians of 2 turns. Events per second: flat 1000, bare pipeline 1000",
		"| HTTP server | 30.0 | 6.00 | 600 | 15.0 | 3.00 | 100 | 2.00 |", "| **the process** | 100 | 6.00 | 600 | 15.0 |",
		"| clickhouse, its process | 20.0 |", "| **all** | 120 |", "| a row in ClickHouse, native insert | 125 | 8.00 | " +
			"800 | store rows, clickhouse: 60.0 |", "| **the whole event** | 365 |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the sheet lacks %q:\n%s", want, b.String())
		}
	}
}

// A node that has its roles in the command line is counted by itself.
func TestNodesAreCountedByRole(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "echo begun; read x; :", "relay", "--roles", "dispatch")
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	must.Get(out.Read(make([]byte, 1)))(t)
	if kind := processKind(cmd.Process.Pid); kind != nodeKinds[1] {
		t.Errorf("a node that dispatches is counted as %q, want %q", kind, nodeKinds[1])
	}
	_ = in.Close()
	_ = cmd.Wait()
	for i, roles := range capacityRoles {
		if nodeKinds[i] != "relay "+roles {
			t.Errorf("the node with the roles %s is counted as %s", roles, nodeKinds[i])
		}
	}
}

func TestCapacityMisuseIsNamed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                              "--kafka: is missing",
		"--kafka h:1 --serve 2":         "--serve: 2 is out of range",
		"--kafka h:1 --destinations 17": "--destinations: 17 is out of range, use 1 to 16",
		"--kafka h:1 --failing 91":      "--failing: 91 is out of range, use 0 to 90",
		"--kafka h:1 --replicas 10":     "--replicas: 10 is out of range, use 1 to 9",
		"--replicas 3":                  "--replicas: use it with --kafka",
	} {
		_, _, err := runScenario(t, "capacity", strings.Fields(args)...)
		var misuse MisuseError
		if !errors.As(err, &misuse) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
