package conflog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

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
