package stream

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/segment"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func refuse(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }

func trimmer(t *testing.T, c Config, cfg TrimConfig) *Trimmer {
	t.Helper()
	tr, err := NewTrimmer(cfg, TrimDeps{
		Log: slog.New(slog.DiscardHandler), Stream: c, Metrics: prometheus.NewRegistry(),
		// records that were just written are old
		Now: func() time.Time { return time.Now().Add(defaultKeepAge + time.Minute) },
	})
	must.Do(t, err)
	return tr
}

// commitAs commits an offset of a topic's only partition for a group.
func commitAs(t *testing.T, c Config, group, topic string, at int64) {
	t.Helper()
	if l := c.Embedded; l != nil {
		must.Do(t, l.segments.Commit(t.Context(), c.Prefix+group, map[segment.Key]segment.Commit{
			{Topic: c.Prefix + topic}: {Offset: at}}))
		return
	}
	r := reader(t, c)
	offsets := make(kadm.Offsets)
	offsets.AddOffset(c.Prefix+topic, 0, at, -1)
	must.Do(t, r.LogReader.(*kafkaReader).adm.CommitAllOffsets(t.Context(), c.Prefix+group, offsets))
}

// The log is deleted up to what every group that reads it has committed, whatever else reads it. The last record stays.
func TestTrimFollowsCommits(t *testing.T) { onEachLog(t, 1, trimGoesByCommits) }

// TestOnApacheKafka checks with a real broker what the other tests check with a fake one, and that wrong settings are
// fixed.
func TestOnApacheKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an Apache Kafka")
	}
	brokers := []string{kit.Kafka(t).Addr}
	t.Run("trim", func(t *testing.T) {
		c := Config{Brokers: brokers, Prefix: id.Random("trim.") + "."}
		must.Get(Migrate(t.Context(), c, 1, 1))(t)
		p := must.Get(NewProducer(c, "test"))(t)
		t.Cleanup(p.Close)
		trimGoesByCommits(t, c, p)
		sizesFollowRecords(t, c, p)
	})
	for name, test := range map[string]func(*testing.T, Config, *Producer){
		"records": testRecordsComeBack, "refused": testRefusedRecords, "groups": testGroupsReadEverythingInOrder,
		"pause": testPause, "owners": testNextOwner,
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{Brokers: brokers, Prefix: id.Random(name+".") + "."}
			must.Get(Migrate(t.Context(), c, 3, 1))(t)
			p := must.Get(NewProducer(c, "test"))(t)
			t.Cleanup(p.Close)
			test(t, c, p)
		})
	}
	t.Run("settings", func(t *testing.T) {
		fixWrongSettings(t, Config{Brokers: brokers, Prefix: id.Random("fixed.") + "."}, map[string]map[string]string{
			Events:     {"retention.ms": "1000", "max.message.bytes": "100", "min.insync.replicas": "2"},
			Control:    {"cleanup.policy": "compact", "retention.bytes": "1"},
			Nodes:      {"message.timestamp.type": "CreateTime"},
			"retry.1h": {"unclean.leader.election.enable": "true"},
		})
	})
}

// sizesFollowRecords checks that a topic takes as many bytes as were written to it, and that others take no more.
func sizesFollowRecords(t *testing.T, c Config, p *Producer) {
	sizes := func() map[string]int64 {
		sizes := must.Get(TopicSizes(t.Context(), c))(t)
		return sizes
	}
	before := sizes()
	must.Do(t, p.ProduceSync(t.Context(), Commands, 0, &Record{Value: make([]byte, 5000)}))
	after := sizes()
	if grown := after[Commands] - before[Commands]; grown < 5000 || grown > 5300 || after[Receipts] != before[Receipts] ||
		len(after) != len(specs()) {
		t.Errorf("a record of 5,000 bytes takes %d; sizes of topics before %v, after %v", grown, before, after)
	}
}

