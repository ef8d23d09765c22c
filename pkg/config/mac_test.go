package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/pkg/stream"
)

// strangeKey is a record that gives whoever knows the text of a key an API key.
func strangeKey(text string) string {
	hash := hashOf(text)
	value, _ := json.Marshal(Key{ID: "key_x", Account: "acc_1", Name: "x", Scope: ReadWrite, Hash: hash[:]})
	return fmt.Sprintf(`{"v":2,"op_id":"op_x","kind":"key","id":"key_x","pre":"absent","op":"put","value":%s}`, value)
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

// appendAgain appends the records of the configuration log that fit once more, as somebody who can read and write it.
func appendAgain(t *testing.T, n *testNode, fits func(record) bool) (count int) {
	t.Helper()
	err := n.readRange(t.Context(), controlLog, 0, endOf(t, n, controlLog), func(r *stream.Record) error {
		var old record
		if json.Unmarshal(r.Value, &old) != nil || !fits(old) {
			return nil
		}
		count++
		return n.producer.ProduceSync(t.Context(), stream.Control, 0, &stream.Record{Key: r.Key, Value: r.Value, Headers: r.Headers})
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// TestForgedRecords: whatever somebody else writes to the configuration log changes nothing and stops nobody, neither
// the nodes that run nor those that start.
func TestForgedRecords(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	e := n.create(t)
	text := "a text that nobody gave out"
	before := stateText(t, n.Control)
	otherSecret, other := alone(t).newLogSecret()
	begin, _ := json.Marshal(record{
		V: 2, OpID: "op_begin", Kind: "log", ID: logID, Pre: preAbsent, Op: opPut, Value: mustJSON(t, otherSecret),
	})
	own := *n.auth.Load()
	for _, forged := range []*stream.Record{
		{Value: []byte(`{"v":2}`)}, {Value: []byte(`{"v":99}`)}, {Value: []byte(`{`)}, {}, {Value: []byte(strangeKey(text))},
		{Value: []byte(strings.Replace(strangeKey(text), `"v":2`, `"v":1`, 1))},
		{Value: []byte(strangeKey(text)), Headers: []stream.Header{{Key: macHeader, Value: []byte("x")}}},
		{Value: []byte(`{"v":2,"op_id":"op_gap","seq_seen":99,"kind":"key","id":"key_x","pre":"exists","op":"delete"}`)},
		{Value: []byte(fmt.Sprintf(`{"v":2,"op_id":"op_level","kind":"account","id":"level","pre":"none","op":"level","level":%d}`, newestLevel+1))},
		other.sign(macRecord, &stream.Record{Value: []byte(strangeKey(text))}),  // of another log
		other.sign(macRecord, &stream.Record{Value: begin}),                     // begins another log
		own.sign(macHeartbeat, &stream.Record{Value: []byte(strangeKey(text))}), // for another purpose
	} {
		putRecord(t, conf, stream.Control, forged)
	}
	transaction(t, conf, stream.Control, kgo.TryCommit)
	transaction(t, conf, stream.Control, kgo.TryAbort)
	transaction(t, conf, stream.ControlSnapshots, kgo.TryCommit)
	if err := n.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stateText(t, n.Control), before) {
		t.Error("the configuration has changed")
	}
	counted := testutil.ToFloat64(n.metrics.unauthentic.WithLabelValues(stream.Control))
	if lines := bytes.Count(n.log.Bytes(), []byte("without a valid MAC")); counted < 11 || lines != 1 {
		t.Errorf("%v are counted, in %d lines of the log", counted, lines)
	}
	if _, err := n.writeSnapshot(t.Context(), n.view.Load()); err != nil {
		t.Fatal(err)
	}
	putRecord(t, conf, stream.Control, &stream.Record{Value: []byte(`{"v":99}`)})
	for _, name := range []string{"b", "c"} { // with the snapshot, and without
		again := node(t, conf, Config{Node: name})
		if _, err := again.Authenticate(text); !errors.Is(err, ErrInvalidKey) {
			t.Errorf("node %s takes the key: %v", name, err)
		}
		if _, p := again.Endpoint(e.ID); p != Present || !bytes.Equal(stateText(t, again.Control), before) {
			t.Errorf("node %s has another configuration", name)
		}
		again.stop()
		if err := n.reader.Trim(t.Context(), snapshotLog, endOf(t, n, snapshotLog)); err != nil {
			t.Fatal(err)
		}
	}
	n.create(t)
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// transaction writes a record in a transaction, the marker at whose end takes an offset.
func transaction(t *testing.T, conf stream.Config, topic string, end kgo.TransactionEndTry) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(conf.Brokers...), kgo.TransactionalID("stranger"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: conf.Prefix + topic, Value: []byte(`{}`)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := cl.EndTransaction(t.Context(), end); err != nil {
		t.Fatal(err)
	}
}

// TestRepeatedRecords: what was in the log before is refused when somebody appends it once more, by nodes that have
// seen it and by those that know of it from a snapshot.
func TestRepeatedRecords(t *testing.T) {
	conf := broker(t)
	ctx := t.Context()
	n := node(t, conf, Config{Node: "a"})
	if _, _, err := n.AddUser(ctx, "gone@example.com"); err != nil {
		t.Fatal(err)
	}
	if err := n.RemoveUser(ctx, "gone@example.com"); err != nil {
		t.Fatal(err)
	}
	e := n.create(t)
	if _, err := imported(t, n, exportOf(t, n), true); err != nil {
		t.Fatal(err)
	}
	before := n.view.Load()
	if count := appendAgain(t, n, func(record) bool { return true }); count < 5 {
		t.Fatalf("%d records show nothing", count)
	}
	check := func(n *testNode) {
		t.Helper()
		if err := n.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		_, presence := n.Endpoint(e.ID)
		if len(n.Users()) > 0 || presence != Present || n.Account().ID != e.Account {
			t.Errorf("users %v, account %v, endpoint %v", n.Users(), n.Account(), presence)
		}
	}
	check(n)
	v := n.view.Load()
	if v.seq == before.seq {
		t.Error("the repeated records were not read")
	}
	if _, err := n.writeSnapshot(ctx, v); err != nil {
		t.Fatal(err)
	}
	again := node(t, conf, Config{Node: "b"})
	if again.view.Load().ops[0].len != v.ops[0].len {
		t.Errorf("%d op_ids from the snapshot, want %d", again.view.Load().ops[0].len, v.ops[0].len)
	}
	appendAgain(t, n, func(r record) bool { return r.Kind == "user" })
	check(again)
}

// TestOldRecordsAreRefused: a record is either among those whose op_id is known, or too old.
func TestOldRecordsAreRefused(t *testing.T) {
	c := newCodec()
	r := parsed(t, c, record{Kind: "account", ID: "x", Pre: preExists, Op: opDelete})
	s := &state{level: newestLevel}
	noted := r
	for i := range 3 * opWindow {
		if i%1000 == 0 || i%opWindow < 2 {
			if _, got, err := apply(s, noted); i > 0 && got != repeated {
				t.Fatalf("after %d records the first is %s once more, %v", i, got, err)
			}
		}
		next := *s
		next.seq++
		op := noted.OpID
		if i > 0 {
			op = fmt.Sprint("op_", i)
		}
		next.remember(op)
		s = &next
	}
	if n := s.ops[0].len + s.ops[1].len; n > 2*opWindow {
		t.Errorf("%d op_ids are remembered", n)
	}
	r.OpID, r.SeqSeen = "op_new", s.seq-opWindow
	if _, got, _ := apply(s, r); got != conflict {
		t.Errorf("a record that is just not too old: %s", got)
	}
	r.SeqSeen--
	if _, got, _ := apply(s, r); got != repeated {
		t.Errorf("a record that is too old: %s", got)
	}
	if a, b := packOps(s.ops[1]), packOps(unpackOps(packOps(s.ops[1]))); !bytes.Equal(a, b) || len(a) != 8*opWindow {
		t.Errorf("%d bytes of op_ids, then %d", len(a), len(b))
	}
}

// TestForgedSnapshots: a snapshot without the right MAC, and one of another topic, is passed over.
func TestForgedSnapshots(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	n.create(t)
	v := n.view.Load()
	if _, err := n.writeSnapshot(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	records := recordsFrom(t, n, 0)
	n.create(t)
	newer := n.view.Load()
	begin := endOf(t, n, snapshotLog)
	if _, err := n.writeSnapshot(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	forged := recordsFrom(t, n, begin)
	if err := n.reader.Trim(t.Context(), snapshotLog, endOf(t, n, snapshotLog)); err != nil {
		t.Fatal(err)
	}
	rewrite(t, n, records)
	foot := forged[len(forged)-1]
	for name, change := range map[string]func(*stream.Record){
		"no MAC":           func(r *stream.Record) { r.Headers = r.Headers[:1] },
		"a MAC of records": func(r *stream.Record) { r.Headers = r.Headers[:1:1]; n.auth.Load().sign(macRecord, r) },
	} {
		copied := &stream.Record{Key: foot.Key, Value: foot.Value, Headers: foot.Headers}
		change(copied)
		for _, r := range append(forged[:len(forged)-1:len(forged)-1], copied) {
			putRecord(t, conf, stream.ControlSnapshots, &stream.Record{Key: r.Key, Value: r.Value, Headers: r.Headers})
		}
		s, _, _, err := n.load(t.Context())
		if err != nil || s.seq != v.seq {
			t.Errorf("%s: loaded sequence %d, want %d, %v", name, s.seq, v.seq, err)
		}
	}
	strange := placedFoot{offset: 1}
	strange.Cluster, strange.Log, strange.Next, strange.Parts = "c", "one", 1, make([]snapshotPart, 1)
	if err := (logBounds{cluster: "c", topic: "another", logEnd: 1, snapEnd: 2}).usable(strange); err == nil {
		t.Error("a snapshot of a topic that was deleted is used")
	}
}

// TestForgedHeartbeats: who is not a node makes nobody live, and nobody leave; nor does a heartbeat of before.
func TestForgedHeartbeats(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := pair(t, conf, conf)
		other := *a.auth.Load()
		_, stranger := alone(t).newLogSecret()
		leaving := func(n *testNode) []byte {
			return mustJSON(t, heartbeat{Node: "b", Boot: n.boot, Next: 99, Leaving: true, At: time.Now()})
		}
		putRecord(t, conf, stream.Nodes, &stream.Record{Value: leaving(b)})
		putRecord(t, conf, stream.Nodes, stranger.sign(macHeartbeat, &stream.Record{Value: leaving(b)}))
		putRecord(t, conf, stream.Nodes, &stream.Record{Value: mustJSON(t, heartbeat{Node: "c", Boot: "boot_c", At: time.Now()})})
		// The goodbye of the process that ran before under the name, once more.
		old := heartbeat{Node: "b", Boot: "boot_before", Next: 99, At: time.Now().Add(-time.Minute)}
		putRecord(t, conf, stream.Nodes, other.sign(macHeartbeat, &stream.Record{Value: mustJSON(t, old)}))
		old.Leaving = true
		putRecord(t, conf, stream.Nodes, other.sign(macHeartbeat, &stream.Record{Value: mustJSON(t, old)}))
		time.Sleep(10 * time.Millisecond)
		if nodes := a.Nodes(); len(nodes) != 2 || nodes[0].Name != "a" || nodes[1].Name != "b" {
			t.Errorf("nodes %+v", nodes)
		}
		if n := testutil.ToFloat64(a.metrics.unauthentic.WithLabelValues(stream.Nodes)); n != 3 {
			t.Errorf("%v forged heartbeats are counted", n)
		}
	})
}

// TestRestartReplacesItsHeartbeats: the process that a node was before is not waited for.
func TestRestartReplacesItsHeartbeats(t *testing.T) {
	var p peers
	now := time.Now()
	p.note(heartbeat{Node: "a", Boot: "one", Next: 4, At: now}, now, time.Second)
	p.note(heartbeat{Node: "a", Boot: "two", Next: 9, At: now.Add(1)}, now, time.Second)
	if !p.reached(9, now, time.Second, "") || len(p.nodes) != 1 {
		t.Errorf("%+v", p.nodes)
	}
	p.note(heartbeat{Node: "a", Boot: "two", Next: 5, At: now.Add(2)}, now, time.Second) // a position is never taken back
	if !p.reached(9, now, time.Second, "") {
		t.Error("an old heartbeat counts")
	}
}

// TestOlderLogIsRefused: a log or a data directory of a version before is refused with one sentence, trimmed or not.
func TestOlderLogIsRefused(t *testing.T) {
	const older = `{"v":1,"op_id":"op_1","node":"old","kind":"account","id":"acc_1","pre":"absent","op":"put",` +
		`"value":{"id":"acc_1","created_at":"2026-01-01T00:00:00Z"},"at":"2026-01-01T00:00:00Z"}`
	refused := func(conf stream.Config) {
		t.Helper()
		if err := stoppedWith(t, start(t, conf, Config{Node: "a"})); !errors.Is(err, ErrOlderLog) {
			t.Errorf("stopped with %v", err)
		}
		c, err := Inspect(t.Context(), Config{Node: "inspector", Partitions: 1}, Deps{Stream: conf, Keyring: keyring(t)})
		if !errors.Is(err, ErrOlderLog) {
			t.Errorf("inspected: %v, %v", c, err)
		}
	}
	conf := broker(t)
	put(t, conf, stream.Control, older)
	refused(conf)

	// Its snapshot is there, and the log before it is gone.
	foot := &stream.Record{Value: []byte(`{"v":1,"first":0,"crc32c":1}`), Headers: []stream.Header{{Key: "part", Value: []byte(partFoot)}}}
	putRecord(t, conf, stream.ControlSnapshots, foot)
	reader, err := stream.NewReader(conf, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := reader.Trim(t.Context(), controlLog, 1); err != nil {
		t.Fatal(err)
	}
	refused(conf)
	for _, want := range []string{
		"relay config export --file config.json", "the same master keys", "master.keys", "mode 700", "RELAY_TOPIC_PREFIX",
		"relay config import config.json --unsigned",
	} {
		if !strings.Contains(ErrOlderLog.Error(), want) {
			t.Errorf("%v: want %q", ErrOlderLog, want)
		}
	}
}

// TestAnotherMasterKeyIsRefused: a node that cannot open the log's secret does not start, and says what to do; with the
// log from its beginning, and with a snapshot only.
func TestAnotherMasterKeyIsRefused(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	n.create(t)
	refused := func() {
		t.Helper()
		for spec, want := range map[string]string{
			GenerateMasterKey("other"): `sealed with the master key "test", and this node has other:`,
			GenerateMasterKey("test"):  `this node's master key "test" differs`,
		} {
			err := stoppedWith(t, start(t, conf, Config{Node: "b"}, withKeys(ring(t, spec))))
			if !errors.Is(err, ErrLogSecret) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "RELAY_MASTER_KEYS") {
				t.Errorf("stopped with %v", err)
			}
		}
	}
	refused()
	v := n.view.Load()
	if _, err := n.writeSnapshot(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if err := n.reader.Trim(t.Context(), controlLog, v.next); err != nil {
		t.Fatal(err)
	}
	refused()
	n.create(t)
}

// TestForeignFirstRecord: who writes before the first node does can make a log that nobody opens. The error says how to
// tell that from a lost master key, and what to do.
func TestForeignFirstRecord(t *testing.T) {
	conf := broker(t)
	foreign := alone(t)
	foreign.keyring = ring(t, GenerateMasterKey("foreign"))
	secret, own := foreign.newLogSecret()
	r := foreign.newRecord(&state{}, kindLog, logID, preAbsent, opPut)
	r.Value = mustJSON(t, secret)
	rec, err := foreign.encode(r, &own)
	if err != nil {
		t.Fatal(err)
	}
	putRecord(t, conf, stream.Control, rec)
	err = stoppedWith(t, start(t, conf, Config{Node: "a"}))
	const want = "add that key to RELAY_MASTER_KEYS. If this service never had another master key, somebody else " +
		"wrote the first record of the topic relay.control: let only the relay's principal write to it, delete the topic, and run relay migrate"
	if !errors.Is(err, ErrLogSecret) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("stopped with %v", err)
	}
}

// TestRewrapSealsTheLogSecret: afterwards a node with the new key alone starts, and one with the old key alone does not.
func TestRewrapSealsTheLogSecret(t *testing.T) {
	ctx, conf := t.Context(), broker(t)
	old, young := GenerateMasterKey("old"), GenerateMasterKey("young")
	node(t, conf, Config{Node: "a"}, withKeys(ring(t, old))).stop()
	n := node(t, conf, Config{Node: "a"}, withKeys(ring(t, young, old)))
	if done, err := n.Rewrap(ctx, func(Rewrap) {}); err != nil || done.Secrets != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	n.stop()
	node(t, conf, Config{Node: "b"}, withKeys(ring(t, young))).stop()
	if err := stoppedWith(t, start(t, conf, Config{Node: "c"}, withKeys(ring(t, old)))); !errors.Is(err, ErrLogSecret) {
		t.Errorf("stopped with %v", err)
	}
}

// TestNoSecretOfTheLogIsExported, nor anything that is sealed with it.
func TestNoSecretOfTheLogIsExported(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	sealed := n.codec.value(n.view.Load().sets[kindLog].newest()).(*LogSecret).Secret
	doc := exportOf(t, n)
	if bytes.Contains(doc, []byte(sealed)) || bytes.Contains(doc, []byte(`"kind":"log"`)) {
		t.Errorf("%s", doc)
	}
}

// TestNoLogBeginsBehindItsStart: when everything before is gone and no snapshot holds it, a node does not begin anew.
func TestNoLogBeginsBehindItsStart(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	if err := n.reader.Trim(context.Background(), controlLog, endOf(t, n, controlLog)); err != nil {
		t.Fatal(err)
	}
	n.stop()
	refusesToStart(t, n.stream)
}
