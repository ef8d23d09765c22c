package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/id"
	leaks "github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/streamtest"
)

func TestMain(m *testing.M) { kit.Main(m) }

// broker starts an empty Kafka with the topics of the service.
func broker(t testing.TB) stream.Config {
	t.Helper()
	_, conf := streamtest.Broker(t, 4)
	return conf
}

// bubble runs a test in a synctest bubble (fake time), with Kafka on an in-memory network.
func bubble(t *testing.T, f func(t *testing.T, conf stream.Config)) {
	t.Helper()
	kit.Bubble(t, func(t *testing.T) { f(t, bubbleBroker(t)) })
}

// bubbleBroker starts an empty Kafka within a bubble.
func bubbleBroker(t *testing.T) stream.Config {
	t.Helper()
	_, conf := streamtest.BrokerInBubble(t, 4)
	return conf
}

func Keyring(t testing.TB) *seal.Keyring {
	t.Helper()
	k := must(seal.NewKeyring("test:" + "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="))(t)
	return k
}

// testNode is a running Control, whose log lines are kept.
type testNode struct {
	*Control
	log     *kit.Buffer
	stopped chan struct{} // closed when Run has returned
	stop    func() error  // ends Run and returns its error
}

// options are the settings of a node that tests change.
type options struct {
	deps     Deps
	log      conflog.Config
	sweeping time.Duration
}

// start starts a node and does not wait until it is ready. Each setup may change the options first.
func start(t testing.TB, conf stream.Config, cfg Config, setup ...func(*options)) *testNode {
	t.Helper()
	if cfg.Partitions == 0 {
		cfg.Partitions = 4
	}
	log := &kit.Buffer{}
	o := options{sweeping: time.Minute, log: conflog.Config{Timing: conflog.DefaultTiming()}, deps: Deps{
		Stream: conf, Keyring: Keyring(t),
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}}
	for _, f := range setup {
		f(&o)
	}
	c := must(build(cfg, o.deps, o.log))(t)
	c.sweepInterval = o.sweeping
	ctx, cancel := context.WithCancel(context.Background())
	done, stopped := make(chan error, 1), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { done <- c.Run(ctx); close(stopped) })
	stop := sync.OnceValue(func() error {
		cancel()
		wg.Wait()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return &testNode{Control: c, log: log, stopped: stopped, stop: stop}
}

// node starts a node and waits until it is ready.
func node(t testing.TB, conf stream.Config, cfg Config, setup ...func(*options)) *testNode {
	t.Helper()
	n := start(t, conf, cfg, setup...)
	select {
	case <-n.Ready():
	case <-n.stopped:
		t.Fatalf("node %s stopped: %v", cfg.Node, n.stop())
	case <-time.After(2 * time.Minute):
		t.Fatalf("node %s is not ready after two minutes:\n%s", cfg.Node, n.log)
	}
	return n
}

// pair starts two nodes and waits until each has a heartbeat of the other.
func pair(t *testing.T, confA, confB stream.Config) (a, b *testNode) {
	t.Helper()
	a, b = node(t, confA, Config{Node: "a"}), node(t, confB, Config{Node: "b"})
	time.Sleep(time.Second)
	return a, b
}

// stoppedWith waits until a node has stopped by itself, and returns why.
func stoppedWith(t *testing.T, n *testNode) error {
	t.Helper()
	select {
	case <-n.stopped:
		return n.stop()
	case <-n.Ready():
		t.Fatal("the node is ready")
	case <-time.After(time.Minute):
		t.Fatal("the node neither stopped nor became ready")
	}
	return nil
}

// trim deletes the records of a topic of the configuration before an offset, or all of them.
func trim(t *testing.T, conf stream.Config, topic string) {
	t.Helper()
	reader := must(stream.NewReader(conf, "test"))(t)
	defer reader.Close()
	ends := must(reader.Ends(t.Context(), topic))(t)
	p := stream.Partition{Topic: topic}
	noError(t, reader.Trim(t.Context(), p, ends[p]))
}

func unreachable() stream.Config { return stream.Config{Brokers: []string{"127.0.0.1:1"}} }

// noError ends the test on an error.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns the value of a call, and ends the test on its error: must(call())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noError(t, err)
		return v
	}
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	raw := must(json.Marshal(v))(t)
	return raw
}

