package conflog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func snapshotsWritten(n *testNode) float64 {
	return testutil.ToFloat64(n.metrics.snapshots.WithLabelValues("written"))
}

// ownerWrites makes n the owner and waits, in a bubble, for the snapshot that is due. The owner may write one at once.
func ownerWrites(t testing.TB, n *testNode) {
	t.Helper()
	before := snapshotsWritten(n)
	n.SetOwner(true)
	time.Sleep(10 * n.timing.SnapshotCheckInterval)
	if snapshotsWritten(n) == before {
		t.Fatalf("no snapshot:\n%s", n.log)
	}
}

// snapshotOften makes a node check often whether a snapshot is due, and write many small chunks.
func snapshotOften(c *Log) {
	c.timing.SnapshotCheckInterval = 10 * time.Millisecond
	c.chunkSize = 600
}

// TestRestartFromSnapshot starts a node from a snapshot whose records were deleted from the log.
func TestRestartFromSnapshot(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		n := node(t, conf, Config{Node: "a", SnapshotEvery: 10}, snapshotOften)
		first := n.create(t)
		deleted := n.create(t)
		must.Do(t, n.remove(ctx, deleted.ID))
		text, _ := n.createKey(t)
		for range 8 {
			n.create(t)
		}
		time.Sleep(10 * n.timing.SnapshotCheckInterval)
		must.Equal(t, snapshotsWritten(n), 0, "a node that is not the owner wrote a snapshot")
		ownerWrites(t, n)
		next := n.view.Load().nextOffset
		last := n.create(t) // only in the log
		must.Do(t, n.reader.Trim(ctx, recordLog, next))
		want := stateText(t, n.Log)
		must.Do(t, n.stop())
		n = node(t, conf, Config{Node: "a"})
		if !bytes.Equal(stateText(t, n.Log), want) {
			t.Fatal("the state differs after the restart")
		}
		if got := thing(n.parser, n.View().FindByHash(kindEndpoint, hashOf("tok_"+first.ID))); got == nil ||
			got.Rev != first.Rev || got.Seq != first.Seq {
			t.Fatalf("endpoint of the snapshot: %+v", got)
		}
		if got := n.get(last.ID); got == nil || got.Rev != last.Rev {
			t.Fatalf("endpoint of the log: %+v", got)
		}
		if e := n.View().Find(kindEndpoint, deleted.ID); e == nil || e.Living() {
			t.Fatalf("tombstone: %+v", e)
		}
		must.Do(t, n.authenticate(text))
		checkIndexes(t, n.parser, n.view.Load().state)
	})
}

// TestTornSnapshots cuts the newest snapshot after each of its records, omits each record, and alters each record:
// every time the node loads the snapshot before it.
func TestTornSnapshots(t *testing.T) {
	ctx := t.Context()
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"}, snapshotOften)
	for range 12 {
		n.create(t)
	}
	whole := n.view.Load()
	must.Get(n.writeSnapshot(ctx, whole))(t)
	n.create(t)
	newer := n.view.Load()
	begin := endOf(t, n, snapshotLog)
	must.Get(n.writeSnapshot(ctx, newer))(t)
	records := recordsFrom(t, n, begin)
	if len(records) < 5 {
		t.Fatalf("only %d records: the test proves nothing", len(records))
	}
	must.Do(t, n.reader.Trim(ctx, snapshotLog, begin))
	loaded := func() int64 {
		t.Helper()
		s, _, _, err := n.load(ctx)
		must.Do(t, err)
		return s.seq
	}
	if got := loaded(); got != newer.seq {
		t.Fatalf("loaded %d, want the newer %d", got, newer.seq)
	}
	again := func(name string, records []*stream.Record) {
		t.Helper()
		before := must.Get(n.writeSnapshot(ctx, whole))(t)
		// The torn snapshots so far would use up the number of tries.
		must.Do(t, n.reader.Trim(ctx, snapshotLog, before.Parts[0].Offset))
		rewrite(t, n, records)
		must.Equal(t, loaded(), whole.seq, "%s: loaded sequence", name)
	}
	for i := range records {
		again("cut", records[:i])
		if i < len(records)-1 {
			replaced := slices.Clone(records)
			replaced[i] = foreignRecord(records[i])
			again("replaced", replaced)
			altered := slices.Clone(records)
			altered[i] = &stream.Record{Key: records[i].Key, Value: bytes.Clone(records[i].Value), Headers: records[i].Headers}
			if partOf(records[i]) == partHeader { // still valid JSON: only the checksum differs
				altered[i].Value[len(`{"ops":["`)] ^= 'A' ^ 'B'
			} else {
				altered[i].Value[len(altered[i].Value)/2] ^= 1
			}
			again("altered", altered)
		}
	}
	// Complete again, with foreign records under its key in between.
	rewrite(t, n, slices.Insert(
		slices.Clone(records), 1, foreignRecord(records[0]), foreignRecord(records[1]), records[0], records[2]))
	must.Equal(t, loaded(), newer.seq, "complete again: loaded")
}

