package conflog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/conflog/trie"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/streamtest"
)

func TestMain(m *testing.M) { kit.Main(m) }

// Kinds of these tests, with several levels and every sort of bound.
const (
	kindAccount = FirstCallerKind + iota
	kindEndpoint
	kindKey
	kindRun
	kindAlert
	kindLater
)

const (
	newestLevel  = 3
	maxEndpoints = 200_000
)

var (
	errEndpoints = errors.New("as many endpoints as may be")
	testKinds    = []KindInfo{
		{Name: "account", Level: 1, Audited: AuditAll, Bounds: Bounds{Singleton: true}},
		{Name: "endpoint", Level: 1, Audited: AuditAll, Bounds: Bounds{MaxCount: maxEndpoints, ErrCount: errEndpoints}},
		{Name: "key", Level: 1, Audited: AuditAll},
		{Name: "run", Level: 2, Audited: AuditCreateDelete, Bounds: Bounds{AllowGrowthWhenFull: true}},
		{Name: "alert", Level: 1, Bounds: Bounds{MaxCount: 100_000, ErrCount: ErrStateFull, AllowWhenFull: true}},
		{Name: "later", Level: newestLevel},
	}
)

// Thing is the value of all kinds in these tests.
type Thing struct {
	ID     string `json:"id"`
	Name   string `json:"name,omitempty"`
	Count  int    `json:"count,omitempty"`
	Hash   []byte `json:"hash,omitempty"`
	Former []byte `json:"former,omitempty"`
	Open   bool   `json:"open,omitempty"`

	RevokedAt time.Time `json:"revoked_at,omitzero"`

	Rev, Seq int64 `json:"-"`
}

type testEntities struct{}

func (testEntities) Index(k Kind, value []byte) (x Index, err error) {
	var v Thing
	if err := json.Unmarshal(value, &v); err != nil {
		return x, err
	}
	if (k == kindEndpoint || k == kindKey) && len(v.Hash) != HashLen {
		return x, errors.New("no hash")
	}
	x.ID, x.Pending = v.ID, v.Open
	copy(x.Hash[:], v.Hash)
	if len(v.Former) == HashLen {
		x.FormerHash = (*[HashLen]byte)(v.Former)
	}
	return x, nil
}

func (testEntities) Known(_ Kind, value []byte) []byte { return value }

func (testEntities) ActorName(v *View, id string) string {
	if e := v.FindLiving(kindKey, id); e != nil {
		return "ci"
	}
	return ""
}

func (testEntities) AccountID(v *View) string { return v.Newest(kindAccount).ID }

// testSealer seals without encryption.
type testSealer struct{}

func (testSealer) Seal(secret []byte) string { return "test:" + fmt.Sprintf("%x", secret) }
func (testSealer) IDs() []string             { return []string{"test:00"} }
func (testSealer) Open(sealed string) (secret []byte, err error) {
	_, err = fmt.Sscanf(sealed, "test:%x", &secret)
	return secret, err
}

func testParser() *parser {
	ks, err := newKinds(testKinds, MaxStateBytes)
	if err != nil {
		panic(err)
	}
	return &parser{kinds: ks, entities: testEntities{},
		dict: s2.MakeDict([]byte(`{"id":"ep_","name":"text"} and so on`), nil)}
}

func thing(p *parser, e *Entity) *Thing {
	if e == nil {
		return nil
	}
	v := &Thing{Rev: e.Rev, Seq: e.Seq}
	if err := json.Unmarshal(p.unpack(e.packed), v); err != nil {
		panic(err)
	}
	return v
}

func hashOf(text string) [HashLen]byte { return sha256.Sum256([]byte(text)) }

// broker starts an empty Kafka with the topics of the service.
func broker(t testing.TB, opts ...kfake.Opt) stream.Config {
	t.Helper()
	_, conf := streamtest.Broker(t, 4, opts...)
	return conf
}

// bubble runs a test in a synctest bubble (fake time), with Kafka on an in-memory network.
func bubble(t *testing.T, f func(t *testing.T, conf stream.Config)) {
	t.Helper()
	bubbleCluster(t, func(t *testing.T, _ *kfake.Cluster, conf stream.Config) { f(t, conf) })
}

// bubbleCluster is bubble for a test that makes the cluster fail.
func bubbleCluster(t *testing.T, f func(t *testing.T, cluster *kfake.Cluster, conf stream.Config)) {
	t.Helper()
	kit.Bubble(t, func(t *testing.T) {
		cluster, conf := streamtest.BrokerInBubble(t, 4)
		f(t, cluster, conf)
	})
}

