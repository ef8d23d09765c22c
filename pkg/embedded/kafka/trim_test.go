package kafka

import (
	"crypto/rand"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/eventrelay/relay/test/must"
)

// Deleted records leave the disk except for the segment of the last one. A broker that is killed after that forgets the
// exact start of the log; the deleted files stay deleted and the log has the same end.
func TestDeletedLeavesTheDisk(t *testing.T) {
	const topic, records = "relay.events", 80
	cfg := testConfig(t)
	cfg.Fsync = false
	s := serve(t, cfg)
	createTopics(t, s.Addr(), 1, nil, topic)
	cl := client(t, s.Addr())
	body := make([]byte, 1<<19)
	rand.Read(body)
	for range records {
		produce(t, cl, topic, 0, body)
	}
	dir := newDisk(cfg.DataDir).partitionDir(topic, 0)
	if n := bytesIn(t, dir); n < records*int64(len(body)) {
		t.Fatalf("%d bytes on disk before", n)
	}
	resp, err := kadm.NewClient(cl).DeleteRecords(
		t.Context(), kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: records - 1}}})
	if err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	if n := bytesIn(t, dir); n > segmentBytes+2*int64(len(body)) {
		t.Errorf("%d bytes on disk, more than a segment", n)
	}

	cfg.DataDir = crashCopy(t, cfg.DataDir)
	s = serve(t, cfg)
	cl = client(t, s.Addr())
	starts := must.Get(kadm.NewClient(cl).ListStartOffsets(t.Context(), topic))(t)
	if o, _ := starts.Lookup(topic, 0); o.Offset < records-segmentBytes>>19-2 {
		t.Errorf("the log starts at %d after a kill", o.Offset)
	}
	if end := endOf(t, cl, topic, 0); end != records {
		t.Errorf("the log ends at %d after a kill, want %d", end, records)
	}
	if r := produce(t, cl, topic, 0, []byte("next")); r.Offset != records {
		t.Errorf("the next record is at %d, want %d", r.Offset, records)
	}
}

func bytesIn(t *testing.T, dir string) (n int64) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		info := must.Get(e.Info())(t)
		n += info.Size()
	}
	return n
}