func trimGoesByCommits(t *testing.T, c Config, p *Producer) {
	for range 10 {
		for _, topic := range []string{Events, Receipts, Dead, Tiers()[0].Topic} {
			must.Do(t, p.ProduceSync(t.Context(), topic, 0, &Record{Value: []byte("x")}))
		}
	}
	tr, r := trimmer(t, c, DefaultTrimConfig()), reader(t, c)
	begins := func(topic string) int64 {
		t.Helper()
		must.Do(t, tr.trimOnce(t.Context(), r))
		starts := must.Get(r.Starts(t.Context(), topic))(t)
		return starts[Partition{Topic: topic}]
	}
	commitAs(t, c, DispatchGroup, Events, 8)
	commitAs(t, c, StoreGroup, Events, 5)
	commitAs(t, c, "leaks", Events, 1)
	is.Equal(t, begins(Events), 0, "log starts at … although a group has no commit")
	commitAs(t, c, AlertGroup, Events, 9)
	if at := begins(Events); at != 5 {
		t.Errorf("log starts at %d, want 5: the lowest commit counts", at)
	}
	commitAs(t, c, StoreGroup, Events, 10)
	commitAs(t, c, StoreGroup, Receipts, 10)
	commitAs(t, c, DispatchGroup, Dead, 10)
	for topic, want := range map[string]int64{Events: 8, Receipts: 9, Dead: 0} {
		for range 2 { // the second run changes nothing
			is.Equal(t, begins(topic), want, "log of %s starts at", topic)
		}
	}
	is.Equal(t, testutil.ToFloat64(tr.trimmed.WithLabelValues(Events)), 8, "records of events counted")
	if at := testutil.ToFloat64(tr.last); at < float64(time.Now().Unix()) {
		t.Errorf("the last run was at %v", at)
	}
	tr.deps.Now = func() time.Time { return time.Now().Add(2 * time.Minute) }
	commitAs(t, c, DispatchGroup, Events, 10)
	is.Equal(t, begins(Events), 8, "log starts at … young records were deleted")
	tier := Tiers()[0].Topic
	commitAs(t, c, DispatchGroup, tier, 10)
	is.Equal(t, begins(tier), 9, "log of %s starts at … it keeps a minute", tier)
}

// Trimming follows the rules for age, for the last outcomes, and for a broker that reads its log at the start.
func TestTrimOffsets(t *testing.T) {
	at := func(topic string, n int64) map[Partition]int64 { return map[Partition]int64{{Topic: topic}: n} }
	for _, c := range []struct {
		name                         string
		topic                        string
		committed, start, end, young int64
		size, bound, want            int64
		noCommit, unchanged          bool
	}{
		{name: "young records stay", topic: Events, committed: 90, end: 100, young: 40, want: 40},
		{name: "uncommitted records stay", topic: Events, committed: 30, end: 100, young: 100, want: 30},
		{name: "the last record stays", topic: Events, committed: 100, end: 100, young: 100, want: 99},
		{name: "no commit", topic: Events, noCommit: true, end: 100, young: 100, unchanged: true},
		{name: "a commit beyond the end", topic: Events, committed: 101, end: 100, young: 100, unchanged: true},
		{name: "deleted already", topic: Events, committed: 50, start: 50, end: 100, young: 100, unchanged: true},
		{name: "the last outcomes stay", topic: Outcomes, committed: 2 * outcomesKeepRecords, end: 2 * outcomesKeepRecords,
			young: 2 * outcomesKeepRecords, want: outcomesKeepRecords},
		{name: "few outcomes stay", topic: Outcomes, committed: 100, end: 100, young: 100, unchanged: true},
		{name: "bytes count before age", topic: Events, committed: 100, end: 100, young: 0, size: 1000, bound: 250, want: 75},
		{name: "few bytes", topic: Events, committed: 100, end: 100, young: 40, size: 1000, bound: 1 << 30, want: 40},
		{name: "uncommitted bytes", topic: Events, committed: 60, end: 100, young: 0, size: 1000, bound: 250, want: 60},
		{name: "next to no bytes", topic: Events, committed: 100, end: 100, young: 0, size: 1000, bound: 1, want: 99},
	} {
		tr := &Trimmer{cfg: TrimConfig{MaxBytes: c.bound}}
		commits := at(c.topic, c.committed)
		if c.noCommit {
			commits = nil
		}
		got := tr.trimOffsets(commits, at(c.topic, c.start), at(c.topic, c.end), at(c.topic, c.young), at(c.topic, c.size))
		want := at(c.topic, c.want)
		if c.unchanged {
			want = map[Partition]int64{}
		}
		is.Equal(t, cmp.Diff(want, got), "", c.name)
	}
}

// MaxBytes is one bound for all partitions together, by the sizes that the broker reports.
func TestTrimReadsPartitionSizes(t *testing.T) { onEachLog(t, 1, testTrimReadsPartitionSizes) }

func testTrimReadsPartitionSizes(t *testing.T, c Config, p *Producer) {
	for range 100 {
		for _, topic := range []string{Events, Receipts} {
			must.Do(t, p.ProduceSync(t.Context(), topic, 0, &Record{Value: make([]byte, 1000)}))
		}
	}
	for _, group := range Groups() {
		commitAs(t, c, group, Events, 100)
	}
	commitAs(t, c, StoreGroup, Receipts, 100)
	tr, r := trimmer(t, c, TrimConfig{Every: time.Minute, KeepAge: time.Hour, MaxBytes: 100 * 1000}), reader(t, c)
	tr.deps.Now = time.Now
	must.Do(t, tr.trimOnce(t.Context(), r))
	starts := must.Get(r.Starts(t.Context(), Events, Receipts))(t)
	for p, at := range starts {
		if at < 50 || at > 60 {
			t.Errorf("log of %s starts at %d, want slightly more than half", p.Topic, at)
		}
	}
}

