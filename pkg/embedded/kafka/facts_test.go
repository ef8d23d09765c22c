package kafka

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/test/must"
)

// The tests of this file check what the rest of the service expects of any Kafka broker.

func TestLargeMessages(t *testing.T) {
	s := serve(t, testConfig(t))
	limit := fmt.Sprint(2 << 20)
	createTopics(t, s.Addr(), 1, map[string]*string{"max.message.bytes": &limit}, "relay.events")
	cl := client(t, s.Addr(), kgo.ProducerBatchMaxBytes(2<<20), kgo.ConsumeTopics("relay.events"),
		kgo.FetchMaxPartitionBytes(4<<20))

	body := make([]byte, 2<<20-1024)
	rand.Read(body)
	produce(t, cl, "relay.events", 0, body)
	if got := consume(t, cl, 1); !bytes.Equal(got[0].Value, body) {
		t.Error("the body was changed")
	}

	small := client(t, s.Addr(), kgo.ProducerBatchMaxBytes(3<<20))
	err := small.ProduceSync(t.Context(), &kgo.Record{Topic: "relay.events", Value: make([]byte, 2<<20+1)}).FirstErr()
	if !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("a record above max.message.bytes: got %v", err)
	}
}

func TestListOffsetsByTime(t *testing.T) {
	s := serve(t, testConfig(t))
	createTopics(t, s.Addr(), 1, nil, "relay.events")
	cl := client(t, s.Addr())
	start := time.UnixMilli(1_800_000_000_000)
	for i := range 10 {
		r := &kgo.Record{Topic: "relay.events", Timestamp: start.Add(time.Duration(i) * time.Second), Value: []byte("x")}
		must.Do(t, cl.ProduceSync(t.Context(), r).FirstErr())
	}
	listed := must.Get(kadm.NewClient(cl).ListOffsetsAfterMilli(t.Context(), start.UnixMilli()+4500, "relay.events"))(t)
	if o, _ := listed.Lookup("relay.events", 0); o.Offset != 5 {
		t.Errorf("offset after 4.5 s = %d, want 5", o.Offset)
	}
}

// A restart keeps topics with their settings, records, and offsets with 3 KB of metadata. Trimmed records stay trimmed,
// and the end of a log stays the same even if all records were deleted.
func TestRestart(t *testing.T) {
	cfg := testConfig(t)
	s := serve(t, cfg)
	limit := fmt.Sprint(3 << 20)
	createTopics(t, s.Addr(), 4, map[string]*string{"max.message.bytes": &limit}, "relay.events")
	cl := client(t, s.Addr())
	for i := range 100 {
		produce(t, cl, "relay.events", int32(i%4), fmt.Appendf(nil, "%d", i))
	}
	metadata := randomText(3 << 10)
	commit(t, cl, "dispatch", "relay.events", 1, 17, metadata)
	deleted, err := kadm.NewClient(cl).DeleteRecords(t.Context(), kadm.Offsets{
		"relay.events": {2: {Topic: "relay.events", Partition: 2, At: 25}, 3: {Topic: "relay.events", Partition: 3, At: 10}},
	})
	if err != nil || deleted.Error() != nil {
		t.Fatal(err, deleted.Error())
	}
	must.Do(t, s.stop())

	s = serve(t, cfg)
	cl = client(t, s.Addr())
	adm := kadm.NewClient(cl)
	ends := must.Get(adm.ListEndOffsets(t.Context(), "relay.events"))(t)
	starts := must.Get(adm.ListStartOffsets(t.Context(), "relay.events"))(t)
	for p, start := range []int64{0, 0, 24, 10} {
		if o, _ := ends.Lookup("relay.events", int32(p)); o.Offset != 25 {
			t.Errorf("end of partition %d = %d, want 25", p, o.Offset)
		}
		if o, _ := starts.Lookup("relay.events", int32(p)); o.Offset != start {
			t.Errorf("start of partition %d = %d, want %d", p, o.Offset, start)
		}
	}
	checkCommitted(t, cl, "dispatch", "relay.events", 1, 17, metadata)
	configs := must.Get(adm.DescribeTopicConfigs(t.Context(), "relay.events"))(t)
	for _, c := range configs[0].Configs {
		if c.Key == "max.message.bytes" && c.MaybeValue() != limit {
			t.Errorf("max.message.bytes = %s, want %s", c.MaybeValue(), limit)
		}
	}
}

