package conflog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// forgedKeyRecord returns a record that would create an API key with that text.
func forgedKeyRecord(text string) string {
	hash := hashOf(text)
	value, _ := json.Marshal(Thing{ID: "key_x", Name: "x", Hash: hash[:]})
	return fmt.Sprintf(`{"v":1,"op_id":"op_x","kind":"key","id":"key_x","pre":"absent","op":"put","value":%s}`, value)
}

// appendAgain appends once more the records of the configuration log for which fits returns true, as an attacker who
// can read and write the topic would.
func appendAgain(t *testing.T, n *testNode, fits func(record) bool) (count int) {
	t.Helper()
	must.Do(t, n.readRange(t.Context(), recordLog, 0, endOf(t, n, recordLog), func(r *stream.Record) error {
		var old record
		if json.Unmarshal(r.Value, &old) != nil || !fits(old) {
			return nil
		}
		count++
		return n.producer.ProduceSync(
			t.Context(), stream.Control, 0, &stream.Record{Key: r.Key, Value: r.Value, Headers: r.Headers})
	}))
	return count
}

// TestForgedRecords: records that no node wrote change nothing and stop no node, neither a running nor a starting one.
func TestForgedRecords(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	e := n.create(t)
	text := "a text that nobody gave out"
	before := stateText(t, n.Log)
	otherSecret, other := (authenticator{offlineLog(t)}).newSecret()
	begin, _ := json.Marshal(record{
		V: recordVersion, OpID: "op_begin", Kind: "log", ID: LogID, Pre: preAbsent, Op: opPut, Value: otherSecret,
	})
	keys := *n.macKeys.Load()
	for _, forged := range []*stream.Record{
		{Value: []byte(`{"v":1}`)}, {Value: []byte(`{"v":99}`)}, {Value: []byte(`{`)}, {},
		{Value: []byte(forgedKeyRecord(text))},
		{Value: []byte(strings.Replace(forgedKeyRecord(text), `"v":1`, `"v":1`, 1))},
		{Value: []byte(forgedKeyRecord(text)), Headers: []stream.Header{{Key: macHeader, Value: []byte("x")}}},
		{Value: []byte(`{"v":1,"op_id":"op_gap","seq_seen":99,"kind":"key","id":"key_x","pre":"exists","op":"delete"}`)},
		{
			Value: []byte(fmt.Sprintf(
				`{"v":1,"op_id":"op_level","kind":"log","id":"level","pre":"none","op":"level","level":%d}`,
				newestLevel+1))},
		other.sign(macRecord, &stream.Record{Value: []byte(forgedKeyRecord(text))}),   // of another log
		other.sign(macRecord, &stream.Record{Value: begin}),                           // first record of another log
		keys.sign(macHeartbeat, &stream.Record{Value: []byte(forgedKeyRecord(text))}), // for another purpose
	} {
		putRecord(t, conf, stream.Control, forged)
	}
	transaction(t, conf, stream.Control, kgo.TryCommit)
	transaction(t, conf, stream.Control, kgo.TryAbort)
	transaction(t, conf, stream.ControlSnapshots, kgo.TryCommit)
	must.Do(t, n.Sync(t.Context()))
	if !bytes.Equal(stateText(t, n.Log), before) {
		t.Error("the configuration has changed")
	}
	counted := testutil.ToFloat64(n.metrics.unauthentic.WithLabelValues(stream.Control))
	if lines := strings.Count(n.log.String(), "without a valid MAC"); counted < 11 || lines != 1 {
		t.Errorf("counted %v records, logged %d lines", counted, lines)
	}
	must.Get(n.writeSnapshot(t.Context(), n.view.Load()))(t)
	putRecord(t, conf, stream.Control, &stream.Record{Value: []byte(`{"v":99}`)})
	for _, name := range []string{"b", "c"} { // with the snapshot, and without
		again := node(t, conf, Config{Node: name})
		is.ErrorIs(t, again.authenticate(text), errRevoked, "node %s accepts the key", name)
		if again.get(e.ID) == nil || !bytes.Equal(stateText(t, again.Log), before) {
			t.Errorf("node %s has a different configuration", name)
		}
		again.stop()
		must.Do(t, n.reader.Trim(t.Context(), snapshotLog, endOf(t, n, snapshotLog)))
	}
	n.create(t)
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw := must.Get(json.Marshal(v))(t)
	return raw
}