// foreignRecord returns a foreign record with the key and headers of a part.
func foreignRecord(r *stream.Record) *stream.Record {
	return &stream.Record{Key: r.Key, Value: []byte("strange"), Headers: r.Headers}
}

func endOf(t *testing.T, n *testNode, p stream.Partition) int64 {
	t.Helper()
	ends := must.Get(n.reader.Ends(t.Context(), p.Topic))(t)
	return ends[p]
}

func recordsFrom(t *testing.T, n *testNode, from int64) (records []*stream.Record) {
	t.Helper()
	must.Do(t, n.readRange(t.Context(), snapshotLog, from, endOf(t, n, snapshotLog), func(r *stream.Record) error {
		records = append(records, r)
		return nil
	}))
	return records
}

// rewrite appends the records of a snapshot again, with a footer that names their new offsets. For a part that occurs
// several times it names the last one. A foreign record counts as a part if one is missing at the end.
func rewrite(t *testing.T, n *testNode, records []*stream.Record) {
	t.Helper()
	var at []int64 // offsets of possible parts
	for i, r := range records {
		copied := &stream.Record{Key: r.Key, Value: bytes.Clone(r.Value), Headers: r.Headers}
		if partOf(r) == partFooter { // signed, so that only the content is wrong
			var footer snapshotFooter
			must.Do(t, json.Unmarshal(r.Value, &footer))
			extra := i - len(footer.Parts) // these stand in between, after the first
			at = slices.Delete(at, 1, 1+extra)
			for part := range footer.Parts {
				footer.Parts[part].Offset = at[part]
			}
			copied.Value, copied.Headers = mustJSON(t, footer), r.Headers[:1:1]
			n.macKeys.Load().sign(macSnapshot, copied)
		}
		must.Do(t, n.producer.ProduceSync(t.Context(), stream.ControlSnapshots, 0, copied))
		at = append(at, copied.Offset)
	}
}

// TestSnapshotOfAnotherCluster: its offsets do not apply to this log. A complete log replaces it; a trimmed log is
// refused.
func TestSnapshotOfAnotherCluster(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	e := n.create(t)
	view := n.view.Load()
	must.Get(n.writeSnapshot(ctx, view))(t)
	other := broker(t, kfake.ClusterID("other"))
	mirror(t, n, other, func(r *stream.Record) bool { return true })
	m := node(t, other, Config{Node: "b"})
	if got := m.get(e.ID); got == nil || !strings.Contains(m.log.String(), "belongs to cluster") {
		t.Fatalf("endpoint %v, log:\n%s", got, m.log)
	}
}

// mirror copies the records of the log and the snapshots for which pass returns true to another cluster.
func mirror(t *testing.T, n *testNode, to stream.Config, pass func(*stream.Record) bool) {
	t.Helper()
	p := must.Get(stream.NewProducer(to, "mirror"))(t)
	defer p.Close()
	for _, part := range []stream.Partition{recordLog, snapshotLog} {
		end := endOf(t, n, part)
		if end == 0 {
			continue
		}
		must.Do(t, n.reader.Read(t.Context(), part, 0, func(r *stream.Record) error {
			if pass(r) {
				copied := &stream.Record{Key: r.Key, Value: r.Value, Headers: r.Headers}
				if err := p.ProduceSync(t.Context(), part.Topic, 0, copied); err != nil {
					return err
				}
			}
			if r.Offset == end-1 {
				return stream.ErrStop
			}
			return nil
		}))
	}
}

// TestGapInTheLogRefusesToStart omits one record, or deletes the first ones without a snapshot.
func TestGapInTheLogRefusesToStart(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	for range 4 {
		n.create(t)
	}
	for _, missing := range []int64{0, 2} {
		other := broker(t)
		mirror(t, n, other, func(r *stream.Record) bool { return r.Offset != missing })
		refusesToStart(t, other)
	}
	conf := n.stream
	must.Do(t, n.reader.Trim(t.Context(), recordLog, 3))
	n.stop()
	refusesToStart(t, conf)
}