// Metadata that a group member sets before its commit comes back to the next owner.
func TestGroupMetadata(t *testing.T) {
	cfg := testConfig(t)
	s := serve(t, cfg)
	createTopics(t, s.Addr(), 1, nil, "relay.events")
	metadata := randomText(3 << 10)
	member := client(t, s.Addr(), kgo.ConsumerGroup("dispatch"), kgo.ConsumeTopics("relay.events"),
		kgo.DisableAutoCommit())
	produce(t, member, "relay.events", 0, []byte("a"))
	r := consume(t, member, 1)[0]
	ctx := kgo.PreCommitFnContext(t.Context(), func(req *kmsg.OffsetCommitRequest) error {
		req.Topics[0].Partitions[0].Metadata = &metadata
		return nil
	})
	offsets := map[string]map[int32]kgo.EpochOffset{r.Topic: {r.Partition: {Epoch: r.LeaderEpoch, Offset: r.Offset + 1}}}
	var failed error
	member.CommitOffsetsSync(
		ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
			failed = err
		})
	if failed != nil {
		t.Fatal(failed)
	}
	member.Close()
	must.Do(t, s.stop())

	s = serve(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var got string
	next := client(t, s.Addr(), kgo.ConsumerGroup("dispatch"), kgo.ConsumeTopics("relay.events"),
		kgo.OnOffsetsFetched(func(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
			got = *resp.Groups[0].Topics[0].Partitions[0].Metadata
			cancel()
			return nil
		}))
	next.PollFetches(ctx) // no records: it returns when the offsets are known
	if next.Close(); got != metadata {
		t.Errorf("metadata of %d bytes came back as %d bytes", len(metadata), len(got))
	}
}

// An idempotent producer that outlives its broker goes on without an error, on the partitions that it wrote to and on
// others: after a clean stop, which keeps sequence numbers, and after a crash, which must not restore those of the last
// clean stop.
func TestProducerOutlivesBroker(t *testing.T) {
	cfg := testConfig(t)
	cfg.Listen = fixedAddr(t)
	s := serve(t, cfg)
	createTopics(t, s.Addr(), 2, nil, "relay.events")
	cl := client(t, s.Addr(), kgo.StopProducerOnDataLossDetected())
	for _, crash := range []bool{false, true, true, false, true} {
		for i := range 10 {
			produce(t, cl, "relay.events", 0, fmt.Appendf(nil, "%d", i))
		}
		dir := cfg.DataDir
		if crash {
			cfg.DataDir = crashCopy(t, dir)
		}
		must.Do(t, s.stop())
		s = serve(t, cfg)
	}
	produce(t, cl, "relay.events", 1, []byte("first of its partition"))
	ends := must.Get(kadm.NewClient(cl).ListEndOffsets(t.Context(), "relay.events"))(t)
	if o, _ := ends.Lookup("relay.events", 0); o.Offset != 50 {
		t.Errorf("end = %d, want 50", o.Offset)
	}
}

// kfake stops reading a state log at the first broken entry and appends behind it. Without a repair, offsets that are
// committed after the first crash would be lost after the second.
func TestRepairedOffsets(t *testing.T) {
	cfg := testConfig(t)
	s := serve(t, cfg)
	createTopics(t, s.Addr(), 1, nil, "relay.events")
	commit(t, client(t, s.Addr()), "dispatch", "relay.events", 0, 1, "one")
	cfg.DataDir = crashCopy(t, cfg.DataDir)
	must.Do(t, s.stop())
	path := filepath.Join(cfg.DataDir, "groups.log")
	log := must.Get(os.ReadFile(path))(t)
	must.Do(t, os.WriteFile(path, append(log, log[:len(log)/3]...), 0o644))

	s = serve(t, cfg)
	cl := client(t, s.Addr())
	checkCommitted(t, cl, "dispatch", "relay.events", 0, 1, "one")
	commit(t, cl, "dispatch", "relay.events", 0, 2, "two")
	cfg.DataDir = crashCopy(t, cfg.DataDir)
	must.Do(t, s.stop())
	s = serve(t, cfg)
	checkCommitted(t, client(t, s.Addr()), "dispatch", "relay.events", 0, 2, "two")
}

// crashCopy copies a data directory as a SIGKILL would leave it. No broker may write to it meanwhile.
func crashCopy(tb testing.TB, dir string) string {
	tb.Helper()
	to := tb.TempDir()
	must.Do(tb, os.CopyFS(to, os.DirFS(dir)))
	return to
}