// transaction writes a record in a Kafka transaction, whose end marker takes an offset.
func transaction(t *testing.T, conf stream.Config, topic string, end kgo.TransactionEndTry) {
	t.Helper()
	cl := must.Get(kgo.NewClient(
		kgo.SeedBrokers(conf.Brokers...), kgo.TransactionalID("stranger"), kgo.RecordPartitioner(kgo.ManualPartitioner())))(t)
	defer cl.Close()
	must.Do(t, cl.BeginTransaction())
	must.Do(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: conf.Prefix + topic, Value: []byte(`{}`)}).
		FirstErr())
	must.Do(t, cl.EndTransaction(t.Context(), end))
}

// TestRepeatedRecords: a record that is appended again is refused, by nodes that have read the first one and by nodes
// that started from a snapshot after it.
func TestRepeatedRecords(t *testing.T) {
	conf := broker(t)
	ctx := t.Context()
	n := node(t, conf, Config{Node: "a"})
	user := must.Get(n.make(ctx, kindLater, "usr_gone"))(t)
	must.Get(n.Delete(ctx, kindLater, user.ID, 0))(t)
	e := n.create(t)
	account := n.account()
	must.Do(t, n.Adopt(ctx, kindAccount, "acc_other", []byte(`{"id":"acc_other"}`)))
	must.Do(t, n.Adopt(ctx, kindAccount, account, []byte(`{"id":"`+account+`"}`)))
	before := n.view.Load()
	if count := appendAgain(t, n, func(record) bool { return true }); count < 5 {
		t.Fatalf("only %d records: the test proves nothing", count)
	}
	check := func(n *testNode) {
		t.Helper()
		must.Do(t, n.Sync(ctx))
		if n.View().Len(kindLater) > 0 || n.get(e.ID) == nil || n.account() != account {
			t.Errorf("users %d, account %v, endpoint %v", n.View().Len(kindLater), n.account(), n.get(e.ID))
		}
	}
	check(n)
	v := n.view.Load()
	if v.seq == before.seq {
		t.Error("the repeated records were not read")
	}
	must.Get(n.writeSnapshot(ctx, v))(t)
	again := node(t, conf, Config{Node: "b"})
	is.Equal(t, again.view.Load().ops[0].Len, v.ops[0].Len, "op_ids from the snapshot")
	appendAgain(t, n, func(r record) bool { return r.Kind == "later" })
	check(again)
}