// testNode is a running Log, whose log lines are kept.
type testNode struct {
	*Log
	log  *kit.Buffer
	stop func() error // ends Run and returns its error
}

// newTestLog returns a Log that does not run, with a start step that creates the account.
func newTestLog(t testing.TB, conf stream.Config, cfg Config, log *slog.Logger) *Log {
	t.Helper()
	var l *Log
	cfg.Kinds, cfg.CompressionDict = testKinds, []byte(`{"id":"ep_","name":"text"} and so on`)
	l = must.Get(New(cfg, Deps{
		Stream: conf, Entities: testEntities{}, Keys: testSealer{}, Log: log,
		StartSteps: []Step{{"create the account", func(ctx context.Context) error {
			if l.View().Newest(kindAccount) != nil {
				return nil
			}
			name := id.Random(id.Account)
			_, err := l.CreateBeforeReady(ctx, kindAccount, name, []byte(`{"id":"`+name+`"}`))
			if errors.Is(err, ErrConflict) {
				return nil
			}
			return err
		}}},
	}))(t)
	return l
}

func offlineLog(t testing.TB) *Log {
	t.Helper()
	return newTestLog(t, stream.Config{Brokers: []string{"127.0.0.1:1"}}, Config{Node: "alone"}, nil)
}

// start starts a node and does not wait until it is ready. Each setup may change the Log first.
func start(t testing.TB, conf stream.Config, cfg Config, setup ...func(*Log)) *testNode {
	t.Helper()
	log := &kit.Buffer{}
	l := newTestLog(t, conf, cfg, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for _, f := range setup {
		f(l)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { done <- l.Run(ctx) })
	n := &testNode{Log: l, log: log, stop: sync.OnceValue(func() error {
		cancel()
		wg.Wait()
		return <-done
	})}
	t.Cleanup(func() { n.stop() })
	return n
}

// node starts a node and waits until it is ready.
func node(t testing.TB, conf stream.Config, cfg Config, setup ...func(*Log)) *testNode {
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

// make creates a Thing of a kind, with the token "tok_" and its id.
func (n *testNode) make(ctx context.Context, k Kind, name string) (*Thing, error) {
	hash := hashOf("tok_" + name)
	raw, err := json.Marshal(Thing{ID: name, Name: "text", Hash: hash[:], Count: 15})
	if err != nil {
		return nil, err
	}
	w, err := n.Create(ctx, k, name, raw)
	if err != nil {
		return nil, err
	}
	n.WaitForPeers(ctx, w)
	return thing(n.parser, w.Entity), nil
}

// create creates an endpoint.
func (n *testNode) create(t testing.TB) *Thing {
	t.Helper()
	v := must.Get(n.make(context.Background(), kindEndpoint, id.Random(id.Endpoint)))(t)
	return v
}

// createKey creates a key and returns the text that authenticate accepts.
func (n *testNode) createKey(t testing.TB) (text string, k *Thing) {
	t.Helper()
	k = must.Get(n.make(context.Background(), kindKey, id.Random(id.Key)))(t)
	return "tok_" + k.ID, k
}

// change changes a Thing.
func (n *testNode) change(ctx context.Context, k Kind, name string, alter func(*Thing)) (
	before, after *Entity, w WriteResult, err error) {
	before, w, err = n.Change(ctx, k, name, func(old *Entity) (NewValue, error) {
		v := thing(n.parser, old)
		alter(v)
		raw, err := json.Marshal(v)
		if bytes.Equal(raw, n.Value(old)) {
			return NewValue{}, nil
		}
		return NewValue{Value: raw, Exempt: !v.RevokedAt.IsZero()}, err
	})
	return before, w.Entity, w, err
}

// update changes an endpoint and waits for the other nodes with WaitForPeers.
func (n *testNode) update(ctx context.Context, name string, alter func(*Thing)) (*Thing, error) {
	_, after, w, err := n.change(ctx, kindEndpoint, name, alter)
	if err != nil {
		return nil, err
	}
	n.WaitForPeers(ctx, w)
	return thing(n.parser, after), nil
}

// revoke revokes a key.
func (n *testNode) revoke(ctx context.Context, key string) error {
	before, after, w, err := n.change(ctx, kindKey, key, func(v *Thing) {
		v.RevokedAt = cmp.Or(v.RevokedAt, time.Now().UTC())
	})
	if err != nil {
		return err
	}
	if before == after {
		w = n.CurrentPosition()
	}
	return n.Barrier(ctx, w)
}

var errRevoked = errors.New("unknown or revoked")

// authenticate accepts a key while the lease holds.
func (n *testNode) authenticate(text string) error {
	if _, ok := n.Lease(); !ok {
		return ErrLease
	}
	v := thing(n.parser, n.View().FindByHash(kindKey, hashOf(text)))
	if v == nil || !v.RevokedAt.IsZero() {
		return errRevoked
	}
	return nil
}

// get returns an endpoint, or nil.
func (n *testNode) get(name string) *Thing {
	return thing(n.parser, n.View().FindLiving(kindEndpoint, name))
}

func (n *testNode) account() string { return n.View().Newest(kindAccount).ID }

// remove deletes an endpoint and waits at the barrier.
func (n *testNode) remove(ctx context.Context, name string) error {
	w, err := n.Delete(ctx, kindEndpoint, name, 0)
	if err != nil {
		return err
	}
	return n.Barrier(ctx, w)
}

func (n *testNode) writeSnapshot(ctx context.Context, v *View) (storedFooter, error) {
	return snapshots{n.Log}.write(ctx, v)
}

// stateText returns the state as encoded in a snapshot, to compare whole states.
func stateText(t testing.TB, l *Log) []byte {
	t.Helper()
	return encoded(t, l.parser, l.view.Load().state)
}

func encoded(t testing.TB, p *parser, s *state) []byte {
	t.Helper()
	var text bytes.Buffer
	fmt.Fprintln(&text, s.seq)
	for _, set := range s.sets {
		for _, tr := range []trie.Map[*Entity]{set.bySeq, set.tombstones} {
			for e := range tr.Below(math.MaxUint64) {
				must.Do(t, p.writeLines(&text, e))
			}
		}
	}
	return text.Bytes()
}

// freezable returns a configuration whose connections can be frozen.
func freezable(cold *kit.Freezer, conf stream.Config) stream.Config {
	conf.DialFunc = cold.Dialer(conf.DialFunc)
	return conf
}

// A node without permission to read the configuration log keeps its state, logs the error, and continues when it has
// the permission again.
func TestFollowContinuesAfterAuthorizationError(t *testing.T) {
	bubbleCluster(t, func(t *testing.T, cluster *kfake.Cluster, conf stream.Config) {
		n := node(t, conf, Config{Node: "a"})
		first := n.create(t)
		for _, topic := range []string{stream.Control, stream.Nodes} {
			cluster.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Fetch}, Topic: "relay." + topic, Err: kerr.TopicAuthorizationFailed, Count: 3})
		}
		time.Sleep(20 * time.Second) // until both have read again
		for _, topic := range []string{stream.Control, stream.Nodes} {
			is.Has(t, n.log.String(), "topic="+topic+" error=", "the refusal of %s was not logged", topic)
		}
		if log := n.log.String(); strings.Count(log, "cannot read the topic") < 2 {
			t.Fatalf("the refusals were not logged:\n%s", log)
		}
		second := n.create(t) // returns when the node has read it
		for _, e := range []*Thing{first, second} {
			if n.get(e.ID) == nil {
				t.Errorf("endpoint %s is missing", e.ID)
			}
		}
	})
}