// endpoint returns a valid new endpoint with one destination.
func endpoint(k *seal.Keyring) *Endpoint {
	ep, dst := id.Random(id.Endpoint), id.Random(id.Destination)
	return &Endpoint{
		ID: ep, Name: ep[len(ep)-6:], Provider: "generic",
		EndpointSettings: NewEndpointSettings("generic"), Metadata: map[string]string{},
		Token: k.SealString(ep, seal.FieldToken, "tok_"+ep),
		Destinations: []Destination{{
			ID: dst, URL: "https://example.com/hook",
			DestinationSettings: NewDestinationSettings(),
			Headers:             map[string]seal.Secret{},
			Secrets:             []SigningSecret{{Secret: k.SealString(dst, seal.FieldSecret, "whsec_"+dst), Last4: "abcd"}},
		}},
		RetryPolicy: retry.Default(),
	}
}

func (n *testNode) create(t testing.TB) *Endpoint {
	t.Helper()
	e := must(n.CreateEndpoint(context.Background(), endpoint(n.Keyring)))(t)
	return e
}

func TestEndpointLife(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	e := n.create(t)
	if e.Partition != partitionOf(e.ID, 4) {
		t.Fatalf("created: %+v", e)
	}
	if got := n.EndpointByToken("tok_" + e.ID); got == nil || got.Rev != e.Rev {
		t.Fatalf("by token: %v", got)
	}
	if err := n.DeleteEndpoint(ctx, e.ID, 0); err != nil || n.EndpointByToken("tok_"+e.ID) != nil {
		t.Fatalf("after deletion: %v", err)
	}
	noError(t, n.stop())
	if _, err := n.CreateEndpoint(ctx, endpoint(n.Keyring)); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("write to a stopped node: %v", err)
	}
}

func TestCreateRefusesTakenIDAndToken(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	e := n.create(t)
	again := endpoint(n.Keyring)
	again.ID, again.Token = e.ID, n.Keyring.SealString(e.ID, seal.FieldToken, "tok_other")
	if _, err := n.CreateEndpoint(ctx, again); !errors.Is(err, ErrConflict) {
		t.Fatalf("same id: %v", err)
	}
	other := endpoint(n.Keyring)
	other.Token = n.Keyring.SealString(other.ID, seal.FieldToken, "tok_"+e.ID)
	if _, err := n.CreateEndpoint(ctx, other); !errors.Is(err, ErrConflict) {
		t.Fatalf("same token: %v", err)
	}
	foreign := endpoint(n.Keyring)
	foreign.Token = e.Token
	if _, err := n.CreateEndpoint(ctx, foreign); !errors.Is(err, seal.ErrOpen) {
		t.Fatalf("token sealed for another endpoint: %v", err)
	}
}

