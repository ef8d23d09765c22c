package conflog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Every node reaches the same result for records at each level of the log.
func TestLevelGatesKinds(t *testing.T) {
	c := testParser()
	account := record{Kind: "account", ID: "acc_1", Pre: preAbsent, Op: opPut, Value: json.RawMessage(`{"id":"acc_1"}`)}
	run := record{Kind: "run", ID: "run_1", Pre: preAbsent, Op: opPut, Value: json.RawMessage(`{"id":"run_1"}`)}
	raise := func(level int) record {
		return record{Kind: "log", ID: "level", Pre: preNone, Op: opLevel, Level: level}
	}
	at := func(r record, level int) record { r.Level = level; return r }
	type step struct {
		record record
		want   result
		level  int
	}
	for name, steps := range map[string][]step{
		"a log of an older version": {
			{account, applied, 1}, {run, early, 1}, {raise(1), conflict, 1}, {raise(2), applied, 2}, {run, applied, 2},
			{raise(2), conflict, 2},
		},
		"a new log":                     {{at(account, 2), applied, 2}, {run, applied, 2}},
		"only the first record sets it": {{account, applied, 1}, {at(run, 2), early, 1}, {at(run, 99), early, 1}},
		"an invalid first record":       {{record{Kind: "comet", ID: "x", Level: 2}, invalid, 2}, {run, applied, 2}},
	} {
		s := newState(testParser().kinds)
		for i, step := range steps {
			next, got, err := apply(s, parsed(t, c, step.record))
			if err != nil || got != step.want || next.level != step.level || next.seq != int64(i+1) {
				t.Errorf("%s, record %d: %v at level %d, sequence %d, %v; want %v at %d", name, i, got, next.level, next.seq, err,
					step.want, step.level)
			}
			if stored := next.sets[kindRun].bySeq.Len; got == early && stored != 0 {
				t.Errorf("%s, record %d: a record above the level was stored", name, i)
			}
			s = next
		}
	}
	old, _, _ := apply(newState(testParser().kinds), parsed(t, c, account))
	for name, r := range map[string]record{
		"raised beyond": raise(newestLevel + 1), "begun beyond": at(account, newestLevel+1)} {
		s := old
		if r.Op != opLevel {
			s = newState(testParser().kinds)
		}
		if next, _, err := apply(s, parsed(t, c, r)); err == nil || next != s {
			t.Errorf("%s what this program knows: %v", name, err)
		}
	}
}

// putRecord appends a record as another program would.
func putRecord(t *testing.T, conf stream.Config, topic string, r *stream.Record) {
	t.Helper()
	p := must.Get(stream.NewProducer(conf, "test"))(t)
	defer p.Close()
	must.Do(t, p.ProduceSync(t.Context(), topic, 0, r))
}

// oldLog returns a log that a program of level 1 has started, and its MAC keys.
func oldLog(t *testing.T) (stream.Config, macKeys) {
	t.Helper()
	conf := broker(t)
	return conf, startOldLog(t, conf)
}

func startOldLog(t *testing.T, conf stream.Config) macKeys {
	t.Helper()
	secret, own := (authenticator{offlineLog(t)}).newSecret()
	firstRecord := fmt.Sprintf(`{"v":1,"op_id":"op_0","node":"old","kind":"log","id":"log","pre":"absent","op":"put",`+
		`"level":1,"value":%s,"at":"2026-01-01T00:00:00Z"}`, secret)
	putSigned(t, conf, *own, macRecord, firstRecord)
	putSigned(t, conf, *own, macRecord, `{"v":1,"op_id":"op_1","seq_seen":1,"node":"old","kind":"account","id":"acc_1",`+
		`"pre":"absent","op":"put","value":{"id":"acc_1","created_at":"2026-01-01T00:00:00Z"},"at":"2026-01-01T00:00:00Z"}`)
	return *own
}

// putSigned appends a record with a valid MAC.
func putSigned(t *testing.T, conf stream.Config, own macKeys, p purpose, text string) {
	t.Helper()
	topic := map[purpose]string{macRecord: stream.Control, macHeartbeat: stream.Nodes}[p]
	putRecord(t, conf, topic, own.sign(p, &stream.Record{Key: []byte("x"), Value: []byte(text)}))
}

// finalize does what relay migrate --finalize does.
func finalize(t *testing.T, conf stream.Config) (before int, err error) {
	t.Helper()
	l := newTestLog(t, conf, Config{Node: "finalize"}, nil)
	if err := l.Inspect(t.Context()); err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Finalize(t.Context())
}