// Every topic that a group reads is trimmed; topics with retention and the configuration log are not.
func TestTopicsThatAreTrimmed(t *testing.T) {
	forEver := map[string]bool{}
	for _, s := range specs() {
		for _, r := range s.rules {
			if r.name == retentionMS && r.want == "-1" {
				forEver[s.name] = true
			}
		}
	}
	delete(forEver, Control)
	delete(forEver, ControlSnapshots)
	is.Equal(t, cmp.Diff(slices.Sorted(maps.Keys(forEver)), slices.Sorted(slices.Values(ReadTopics()))), "",
		"topics without retention, and trimmed topics")
}

// Only the owner trims: at once when it becomes the owner, and then at every interval.
func TestOnlyTheOwnerTrims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := trimmer(t, Config{Brokers: []string{"nowhere:1"}, DialFunc: refuse}, DefaultTrimConfig())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- tr.Run(ctx) }()
		defer func() {
			cancel()
			is.OK(t, <-done)
		}()
		runs := func() float64 { synctest.Wait(); return testutil.ToFloat64(tr.failures) }
		time.Sleep(10 * time.Minute)
		is.Equal(t, runs(), 0, "runs of a node that is not the owner")
		tr.SetOwner(true)
		time.Sleep(trimTimeout + time.Second)
		is.Equal(t, runs(), 1, "runs at once")
		time.Sleep(3 * time.Minute)
		if n := runs(); n < 3 {
			t.Errorf("%v runs of the owner", n)
		}
	})
}

// A group that is behind by half of retention is reported; at 90 % new events are refused.
func TestRetentionGuard(t *testing.T) { onEachLog(t, 1, testRetentionGuard) }

func testRetentionGuard(t *testing.T, c Config, p *Producer) {
	for range 3 {
		must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("x")}))
	}
	for _, group := range Groups() {
		commitAs(t, c, group, Events, 3)
	}
	const day = 24 * time.Hour
	later := time.Duration(0)
	g := must.Get(NewRetentionGuard(RetentionGuardDeps{
		Log: slog.New(slog.DiscardHandler), Stream: c, Metrics: prometheus.NewRegistry(), Retention: 10 * day,
		Now: func() time.Time { return time.Now().Add(later) },
	}))(t)
	r := reader(t, c)
	f := func(name string, after time.Duration, group string, share float64) {
		t.Helper()
		later = after
		must.Do(t, g.check(t.Context(), r))
		if refused := g.Refusal(); (refused != nil) != (share == refuseShare) || refused != nil &&
			!errors.Is(refused, ErrBufferFull) {
			t.Errorf("%s: refused with %v", name, refused)
		}
		for _, x := range Groups() {
			want := 0.0
			if x == group {
				want = share
			}
			is.Equal(t, testutil.ToFloat64(g.share.WithLabelValues(x)), want, "%s: age ratio of group %s is", name, x)
		}
	}
	left := func() (n []float64) {
		for _, x := range Groups() {
			n = append(n, testutil.ToFloat64(g.records.WithLabelValues(x)))
		}
		return n
	}
	f("all is done", 20*day, "", 0)
	before := left()
	commitAs(t, c, StoreGroup, Events, 1)
	f("young", 4*day, "", 0)
	for i, n := range left() {
		want := 0.0
		if Groups()[i] == StoreGroup {
			want = 2
		}
		if before[i] != 0 || n != want {
			t.Errorf("group %s has %v records, then %v, want 0 and %v", Groups()[i], before[i], n, want)
		}
	}
	f("half", 5*day+time.Hour, StoreGroup, warnShare)
	f("nearly all", 9*day+time.Hour, StoreGroup, refuseShare)
	commitAs(t, c, StoreGroup, Events, 3)
	f("caught up", 9*day+time.Hour, "", 0)

	if c.Embedded != nil {
		return // its topics have no settings
	}
	hours := "3600000"
	alter := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: retentionMS, Value: &hours}}
	must.Get(r.LogReader.(*kafkaReader).adm.AlterTopicConfigs(t.Context(), alter, c.Prefix+Receipts))(t)
	must.Do(t, p.ProduceSync(t.Context(), Receipts, 0, &Record{Value: []byte("x")}))
	f("a topic that somebody has given a limit", 31*time.Minute, StoreGroup, warnShare)
	f("and nobody has ever read", 55*time.Minute, StoreGroup, refuseShare)
}