// TestLogShorterThanSnapshot: the end of the log is lost.
func TestLogShorterThanSnapshot(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	for range 3 {
		n.create(t)
	}
	must.Get(n.writeSnapshot(t.Context(), n.view.Load()))(t)
	bounds := logBounds{cluster: "c", topic: "t", logEnd: 9, snapStart: 3, snapEnd: 20}
	footer := storedFooter{offset: 9}
	footer.Cluster, footer.Log, footer.NextOffset, footer.Parts = "c", "t", 10, []snapshotPart{{Offset: 3}, {Offset: 7}}
	must.ErrorIs(t, bounds.checkUsable(footer), errGap, "snapshot beyond the log")
	bounds.logStart, bounds.logEnd = 11, 20
	must.ErrorIs(t, bounds.checkUsable(footer), errGap, "log begins after the snapshot")
	bounds.logStart, bounds.logEnd = 10, 10
	must.Do(t, bounds.checkUsable(footer))
	for _, offsets := range [][]int64{{}, {2, 7}, {7, 3}, {3, 3}, {3, 9}, {3, 12}} {
		footer.Parts = nil
		for _, at := range offsets {
			footer.Parts = append(footer.Parts, snapshotPart{Offset: at})
		}
		is.ErrorIs(t, bounds.checkUsable(footer), errTorn, "parts at %v", offsets)
	}
}

func refusesToStart(t *testing.T, conf stream.Config) {
	t.Helper()
	n := start(t, conf, Config{Node: "b"})
	select {
	case <-n.stopped:
		must.ErrorIs(t, n.stop(), errGap, "stopped with")
	case <-n.Ready():
		t.Fatal("the node is ready although a record is missing")
	case <-time.After(2 * time.Minute):
		t.Fatal("the node neither stopped nor became ready")
	}
}

// TestSnapshotAfterTheInterval: a snapshot is written some time after a change, and none without changes. Records that
// three snapshots do not need are deleted.
func TestSnapshotAfterTheInterval(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		n := node(t, conf, Config{Node: "a"}, func(c *Log) {
			c.timing.HeartbeatInterval, c.timing.SnapshotInterval = 4*time.Second, time.Minute
		})
		n.SetOwner(true)
		f := func(wait time.Duration, want float64) {
			t.Helper()
			time.Sleep(wait)
			must.Equal(t, snapshotsWritten(n), want, "snapshots")
		}
		f(45*time.Second, 0)
		f(25*time.Second, 1) // the account
		f(4*time.Minute, 1)
		for i := range 4 {
			n.create(t)
			f(75*time.Second, float64(2+i))
		}
		starts := must.Get(n.reader.Starts(t.Context(), stream.Control, stream.ControlSnapshots))(t)
		// Five snapshots after 3, 5, 7, 9 and 11 records: the first one, then one for each change and the record that
		// removes it from the outbox. The third is the oldest that is kept.
		if starts[recordLog] != 7 || starts[snapshotLog] != 6 {
			t.Fatalf("log begins at %v", starts)
		}
		want := stateText(t, n.Log)
		n.stop()
		n = node(t, conf, Config{Node: "a"})
		if !bytes.Equal(stateText(t, n.Log), want) {
			t.Fatal("the state differs after the restart")
		}
	})
}

// TestFailedAppendFindsItsRecord: the append returns an error, but the record is in the log.
func TestFailedAppendFindsItsRecord(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	failed := errors.New("connection lost")
	found := n.pendingWrites.expect("op_elsewhere")
	if _, err := (writer{n.Log}).resolveFailedAppend(t.Context(), found, failed); !errors.Is(err, ErrUnavailable) ||
		!errors.Is(err, failed) {
		t.Fatalf("record that is not in the log: %v", err)
	}
	rec := n.macKeys.Load().sign(macRecord, &stream.Record{
		Value: []byte(
			`{"v":1,"op_id":"op_elsewhere","seq_seen":1,"kind":"endpoint","id":"ep_1","pre":"exists","op":"delete"}`),
	})
	must.Do(t, n.producer.ProduceSync(t.Context(), stream.Control, 0, rec))
	if res, err := (writer{n.Log}).resolveFailedAppend(t.Context(), found, failed); err != nil || res.result != conflict ||
		res.nextOffset != rec.Offset+1 {
		t.Fatalf("record that is in the log: %+v, %v", res, err)
	}
	full, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (writer{n.Log}).resolveFailedAppend(full, found, stream.ErrBufferFull); !errors.Is(
		err, stream.ErrBufferFull) {
		t.Fatalf("full buffer: %v", err)
	}
}

