package write

import (
	"bytes"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

// TestRevokedPartitionsFreeTheBatch: a batch whose partitions were all revoked is empty again. Full but without rows it
// would be neither flushed nor filled, and the writer would stop for ever.
func TestRevokedPartitionsFreeTheBatch(t *testing.T) {
	l := testLoader(WriterConfig{FlushRows: 100, FlushBytes: 1000})
	revoked, kept := &assignment{Partition: stream.Partition{Topic: stream.Events}},
		&assignment{Partition: stream.Partition{Topic: stream.Events, Index: 1}}
	records := func(size int) []*stream.Record { return []*stream.Record{{Value: bytes.Repeat([]byte("x"), size)}} }
	l.filling.addRecords(revoked, records(600), time.Now())
	l.filling.addRecords(kept, records(300), time.Now())
	l.filling.addRecords(revoked, records(600), time.Now())
	if !l.isFull() {
		t.Fatal("1,500 bytes do not fill a batch of 1,000")
	}
	l.filling.dropAssignments(map[*assignment]bool{revoked: true})
	if l.isFull() || l.filling.bytes != 300 {
		t.Errorf("after the larger partition is revoked, %d bytes are counted, want 300", l.filling.bytes)
	}
	l.filling.dropAssignments(map[*assignment]bool{kept: true})
	if !l.filling.empty() || l.filling.bytes != 0 {
		t.Errorf("the batch is empty, but %d bytes are counted", l.filling.bytes)
	}
}

// TestUsesAreNotStored: the use of a tripwire among the events makes no row, and does not stop the offset.
func TestUsesAreNotStored(t *testing.T) {
	made := must.Get(id.NewGenerator(nil).New(0))(t)
	e := &event.Event{ID: made, Endpoint: "trw_1", Source: event.SourceTripwire}
	x, b := &assignment{Partition: stream.Partition{Topic: stream.Events}}, newBatch(newSinks())
	b.addRecords(x, []*stream.Record{e.Record()}, time.Now())
	if b.rows != 0 || len(b.deadLetters) != 0 || b.ends[x].Offset != 1 {
		t.Errorf("%d rows, %d dead letters, read to %d", b.rows, len(b.deadLetters), b.ends[x].Offset)
	}
}
