package stream

import (
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/segment"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A copy in Kafka has the records of a trimmed log at the same offsets, and what the groups have committed, with its
// gaps. Topics that have or had records are refused.
func TestCopyToKafka(t *testing.T) {
	t.Parallel()
	from := Config{Embedded: localLog(t, t.TempDir()), Prefix: "t."}
	must.Get(Migrate(t.Context(), from, 2, 1))(t)
	p := must.Get(NewProducer(from, "test"))(t)
	defer p.Close()
	const sent, start, committed = 110_000, 105_000, 105_010
	const waiting = 1000
	produced := make(chan error, waiting)
	for i := range sent {
		if i >= waiting {
			must.Do(t, <-produced)
		}
		p.Produce(Events, 1, &Record{Key: []byte("key"), Value: strconv.AppendInt(nil, int64(i), 10)},
			func(_ *Record, err error) { produced <- err })
	}
	for range waiting {
		must.Do(t, <-produced)
	}
	at := Partition{Events, 1}
	must.Do(t, reader(t, from).Trim(t.Context(), at, start))
	metadata, _ := EncodeGaps(committed, []Gap{{committed + 1, committed + 5}})
	must.Do(t, from.Embedded.segments.Commit(t.Context(), "t."+DispatchGroup,
		map[segment.Key]segment.Commit{{Topic: "t." + Events, Index: 1}: {Offset: committed, Metadata: metadata}}))

	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	to := Config{Brokers: cluster.ListenAddrs(), Prefix: "t."}
	refused := func(why string) {
		t.Helper()
		is.Failed(t, CopyToKafka(t.Context(), from, to), "never had a record", why)
	}
	must.Get(Migrate(t.Context(), to, 1, 1))(t)
	refused("too few partitions")
	must.Get(AddPartitions(t.Context(), to, must.Get(CheckTopics(t.Context(), to, 1))(t), 2))(t)
	must.Do(t, CopyToKafka(t.Context(), from, to))
	refused("topics with records")

	copied := reader(t, to)
	starts, ends := must.Get(copied.Starts(t.Context(), Events))(t), must.Get(copied.Ends(t.Context(), Events))(t)
	if starts[at] != start || ends[at] != sent {
		t.Errorf("the copy has the offsets %d to %d", starts[at], ends[at])
	}
	want := int64(start)
	must.Do(t, copied.Read(t.Context(), at, start, func(r *Record) error {
		if string(r.Value) != strconv.FormatInt(want, 10) || r.Offset != want || string(r.Key) != "key" {
			t.Fatalf("offset %d has %s", r.Offset, r.Value)
		}
		if want++; want == sent {
			return ErrStop
		}
		return nil
	}))
	commit := must.Get(copied.Commits(t.Context(), DispatchGroup, Events))(t)[at]
	if commit.Offset != committed || commit.Metadata != metadata {
		t.Errorf("the copy has the commit %+v", commit)
	}
}