// TestOffsetGapStopsTheNode: a record has a skipped or repeated offset.
func TestOffsetGapStopsTheNode(t *testing.T) {
	c := offlineLog(t)
	c.publish(newState(testParser().kinds), 7)
	for _, offset := range []int64{6, 8} {
		must.ErrorIs(t, c.applyRecord(&stream.Record{Offset: offset}), errGap, "offset %d after 6", offset)
	}
	must.Do(t, c.applyRecord(&stream.Record{Offset: 7}))
}

// appendCopies appends copies of a record to the snapshots, as fast as the broker accepts them.
func appendCopies(t *testing.T, conf stream.Config, copies int, records ...*stream.Record) {
	t.Helper()
	cl := must.Get(kgo.NewClient(kgo.SeedBrokers(conf.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DefaultProduceTopic(conf.Prefix+stream.ControlSnapshots), kgo.MaxBufferedRecords(copies*len(records))))(t)
	defer cl.Close()
	var all []*kgo.Record
	for range copies {
		for _, r := range records {
			all = append(all, &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers})
		}
	}
	must.Do(t, cl.ProduceSync(t.Context(), all...).FirstErr())
}

// footerRecord returns the footer record of a snapshot.
func footerRecord(t *testing.T, n *testNode, f storedFooter) *stream.Record {
	t.Helper()
	records := recordsFrom(t, n, f.offset)
	must.Equal(t, partOf(records[0]), partFooter, "no footer")
	return records[0]
}

func writeTestSnapshot(t *testing.T, n *testNode) storedFooter {
	t.Helper()
	f := must.Get(n.writeSnapshot(t.Context(), n.view.Load()))(t)
	return f
}

// TestRepeatedFooters: a footer that is appended thousands of times, among other records with its key, names the same
// parts and is checked once. An unusable one is not loaded.
func TestRepeatedFooters(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	n.create(t)
	trimmed := writeTestSnapshot(t, n)
	footer := footerRecord(t, n, trimmed)
	want := n.create(t)
	newer := writeTestSnapshot(t, n)
	for name, copies := range map[string][]*stream.Record{
		"usable": {footerRecord(t, n, newer), foreignRecord(footerRecord(t, n, newer)),
			foreignRecord(recordsFrom(t, n, newer.Parts[1].Offset)[0])},
		"unusable": {footer, foreignRecord(footer)},
	} {
		t.Run(name, func(t *testing.T) {
			must.Do(t, n.reader.Trim(t.Context(), snapshotLog, newer.Parts[0].Offset))
			appendCopies(t, conf, 3000, copies...)
			if _, _, from, err := n.load(t.Context()); err != nil || from.Seq != newer.Seq {
				t.Errorf("loaded the snapshot of sequence %d, want %d: %v", from.Seq, newer.Seq, err)
			}
			began := kit.CPUTime(t)
			b := start(t, conf, Config{Node: "b"})
			defer b.stop()
			select {
			case <-b.Ready():
			case <-time.After(2 * time.Minute):
				t.Fatal("not ready")
			}
			if took := kit.CPUTime(t) - began; took > 5*time.Second {
				t.Errorf("ready after %s of processor time", took)
			}
			if got := b.get(want.ID); got == nil || b.view.Load().seq < newer.Seq {
				t.Error("the endpoint is missing")
			}
			if lines := strings.Count(b.log.String(), "cannot use a snapshot"); lines > 1 {
				t.Errorf("%d warnings", lines)
			}
		})
	}
}