// TestOldRecordsAreRefused: the op_id of a record is known, or the record is too old.
func TestOldRecordsAreRefused(t *testing.T) {
	c := testParser()
	r := parsed(t, c, record{Kind: "account", ID: "x", Pre: preExists, Op: opDelete})
	s := newState(c.kinds)
	s.level = newestLevel
	noted := r
	for i := range 3 * opWindow {
		if i%1000 == 0 || i%opWindow < 2 {
			if _, got, err := apply(s, noted); i > 0 && got != repeated {
				t.Fatalf("after %d records the first one, repeated, is %s, %v", i, got, err)
			}
		}
		next := *s
		next.seq++
		op := noted.OpID
		if i > 0 {
			op = fmt.Sprint("op_", i)
		}
		next.rememberOp(op)
		s = &next
	}
	if n := s.ops[0].Len + s.ops[1].Len; n > 2*opWindow {
		t.Errorf("%d op_ids are stored", n)
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

// TestForgedSnapshots: a snapshot without a valid MAC, or of another topic, is not used.
func TestForgedSnapshots(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	n.create(t)
	v := n.view.Load()
	must.Get(n.writeSnapshot(t.Context(), v))(t)
	records := recordsFrom(t, n, 0)
	n.create(t)
	newer := n.view.Load()
	begin := endOf(t, n, snapshotLog)
	must.Get(n.writeSnapshot(t.Context(), newer))(t)
	forged := recordsFrom(t, n, begin)
	must.Do(t, n.reader.Trim(t.Context(), snapshotLog, endOf(t, n, snapshotLog)))
	rewrite(t, n, records)
	foot := forged[len(forged)-1]
	for name, change := range map[string]func(*stream.Record){
		"no MAC":           func(r *stream.Record) { r.Headers = r.Headers[:1] },
		"a MAC of records": func(r *stream.Record) { r.Headers = r.Headers[:1:1]; n.macKeys.Load().sign(macRecord, r) },
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
	strange := storedFooter{offset: 1}
	strange.Cluster, strange.Log, strange.NextOffset, strange.Parts = "c", "one", 1, make([]snapshotPart, 1)
	if err := (logBounds{cluster: "c", topic: "another", logEnd: 1, snapEnd: 2}).checkUsable(strange); err == nil {
		t.Error("a snapshot of a topic that was deleted is used")
	}
}

// TestForgedHeartbeats: forged and repeated heartbeats make no node living and make none leave.
func TestForgedHeartbeats(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := pair(t, conf, conf)
		other := *a.macKeys.Load()
		_, stranger := (authenticator{offlineLog(t)}).newSecret()
		leaving := func(n *testNode) []byte {
			return mustJSON(t, heartbeat{Node: "b", Boot: n.bootID, NextOffset: 99, Leaving: true, At: time.Now()})
		}
		putRecord(t, conf, stream.Nodes, &stream.Record{Value: leaving(b)})
		putRecord(t, conf, stream.Nodes, stranger.sign(macHeartbeat, &stream.Record{Value: leaving(b)}))
		putRecord(t, conf, stream.Nodes,
			&stream.Record{Value: mustJSON(t, heartbeat{Node: "c", Boot: "boot_c", At: time.Now()})})
		// The last heartbeat of the node's previous process, once more.
		old := heartbeat{Node: "b", Boot: "boot_before", NextOffset: 99, At: time.Now().Add(-time.Minute)}
		putRecord(t, conf, stream.Nodes, other.sign(macHeartbeat, &stream.Record{Value: mustJSON(t, old)}))
		old.Leaving = true
		putRecord(t, conf, stream.Nodes, other.sign(macHeartbeat, &stream.Record{Value: mustJSON(t, old)}))
		time.Sleep(10 * time.Millisecond)
		if nodes := a.Nodes(); len(nodes) != 2 || nodes[0].Name != "a" || nodes[1].Name != "b" {
			t.Errorf("nodes %+v", nodes)
		}
		is.Equal(t, testutil.ToFloat64(a.metrics.unauthentic.WithLabelValues(stream.Nodes)), 3,
			"counted … forged heartbeats")
	})
}

// TestRestartReplacesItsHeartbeats: writers do not wait for the previous process of a restarted node.
func TestRestartReplacesItsHeartbeats(t *testing.T) {
	var p peers
	now := time.Now()
	p.record(heartbeat{Node: "a", Boot: "one", NextOffset: 4, At: now}, now, time.Second)
	p.record(heartbeat{Node: "a", Boot: "two", NextOffset: 9, At: now.Add(1)}, now, time.Second)
	if !p.allReached(9, now, time.Second, "") || len(p.nodes) != 1 {
		t.Errorf("%+v", p.nodes)
	}
	// a position never decreases
	p.record(heartbeat{Node: "a", Boot: "two", NextOffset: 5, At: now.Add(2)}, now, time.Second)
	if !p.allReached(9, now, time.Second, "") {
		t.Error("an old heartbeat counts")
	}
}

// TestNoLogBeginsBehindItsStart: when the first records are gone and no snapshot covers them, a node does not start a
// new log.
func TestNoLogBeginsBehindItsStart(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	must.Do(t, n.reader.Trim(context.Background(), recordLog, endOf(t, n, recordLog)))
	n.stop()
	refusesToStart(t, n.stream)
}