// On a log of an older level a node refuses newer kinds and says which command to run. Finalize fails while an older
// node is living. Afterwards the running node works at the new level, and so does one that starts from a snapshot.
func TestLevelIsRaisedByFinalize(t *testing.T) {
	conf, own := oldLog(t)
	n := node(t, conf, Config{Node: "a"})
	n.create(t)
	addRun := func() error {
		_, err := n.Create(t.Context(), kindRun, "run_1", []byte(`{"id":"run_1"}`))
		return err
	}
	seq := n.view.Load().seq
	if err := addRun(); !errors.Is(err, ErrLevel) ||
		!strings.Contains(err.Error(), "run needs level 2, the log is at 1") ||

		!strings.Contains(err.Error(), "relay migrate --finalize") {
		t.Fatalf("a run on a log of level 1: %v", err)
	}
	must.Equal(t, n.view.Load().seq, seq, "a refused record was written: sequence: after %d", seq)
	if now, newest := n.Level(); now != 1 || newest != newestLevel {
		t.Fatalf("level %d of %d", now, newest)
	}

	putSigned(t, conf, own, macHeartbeat, `{"node":"old","boot":"b","position":1,"at":"`+
		time.Now().UTC().Format(time.RFC3339)+`","version":"0.9"}`)
	if before, err := finalize(t, conf); !errors.Is(err, ErrLevel) || before != 1 ||
		!strings.Contains(err.Error(), "node old (version 0.9)") || strings.Contains(err.Error(), "node a") {
		t.Fatalf("finalized with an old node: from %d, %v", before, err)
	}
	putSigned(t, conf, own, macHeartbeat, `{"node":"old","boot":"b","position":1,"leaving":true,"at":"`+
		time.Now().UTC().Format(time.RFC3339)+`","version":"0.9"}`)
	must.Equal(t, must.Get(finalize(t, conf))(t), 1, "finalized from")
	must.Do(t, n.Sync(t.Context()))
	must.Do(t, addRun(), "a run after it")
	seq = n.view.Load().seq
	must.Equal(t, must.Get(finalize(t, conf))(t), newestLevel, "finalized again from")
	if err := n.Sync(t.Context()); err != nil || n.view.Load().seq != seq {
		t.Fatalf("finalizing again wrote a record: %v", err)
	}

	must.Get(n.writeSnapshot(t.Context(), n.view.Load()))(t)
	n.create(t)
	b := node(t, conf, Config{Node: "b"})
	if now, _ := b.Level(); now != newestLevel {
		t.Errorf("from a snapshot: level %d", now)
	}
	if b.View().FindLiving(kindRun, "run_1") == nil {
		t.Error("from a snapshot: the run is missing")
	}
}

// A new log starts at the newest level, an empty log needs no Finalize, and a node that is alone raises the level
// itself.
func TestLevelOfNewLogs(t *testing.T) {
	conf := broker(t)
	must.Equal(t, must.Get(finalize(t, conf))(t), 0, "an empty log: from")
	n := node(t, conf, Config{Node: "a"})
	if now, _ := n.Level(); now != newestLevel {
		t.Errorf("a new log has level %d", now)
	}
	old, _ := oldLog(t)
	alone := node(t, old, Config{Node: "a", SingleNode: true})
	if now, _ := alone.Level(); now != newestLevel {
		t.Errorf("alone on an old log: level %d", now)
	}
}

// A log above the level that a program supports stops its nodes, and they do not start again.
func TestLevelAboveTheProgramStopsTheNode(t *testing.T) {
	conf, own := oldLog(t)
	n := node(t, conf, Config{Node: "a"})
	putSigned(t, conf, own, macRecord,
		fmt.Sprintf(`{"v":1,"op_id":"op_2","seq_seen":2,"node":"new","kind":"account","id":"level","pre":"none",`+
			`"op":"level","level":%d,"at":"2026-01-01T00:00:00Z"}`, newestLevel+1))
	<-n.stopped
	again := start(t, conf, Config{Node: "a"})
	<-again.stopped
	for _, err := range []error{n.stop(), again.stop()} {
		is.Failed(t, err, fmt.Sprintf("level %d, this version supports up to %d", newestLevel+1, newestLevel),
			"stopped with")
	}
	if _, err := finalize(t, conf); err == nil {
		t.Error("finalized a log of a newer program")
	}
}
