package alert

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// A picture that is built from a log that was trimmed knows since when it is whole.
func TestPictureOfATrimmedLog(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	conf := stream.Config{Brokers: cluster.ListenAddrs(), Prefix: "relay."}
	if _, err := stream.Migrate(t.Context(), conf, 1, 1); err != nil {
		t.Fatal(err)
	}
	producer, err := stream.NewProducer(conf, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	r := newRig(t)
	if r.reader, err = stream.NewReader(conf, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.reader.Close)
	var first []time.Time
	for range 10 {
		e, err := r.ids.New(0)
		if err != nil {
			t.Fatal(err)
		}
		rec := (&event.Outcome{Event: e, Endpoint: testEndpoint, Dest: testDest, Status: event.Retrying, At: time.Now(), Attempt: r.attempt(false)}).Record()
		if err := producer.ProduceSync(t.Context(), stream.Outcomes, 0, rec); err != nil {
			t.Fatal(err)
		}
		first = append(first, rec.Timestamp)
	}
	outcomes := stream.Partition{Topic: stream.Outcomes}
	whole := func() time.Time {
		t.Helper()
		r.books[0] = newBook(0)
		if err := r.lookBack(t.Context(), map[stream.Partition]stream.Mark{outcomes: {Offset: 10}}); err != nil {
			t.Fatal(err)
		}
		return r.books[0].whole
	}
	if at := whole(); !at.IsZero() {
		t.Errorf("whole since %v, though nothing was deleted", at)
	}
	if err := r.reader.Trim(t.Context(), outcomes, 6); err != nil {
		t.Fatal(err)
	}
	if at := whole(); at.UnixMilli() != first[6].UnixMilli() {
		t.Errorf("whole since %v, want %v", at, first[6])
	}
}