func TestListPages(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	var want []string
	for range 7 {
		want = append([]string{n.create(t).ID}, want...)
	}
	noError(t, n.DeleteEndpoint(t.Context(), want[3], 0))
	want = append(want[:3:3], want[4:]...)
	var got []string
	before := int64(0)
	for more := true; more; {
		var page []*Endpoint
		page, more = n.Endpoints(n.Account().ID, before, 2)
		for _, e := range page {
			got = append(got, e.ID)
			before = e.Seq
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("pages: %v, want %v", got, want)
	}
	if page, more := n.Endpoints("acc_other", 0, 10); len(page) != 0 || more {
		t.Fatal("another account sees the endpoints")
	}

	read := 0
	page, more := n.EndpointsWhere(n.Account().ID, 0, 10, func(e *Endpoint) (yes, stop bool) {
		read++
		return e.ID != want[1], read == 4
	})
	if len(page) != 2 || page[0].ID != want[0] || page[1].ID != want[2] || more || read != 4 {
		t.Errorf("%d endpoints of %d, more %t", len(page), read, more)
	}
	uncached := *n.View().FindLiving(entity.KindEndpoint, want[0])
	if n.Peek(&uncached) == n.Peek(&uncached) {
		t.Error("a loop over endpoints fills the cache")
	}
	if n.endpoint(&uncached) != n.Peek(&uncached) {
		t.Error("a loop over endpoints does not use the cache")
	}
}

func TestKeys(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	text, k, err := n.CreateKey(ctx, NewKey{Name: "ci", Scope: Read, Agent: true})
	if err != nil || !apikey.HasFormat(text) {
		t.Fatalf("key %q: %v", text, err)
	}
	if got, err := n.Authenticate(text); err != nil || got.ID != k.ID || !got.Agent || got.Scope != Read ||
		got.Last4 != text[len(text)-4:] {
		t.Fatalf("authenticate: %+v, %v", got, err)
	}
	if _, err := n.Authenticate(text + "x"); !errors.Is(err, ErrInvalidKey) {
		t.Fatalf("unknown key: %v", err)
	}
	second := NewKey{Name: strings.Repeat("é", require.MaxName), Scope: ReadWrite}
	if _, k, err := n.CreateKey(ctx, second); err != nil || k.Name != second.Name || k.CreatedAt.IsZero() {
		t.Fatalf("%+v, %v", k, err)
	}
	second.Name += "x"
	if _, _, err := n.CreateKey(ctx, second); err == nil {
		t.Error("a longer name is accepted")
	}
	noError(t, n.RevokeKey(ctx, k.ID))
	revoked := n.Keys(n.Account().ID)[1].RevokedAt
	if _, err := n.Authenticate(text); !errors.Is(err, ErrInvalidKey) {
		t.Fatalf("revoked key: %v", err)
	}
	if err := n.RevokeKey(ctx, k.ID); err != nil {
		t.Fatalf("second revocation: %v", err)
	}
	if again := n.Keys(n.Account().ID)[1].RevokedAt; !again.Equal(revoked) {
		t.Errorf("revoked at %v, and then at %v", revoked, again)
	}
	if err := n.RevokeKey(ctx, "key_nope"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("revocation of an unknown key: %v", err)
	}
	if keys := n.Keys(n.Account().ID); len(keys) != 2 || keys[1].RevokedAt.IsZero() {
		t.Fatalf("keys: %+v", keys)
	}
}

func TestBootstrapKeys(t *testing.T) {
	ctx := t.Context()
	conf := broker(t)
	const write, read = "bootstrap-key-0123456789", "bootstrap-read-0123456789"
	with := Config{Node: "a", BootstrapKey: write, BootstrapReadKey: read}
	a := node(t, conf, with)
	k, err := a.Authenticate(write)
	if err != nil || k.Scope != ReadWrite || !k.Bootstrap {
		t.Fatalf("bootstrap key: %+v, %v", k, err)
	}
	if k, err := a.Authenticate(read); err != nil || k.Scope != Read {
		t.Fatalf("bootstrap read key: %+v, %v", k, err)
	}
	// A node whose environment names no keys rejects them; a node that swaps the keys swaps the scopes.
	b := node(t, conf, Config{Node: "b"})
	if _, err := b.Authenticate(write); !errors.Is(err, ErrInvalidKey) {
		t.Fatalf("bootstrap key that the environment does not name: %v", err)
	}
	c := node(t, conf, Config{Node: "c", BootstrapKey: read, BootstrapReadKey: write})
	if k, err := c.Authenticate(write); err != nil || k.Scope != Read || len(c.Keys(c.Account().ID)) != 2 {
		t.Fatalf("swapped: %+v, %v", k, err)
	}
	// A key that is revoked by id stays revoked.
	noError(t, b.RevokeKey(ctx, k.ID))
	if _, err := a.Authenticate(write); !errors.Is(err, ErrInvalidKey) {
		t.Fatalf("revoked: %v", err)
	}
	a.stop()
	a = node(t, conf, with)
	if _, err := a.Authenticate(write); !errors.Is(err, ErrInvalidKey) {
		t.Fatalf("revoked, after a restart: %v", err)
	}
	if _, err := a.Authenticate(read); err != nil {
		t.Fatalf("the other one, after a restart: %v", err)
	}
}

// TestNodesStartTogether: two nodes race to create the account and the bootstrap keys; the loser continues at once.
func TestNodesStartTogether(t *testing.T) {
	for range 10 {
		bubble(t, func(t *testing.T, conf stream.Config) {
			cfg := Config{BootstrapKey: "bootstrap-key-0123456789"}
			var nodes []*testNode
			for _, name := range []string{"a", "b", "c"} {
				cfg.Node = name
				nodes = append(nodes, start(t, conf, cfg))
			}
			time.Sleep(900 * time.Millisecond)
			for _, n := range nodes {
				select {
				case <-n.Ready():
				default:
					t.Fatalf("not ready:\n%s", n.log)
				}
				if _, err := n.Authenticate(cfg.BootstrapKey); err != nil || n.Account().ID != nodes[0].Account().ID ||
					len(n.Keys(n.Account().ID)) != 1 {
					t.Fatalf("account %v, keys %v, %v", n.Account(), n.Keys(n.Account().ID), err)
				}
			}
		})
	}
}

// freezable returns a configuration whose connections can be frozen.
func freezable(cold *kit.Freezer, conf stream.Config) stream.Config {
	conf.DialFunc = cold.Dialer(conf.DialFunc)
	return conf
}

// plantUnknown adds an unknown member to every object of a document that corresponds to a struct, and returns the
// number of objects.
func plantUnknown(v reflect.Value, raw any, n *int) any {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch o := raw.(type) {
	case map[string]any:
		if v.Kind() != reflect.Struct {
			return raw
		}
		for _, f := range reflect.VisibleFields(v.Type()) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if sub, there := o[name]; there && !f.Anonymous {
				o[name] = plantUnknown(v.FieldByIndex(f.Index), sub, n)
			}
		}
		o["of_tomorrow"] = map[string]any{"n": *n}
		*n++
	case []any:
		for i := range o {
			if v.Kind() == reflect.Slice && i < v.Len() {
				o[i] = plantUnknown(v.Index(i), o[i], n)
			}
		}
	}
	return raw
}