// TestLoadsAreBounded: of many snapshots whose parts do not match their footers, only a few are tried and logged.
func TestLoadsAreBounded(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	e := n.create(t)
	f := writeTestSnapshot(t, n)
	records := recordsFrom(t, n, f.Parts[0].Offset)
	must.Do(t, n.reader.Trim(t.Context(), snapshotLog, endOf(t, n, snapshotLog)))
	for range 3 * maxFailedLoads {
		torn := append([]*stream.Record{foreignRecord(records[0])}, records[1:]...)
		rewrite(t, n, torn)
	}
	b := node(t, conf, Config{Node: "b"})
	if b.get(e.ID) == nil {
		t.Error("the endpoint is not there")
	}
	is.Equal(t, strings.Count(b.log.String(), "cannot use a snapshot"), maxFailedLoads, "snapshots were tried")
	// Snapshots that do not fit the log are logged a few times only.
	for i := range 3 * maxLoggedSkips {
		footer := f.snapshotFooter
		footer.Cluster = fmt.Sprint("other ", i)
		r := &stream.Record{Value: mustJSON(t, footer), Headers: []stream.Header{{Key: "part", Value: []byte(partFooter)}}}
		putRecord(t, conf, stream.ControlSnapshots, n.macKeys.Load().sign(macSnapshot, r))
	}
	c := node(t, conf, Config{Node: "c"})
	is.Equal(t, strings.Count(c.log.String(), "cannot use a snapshot"), maxLoggedSkips, "warnings")
}

// TestNewestStateOfSeveralFooters: an older footer that is appended after a newer one does not win.
func TestNewestStateOfSeveralFooters(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	older := writeTestSnapshot(t, n)
	n.create(t)
	appendCopies(t, conf, 8, foreignRecord(footerRecord(t, n, older))) // the first window of the search does not reach it
	newer := writeTestSnapshot(t, n)
	putRecord(t, conf, stream.ControlSnapshots, footerRecord(t, n, older))
	if s, _, _, err := n.load(t.Context()); err != nil || s.seq != newer.Seq {
		t.Errorf("loaded sequence %d, want %d: %v", s.seq, newer.Seq, err)
	}
}

// TestTrimKeepsAReadableSnapshot: the log before a snapshot is kept while that snapshot cannot be read back, for
// whatever reason.
func TestTrimKeepsAReadableSnapshot(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	var kept []storedFooter
	for range keptSnapshots + 2 {
		n.create(t)
		kept = append(kept, writeTestSnapshot(t, n))
	}
	logStart := func() int64 {
		t.Helper()
		starts := must.Get(n.reader.Starts(t.Context(), stream.Control))(t)
		return starts[recordLog]
	}
	torn := kept[1]
	torn.Parts = append([]snapshotPart{}, torn.Parts...)
	torn.Parts[1].SHA256 = make([]byte, 32)
	noFooter := kept[1]
	noFooter.offset--
	for name, oldest := range map[string]storedFooter{"torn": torn, "no footer": noFooter} {
		remaining := (snapshots{n.Log}).trim(t.Context(), []storedFooter{kept[0], oldest, kept[2], kept[3]})
		if len(remaining) != 2 || remaining[0].offset != kept[2].offset || logStart() != 0 {
			t.Errorf("%s: %d snapshots are kept, the log begins at %d", name, len(remaining), logStart())
		}
	}
	if remaining := (snapshots{n.Log}).trim(t.Context(), kept); len(remaining) != keptSnapshots ||
		logStart() != kept[2].NextOffset {
		t.Errorf("%d snapshots are kept, the log begins at %d, want %d", len(remaining), logStart(), kept[2].NextOffset)
	}
}

// TestOnlyAppliedRecordsAreCounted: repeated records, which apply refuses, trigger no snapshot before an hour has
// passed.
func TestOnlyAppliedRecordsAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		n := node(t, conf, Config{Node: "a", SnapshotEvery: 20}, snapshotOften, func(c *Log) {
			c.timing.HeartbeatInterval, c.timing.SnapshotInterval = 4*time.Second, time.Minute
		})
		n.SetOwner(true)
		n.create(t)
		time.Sleep(10 * n.timing.SnapshotCheckInterval)
		before := snapshotsWritten(n)
		for range 10 {
			appendAgain(t, n, func(r record) bool { return r.Kind == "endpoint" && r.Op == opPut })
		}
		seq := n.view.Load().seq
		time.Sleep(10 * n.timing.SnapshotCheckInterval)
		if snapshotsWritten(n) != before || seq < 30 {
			t.Errorf("%v snapshots at sequence %d", snapshotsWritten(n)-before, seq)
		}
		time.Sleep(n.timing.SnapshotInterval)
		if got := snapshotsWritten(n); got != before+1 {
			t.Errorf("%v snapshots after the interval", got-before)
		}
	})
}
