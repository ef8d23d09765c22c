package write

import (
	"bytes"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// A batch whose partitions have left is as empty as a new one: full and without a row it would neither be
// written nor filled again, and the writer would stand still for ever.
func TestPartitionsThatLeaveMakeRoom(t *testing.T) {
	w := &Writer{cfg: WriterConfig{FlushRows: 100, FlushBytes: 1000}, filling: newBatch()}
	leaves, stays := &assignment{Partition: stream.Partition{Topic: stream.Events}},
		&assignment{Partition: stream.Partition{Topic: stream.Events, Index: 1}}
	records := func(size int) []*stream.Record { return []*stream.Record{{Value: bytes.Repeat([]byte("x"), size)}} }
	w.filling.addRecords(leaves, records(600), time.Now())
	w.filling.addRecords(stays, records(300), time.Now())
	w.filling.addRecords(leaves, records(600), time.Now())
	if !w.isFull() {
		t.Fatal("1500 bytes of 1000 do not fill the batch")
	}
	w.filling.dropAssignments(map[*assignment]bool{leaves: true})
	if w.isFull() || w.filling.bytes != 300 {
		t.Errorf("after the larger partition has left, %d bytes are counted, want 300", w.filling.bytes)
	}
	w.filling.dropAssignments(map[*assignment]bool{stays: true})
	if !w.filling.empty() || w.filling.bytes != 0 {
		t.Errorf("nothing is left, but %d bytes are counted", w.filling.bytes)
	}
}