// countUnknown counts the objects that have the planted member.
func countUnknown(raw any) (n int) {
	switch o := raw.(type) {
	case map[string]any:
		if _, there := o["of_tomorrow"]; there {
			n++
		}
		for name, sub := range o {
			if name != "of_tomorrow" {
				n += countUnknown(sub)
			}
		}
	case []any:
		for _, sub := range o {
			n += countUnknown(sub)
		}
	}
	return n
}

func decodedJSON(t *testing.T, raw []byte) (v any) {
	t.Helper()
	noError(t, json.Unmarshal(raw, &v))
	return v
}

// In every object of every kind, a member that a newer version has written survives a change by this version, whichever
// function makes it. An object that is removed takes its members with it.
func TestUnknownMembersSurvive(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	for k := conflog.FirstCallerKind; k < entity.NumKinds; k++ {
		t.Run(n.KindName(k), func(t *testing.T) {
			v := kindTable[k].Empty()
			fill(reflect.ValueOf(v).Elem(), n.KindName(k), map[seal.Secret]bool{})
			name := n.KindName(k) + "_planted"
			reflect.ValueOf(v).Elem().FieldByName("ID").SetString(name)
			hash := entity.HashOf(name)
			switch v := v.(type) {
			case *Endpoint:
				v.TokenHash, v.FormerToken = hash[:], &FormerToken{}
			case *Key:
				v.Hash = hash[:]
			case *leak.Drain:
				v.Hash = hash[:]
			case *leak.Domain:
				v.Hash = hash[:]
			case *leak.Scan:
				v.Hash = nil
			case *leak.DSN:
				v.Hash = hash[:]
			case *leak.Tripwire:
				v.Key, v.URL = &leak.TripwireSecret{Hash: hash[:]}, nil
			}
			objects := 0
			raw := mustJSON(t, plantUnknown(reflect.ValueOf(v), decodedJSON(t, mustJSON(t, v)), &objects))
			if k == entity.KindAccount {
				noError(t, n.Adopt(t.Context(), k, name, raw))
			} else if _, err := n.Create(t.Context(), k, name, raw); err != nil {
				t.Fatal(err)
			}
			_, w, err := n.Replace(t.Context(), k, name, func(old entity.Value) (entity.Value, error) {
				again, err := kindTable.Decode(k, mustJSON(t, old))
				for _, at := range []string{"CreatedAt"} {
					f := reflect.ValueOf(again).Elem().FieldByName(at)
					f.Set(reflect.ValueOf(n.Clock().UTC()))
				}
				return again, err
			})
			if err != nil {
				t.Fatal(err)
			}
			after := n.Value(w.Entity)
			if got := countUnknown(decodedJSON(t, after)); got != objects || w.Entity.Rev == w.Entity.Seq {
				t.Errorf("%d of %d members are left: %s", got, objects, after)
			}
		})
	}
}