// Two processes under one name are noticed while both run; a restart is none.
func TestTwoProcessesUnderOneName(t *testing.T) {
	const life = 5 * time.Second
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	beat := func(p *peers, boot string, ms int, leaving bool) {
		p.record(heartbeat{Node: "a", Boot: boot, At: at(ms), Leaving: leaving}, at(ms), life)
	}
	var restarted, both peers
	beat(&restarted, "1", 0, false)
	beat(&restarted, "2", 500, false)
	beat(&restarted, "1", 0, false)  // the last heartbeat of the ended process, appended again
	beat(&restarted, "1", 600, true) // and its farewell
	if restarted.isShared("a", at(700), life) {
		t.Error("a restart counts as two processes")
	}
	beat(&both, "1", 0, false)
	beat(&both, "2", 250, false)
	beat(&both, "1", 500, false)
	if !both.isShared("a", at(600), life) || both.isShared("b", at(600), life) {
		t.Error("two processes under one name are not noticed")
	}
	if both.isShared("a", at(600).Add(life), life) {
		t.Error("they are still reported after both have ended")
	}
	for i := range 100 {
		beat(&both, string(rune('A'+i)), 10_000+i*6000, false)
	}
	if len(both.replaced) > 2 {
		t.Errorf("%d processes are remembered", len(both.replaced))
	}
}