func produce(tb testing.TB, cl *kgo.Client, topic string, partition int32, value []byte) *kgo.Record {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: partition, Value: value}).First()
	if err != nil {
		tb.Fatalf("produce: %v", err)
	}
	return r
}

func consume(tb testing.TB, cl *kgo.Client, n int) []*kgo.Record {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var got []*kgo.Record
	for len(got) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			tb.Fatalf("consume after %d of %d: %v", len(got), n, err)
		}
		got = append(got, fetches.Records()...)
	}
	return got
}

func commit(tb testing.TB, cl *kgo.Client, group, topic string, partition int32, at int64, metadata string) {
	tb.Helper()
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: partition, At: at, LeaderEpoch: -1, Metadata: metadata})
	resp, err := kadm.NewClient(cl).CommitOffsets(tb.Context(), group, os)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		tb.Fatalf("commit: %v", err)
	}
}

func checkCommitted(tb testing.TB, cl *kgo.Client, group, topic string, partition int32, at int64, metadata string) {
	tb.Helper()
	resp := must.Get(kadm.NewClient(cl).FetchOffsets(tb.Context(), group))(tb)
	o, _ := resp.Lookup(topic, partition)
	if o.At != at || o.Metadata != metadata {
		tb.Errorf("committed offset %d with %d bytes of metadata, want %d with %d", o.At, len(o.Metadata), at, len(metadata))
	}
}

// randomText returns n characters that do not compress.
func randomText(n int) string {
	raw := make([]byte, n)
	rand.Read(raw)
	return base64.StdEncoding.EncodeToString(raw)[:n]
}

// A static member that returns within its session keeps its partitions; those of other members do not move.
func TestStaticMember(t *testing.T) {
	s := serve(t, testConfig(t))
	createTopics(t, s.Addr(), 4, nil, "relay.events")
	assigned := make(chan map[string][]int32, 8)
	var revoked atomic.Int64
	join := func(name string) *kgo.Client {
		cl := client(t, s.Addr(), kgo.ConsumerGroup("dispatch"), kgo.ConsumeTopics("relay.events"), kgo.InstanceID(name),
			kgo.Balancers(kgo.RangeBalancer()), kgo.HeartbeatInterval(50*time.Millisecond),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { assigned <- got }),
			kgo.OnPartitionsRevoked(func(context.Context, *kgo.Client, map[string][]int32) { revoked.Add(1) }))
		return cl
	}
	join("a")
	<-assigned
	b := join("b")
	<-assigned
	<-assigned
	before := revoked.Load()
	b.Close() // revokes its own partitions
	join("b")
	if got := <-assigned; len(got["relay.events"]) != 2 {
		t.Errorf("the member came back to %v", got)
	}
	if n := revoked.Load() - before; n > 1 {
		t.Error("the other member's partitions were revoked")
	}
}

// The broker serves partitions in the order in which a request names them, all of them in each. In
// a session it would begin with those that had records last time.
func TestNoFetchSessions(t *testing.T) {
	s := serve(t, testConfig(t))
	createTopics(t, s.Addr(), 1, nil, "relay.events", "relay.commands")
	cl := client(t, s.Addr(), kgo.DefaultProduceTopic("relay.events"))
	body := make([]byte, 1000)
	produce(t, cl, "relay.events", 0, body)
	produce(t, cl, "relay.commands", 0, body)
	topics := must.Get(kadm.NewClient(cl).ListTopics(t.Context()))(t)
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionID, req.SessionEpoch = 100, 1, 1, 0, 0
	for _, name := range []string{"relay.commands", "relay.events"} {
		topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		topic.Topic, topic.TopicID = name, topics[name].ID
		p.PartitionMaxBytes, p.CurrentLeaderEpoch = 1<<20, -1
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
	}
	for range 2 { // a client without a session sends the same request again
		resp := must.Get(req.RequestWith(t.Context(), cl))(t)
		if resp.SessionID != 0 || resp.ErrorCode != 0 || len(resp.Topics) == 0 ||
			resp.Topics[0].TopicID != topics["relay.commands"].ID || len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
			t.Fatalf("session %d, error %d, %d topics", resp.SessionID, resp.ErrorCode, len(resp.Topics))
		}
		slices.Reverse(req.Topics)
		topics["relay.commands"], topics["relay.events"] = topics["relay.events"], topics["relay.commands"]
	}
}