// An unknown member survives changes of an endpoint and its destinations, a rotation and a move.
func TestUnknownMembersSurviveTheAPI(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	e := n.create(t)
	raw := string(n.Value(n.View().FindLiving(entity.KindEndpoint, e.ID)))
	raw = strings.Replace(raw, `"url":`, `"of_tomorrow":1,"url":`, 1)
	raw = strings.Replace(raw, `"name":`, `"of_tomorrow":1,"name":`, 1)
	old := n.View().FindLiving(entity.KindEndpoint, e.ID)
	change := conflog.BatchChange{Kind: entity.KindEndpoint, ID: e.ID, Old: old, Value: []byte(raw)}
	noError(t, n.WriteBatch(t.Context(), []conflog.BatchChange{change}))
	must(n.UpdateEndpoint(t.Context(), e.ID, func(e *Endpoint) error {
		e.Name, e.Destinations[0].URL = "renamed", "https://example.com/other"
		return nil
	}))(t)
	n.rotateToken(t, e.ID, "tok_2", n.Clock().Add(1e12))
	must(n.MoveEndpoint(t.Context(), e.ID, 3-e.Partition, n.Clock().Add(1e12)))(t)
	after := string(n.Value(n.View().FindLiving(entity.KindEndpoint, e.ID)))
	if strings.Count(after, `"of_tomorrow":1`) != 2 || !strings.Contains(after, "renamed") {
		t.Error(fmt.Sprint("unknown members were lost: ", after))
	}
}

func ownRule(id, prefix string) leaks.Custom {
	return leaks.Custom{ID: leaks.CustomPrefix + id, Name: "Key of " + id, Prefixes: []string{prefix}, Charset: "alnum",
		Min: 20, Max: 64, Left: "word", Right: "word", Severity: leaks.Medium}
}

// An account's own rules are the same on every node; each change counts, is audited and has another revision, also
// when two nodes make the first one at once.
func TestDetectionSettings(t *testing.T) {
	b := broker(t)
	one, two := node(t, b, Config{Node: "a"}), node(t, b, Config{Node: "b"})
	if rules, _ := one.CustomRules(); len(rules) != 0 || one.Settings().Detection.Version != 0 {
		t.Fatalf("settings of a new account: %+v", one.Settings())
	}
	add := func(n *testNode, r leaks.Custom) error {
		_, err := n.UpdateDetection(t.Context(), func(d *Detection) error {
			d.Rules, d.Version = append(d.Rules, r), 100
			return nil
		})
		return err
	}
	errs := make(chan error, 1)
	go func() { errs <- add(one, ownRule("one", "one_")) }()
	noError(t, errors.Join(add(two, ownRule("two", "two_")), <-errs))
	revisions := map[int64]bool{}
	for _, n := range []*testNode{one, two} {
		noError(t, n.Sync(t.Context()))
		d := n.Settings().Detection
		if len(d.Rules) != 2 || d.Version != 2 || d.Rule("custom:one") == nil || d.Rule("one") != nil {
			t.Errorf("node %s has %+v", n.cfg.Node, d)
		}
		_, revision := n.CustomRules()
		revisions[revision] = true
	}
	must(one.UpdateDetection(t.Context(), func(d *Detection) error { return nil }))(t)
	if _, revision := one.CustomRules(); len(revisions) != 1 || !revisions[revision] {
		t.Errorf("revisions %v, and %d after a change of nothing", revisions, revision)
	}
	refused := errors.New("refused")
	if _, err := one.UpdateDetection(t.Context(), func(*Detection) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	if _, err := one.UpdateDetection(t.Context(), func(d *Detection) error { d.Rules = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	if d := one.Settings().Detection; d.Version != 3 || len(d.Rules) != 0 || d.UpdatedAt.IsZero() {
		t.Errorf("after all rules were removed: %+v", d)
	}
}
