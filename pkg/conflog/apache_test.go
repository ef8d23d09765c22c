package conflog

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// TestApacheKafka checks with a real broker what the log relies on: offsets without gaps, end offsets that include
// acknowledged records, broker timestamps on heartbeats, and deletion of records.
func TestApacheKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an Apache Kafka")
	}
	ctx := t.Context()
	conf := stream.Config{Brokers: []string{kit.Kafka(t).Addr}, Prefix: id.Random("test.") + "."}
	must.Get(stream.Migrate(ctx, conf, 4, 1))(t)
	concurrentUpdates(t, conf)

	a, b := node(t, conf, Config{Node: "a"}), node(t, conf, Config{Node: "b"})
	text, k := a.createKey(t)
	must.Do(t, b.Sync(ctx))
	must.Do(t, b.authenticate(text))
	must.Do(t, a.revoke(ctx, k.ID))
	if err := b.authenticate(text); !errors.Is(err, errRevoked) && !errors.Is(err, ErrLease) {
		t.Fatalf("revoked on a, on b: %v", err)
	}

	must.Do(t, b.reader.Read(ctx, stream.Partition{Topic: stream.Nodes}, 0, func(r *stream.Record) error {
		is.Equal(t, r.Attrs.TimestampType(), logAppendTime, "a heartbeat without the broker's time")
		return stream.ErrStop
	}))
	if skew := a.ClockSkew().Abs(); skew > time.Second {
		t.Fatalf("the clock of a broker on the same machine is off by %s", skew)
	}

	e := a.create(t)
	v := a.view.Load()
	must.Get(a.writeSnapshot(ctx, v))(t)
	a.create(t)
	must.Do(t, a.reader.Trim(ctx, recordLog, v.nextOffset))
	want := stateText(t, a.Log)
	a.stop()
	a = node(t, conf, Config{Node: "a"})
	if got := a.get(e.ID); got == nil || got.Rev != e.Rev || !bytes.Equal(stateText(t, a.Log), want) {
		t.Fatal("the state differs after the restart from a snapshot")
	}
}
