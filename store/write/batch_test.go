package write

import (
	"bytes"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// TestRevokedPartitionsFreeTheBatch: a batch whose partitions were all revoked is empty again. Full but without rows it
// would be neither flushed nor filled, and the writer would stop for ever.
func TestRevokedPartitionsFreeTheBatch(t *testing.T) {
	w := &Writer{cfg: WriterConfig{FlushRows: 100, FlushBytes: 1000}, filling: newBatch()}
	revoked, kept := &assignment{Partition: stream.Partition{Topic: stream.Events}},
		&assignment{Partition: stream.Partition{Topic: stream.Events, Index: 1}}
	records := func(size int) []*stream.Record { return []*stream.Record{{Value: bytes.Repeat([]byte("x"), size)}} }
	w.filling.addRecords(revoked, records(600), time.Now())
	w.filling.addRecords(kept, records(300), time.Now())
	w.filling.addRecords(revoked, records(600), time.Now())
	if !w.isFull() {
		t.Fatal("1,500 bytes do not fill a batch of 1,000")
	}
	w.filling.dropAssignments(map[*assignment]bool{revoked: true})
	if w.isFull() || w.filling.bytes != 300 {
		t.Errorf("after the larger partition is revoked, %d bytes are counted, want 300", w.filling.bytes)
	}
	w.filling.dropAssignments(map[*assignment]bool{kept: true})
	if !w.filling.empty() || w.filling.bytes != 0 {
		t.Errorf("the batch is empty, but %d bytes are counted", w.filling.bytes)
	}
}
