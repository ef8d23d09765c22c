package stream

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A lasting error of the brokers ends a read; a passing one does not.
func TestReadReturnsLastingErrors(t *testing.T) {
	for _, f := range []struct {
		err  *kerr.Error
		ends bool
	}{{kerr.TopicAuthorizationFailed, true}, {kerr.UnknownServerError, true}, {kerr.NotLeaderForPartition, false},
		{kerr.KafkaStorageError, false}} {
		t.Run(f.err.Message, func(t *testing.T) {
			cluster, c, p := broker(t)
			must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("x")}))
			r, err := NewReader(c, "test")
			must.Do(t, err)
			defer r.Close()
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t." + Events, Err: f.err, Count: 1})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			err = r.Read(ctx, Partition{Topic: Events}, 0, func(*Record) error { return ErrStop })
			switch {
			case f.ends && (!errors.Is(err, ErrRead) || !errors.Is(err, f.err)):
				t.Errorf("read: %v, want %v", err, f.err)
			case !f.ends && err != nil:
				t.Errorf("read: %v, want the record", err)
			}
		})
	}
}

// Ranges of several partitions are read to their ends and not beyond, whatever else the log contains.
func TestReadRanges(t *testing.T) { onEachLog(t, 1, testReadRanges) }

func testReadRanges(t *testing.T, c Config, p *Producer) {
	for i := range byte(30) {
		for _, topic := range []string{Events, Outcomes} {
			must.Do(t, p.ProduceSync(t.Context(), topic, 0, &Record{Value: []byte{i}}))
		}
	}
	r := must.Get(NewReader(c, "test"))(t)
	defer r.Close()
	events, outcomes := Partition{Topic: Events}, Partition{Topic: Outcomes}
	var got map[Partition][]int64
	read := func(each func() error, ranges ...Range) error {
		got = map[Partition][]int64{}
		return r.ReadRanges(t.Context(), ranges, func(p Partition, records []*Record) error {
			for _, r := range records {
				got[p] = append(got[p], r.Offset)
			}
			return each()
		})
	}
	on := func() error { return nil }
	must.Do(t, read(on, Range{events, 27, 30}, Range{outcomes, 3, 5}, Range{Partition{Commands, 0}, 0, 0}))
	is.Same(t, got, map[Partition][]int64{events: {27, 28, 29}, outcomes: {3, 4}})
	broken := errors.New("broken")
	is.ErrorIs(t, read(func() error { return broken }, Range{events, 0, 30}), broken, "ended with")
	is.OK(t, read(func() error { return ErrStop }, Range{events, 0, 30}), "ended with")
	must.Do(t, r.Trim(t.Context(), events, 10))
	is.ErrorIs(t, read(on, Range{events, 5, 30}), ErrTrimmed, "deleted records were not reported: read %v", got)
}

// A commit is read with its metadata.
func TestCommits(t *testing.T) { onEachLog(t, 1, testCommits) }

func testCommits(t *testing.T, c Config, p *Producer) {
	must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("x")}))
	m := join(t, c, GroupConfig{})
	poll(t, m, func([]*Record) bool { return true })
	at := Partition{Topic: Events}
	want := Commit{Offset: 3, LeaderEpoch: -1, Metadata: metadata(t, 3, Gap{5, 6})}
	must.Do(t, m.Commit(t.Context(), map[Partition]Commit{at: want}))
	r := must.Get(NewReader(c, "test"))(t)
	defer r.Close()
	got := must.Get(r.Commits(t.Context(), "group", Events, Commands))(t)
	is.Same(t, got, map[Partition]Commit{at: want})
}

// The topics of other services count for nothing, not even one that has the name of an own topic without the prefix.
func TestSizesAreOfOwnTopics(t *testing.T) {
	_, c, p := broker(t)
	if _, err := reader(t, c).LogReader.(*kafkaReader).adm.CreateTopic(t.Context(), 1, 1, nil, Events); err != nil {
		t.Fatal(err)
	}
	own := p.Appender.(*kafkaProducer).prefix
	p.Appender.(*kafkaProducer).prefix = ""
	must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: make([]byte, 5000)}))
	p.Appender.(*kafkaProducer).prefix = own
	sizes, err := TopicSizes(t.Context(), c)
	if bytes, known := sizes[Events]; err != nil || !known || bytes != 0 {
		t.Errorf("sizes %v, error %v, want 0 B of %s", sizes, err, Events)
	}
	sizesFollowRecords(t, c, p)
}

// A group's backlog does not count gaps, and has the first incomplete record.
func TestBacklogs(t *testing.T) { onEachLog(t, 1, testBacklogs) }

func testBacklogs(t *testing.T, c Config, p *Producer) {
	r := reader(t, c)
	backlogs := func() map[string]Backlog {
		t.Helper()
		all, err := r.Backlogs(t.Context(), "group", Events, Commands)
		if err != nil || len(all) != 2 {
			t.Fatal(err, all)
		}
		by := make(map[string]Backlog)
		for _, b := range all {
			by[b.Topic] = b
		}
		return by
	}
	if b := backlogs(); b[Events].Records != 0 || b[Events].Head != nil {
		t.Errorf("empty topics: %+v", b)
	}
	for i := range byte(10) {
		must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte{i}}))
	}
	if b := backlogs(); b[Events].Records != 10 || b[Events].Head.Offset != 0 || b[Commands].Records != 0 {
		t.Errorf("before the first commit: %+v", b)
	}
	m := join(t, c, GroupConfig{})
	poll(t, m, func([]*Record) bool { return true })
	is.Equal(t, must.Get(r.MemberCount(t.Context(), "group"))(t), 1, "members")
	is.Equal(t, must.Get(r.MemberCount(t.Context(), "nobody"))(t), 0, "members of a group that never existed")
	commit := func(committed int64, gaps ...Gap) {
		t.Helper()
		must.Do(t, m.Commit(t.Context(), map[Partition]Commit{
			{Topic: Events}: {Offset: committed, LeaderEpoch: -1, Metadata: metadata(t, committed, gaps...)}}))
	}
	commit(3, Gap{4, 6}, Gap{8, 20})
	if b := backlogs()[Events]; b.Records != 10-3-2-2 || b.Head.Offset != 3 || b.Head.Value[0] != 3 {
		t.Errorf("with gaps: %+v", b)
	}
	commit(10)
	if b := backlogs()[Events]; b.Records != 0 || b.Head != nil {
		t.Errorf("all completed: %+v", b)
	}
	// The committed offset may be below the start of the log, as with a new broker and an old group.
	commit(2)
	must.Do(t, r.Trim(t.Context(), Partition{Topic: Events}, 5))
	if b := backlogs()[Events]; b.Records != 5 || b.Head.Offset != 5 {
		t.Errorf("after a trim: %+v", b)
	}
	is.Equal(t, must.Get(r.BrokerCount(t.Context()))(t), 1, "brokers")
}

// A new cluster has no coordinators for some seconds. A start waits for them, and other reads fail.
func TestStartWaitsForCoordinators(t *testing.T) {
	cluster, c, _ := broker(t)
	var unavailable atomic.Int64
	cluster.ControlKey(int16(kmsg.FindCoordinator), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if unavailable.Add(-1) < 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		for _, key := range req.(*kmsg.FindCoordinatorRequest).CoordinatorKeys {
			one := kmsg.NewFindCoordinatorResponseCoordinator()
			one.Key, one.ErrorCode = key, kerr.CoordinatorNotAvailable.Code
			resp.Coordinators = append(resp.Coordinators, one)
		}
		return resp, nil, true
	})
	unavailable.Store(2)
	if _, err := reader(t, c).Backlogs(t.Context(), "group", Events); !kerr.IsRetriable(err) {
		t.Errorf("without a coordinator: %v", err)
	}
	unavailable.Store(4)
	if all, err := reader(t, c).BacklogsAtStart(t.Context(), "group", Events); err != nil || len(all) != 1 {
		t.Errorf("at a start: %v, %v", all, err)
	}
}

func reader(t *testing.T, c Config) *Reader {
	t.Helper()
	r := must.Get(NewReader(c, "test"))(t)
	t.Cleanup(r.Close)
	return r
}

// Dead letters are listed, retried once and then hidden by their markers, across windows and partitions.
func TestDeadLettersAreListedAndRetriedOnce(t *testing.T) {
	onEachLog(t, 1, testDeadLettersAreListedAndRetriedOnce)
}

func testDeadLettersAreListedAndRetriedOnce(t *testing.T, c Config, _ *Producer) {
	c.Prefix = "letters."
	must.Get(Migrate(t.Context(), c, 2, 1))(t)
	p := must.Get(NewProducer(c, "letters"))(t)
	defer p.Close()
	ctx, r := t.Context(), reader(t, c)
	produce := func(partition int32, rec *Record) int64 {
		t.Helper()
		must.Do(t, p.ProduceSync(ctx, Dead, partition, rec))
		return rec.Offset
	}
	deadLetters := func(topic string, limit int) (offsets []int64) {
		t.Helper()
		found := must.Get(r.ListDeadLetters(ctx, topic, limit, 3))(t)
		for _, g := range found {
			offsets = append(offsets, int64(g.Partition)*100_000+g.Offset)
		}
		return offsets
	}
	count := func(want int64) {
		t.Helper()
		is.Equal(t, must.Get(r.CountDeadLetters(ctx))(t), want, "are counted")
	}
	count(0)
	source := &Record{
		Topic: "letters.events", Partition: 1, Offset: 77, Key: []byte("ep"), Value: []byte("body"),
		Headers: []Header{{Key: "relay-v", Value: []byte("9")}, {Key: HeaderOnlyGroup, Value: []byte("old")},
			{Key: HeaderDeadError, Value: []byte("forged")}},
	}
	first := produce(1, c.DeadLetterRecord(source, "store", errors.New("why")))
	g, err := r.ReadDeadLetter(ctx, 1, first)
	if err != nil || g.Source != (Partition{Events, 1}) || g.SourceOffset != 77 || g.Group != "store" ||
		g.Error != "why" ||
		g.Size != 4 || time.Since(g.WrittenAt) > time.Minute {
		t.Fatalf("%+v, %v", g, err)
	}
	again := g.RetryRecord()
	want := []Header{{Key: "relay-v", Value: []byte("9")}, {Key: HeaderDeadError, Value: []byte("forged")},
		{Key: HeaderOnlyGroup, Value: []byte("store")}}
	if string(again.Key) != "ep" || string(again.Value) != "body" ||
		!slices.EqualFunc(again.Headers, want, func(a, b Header) bool {
			return a.Key == b.Key && string(a.Value) == string(b.Value)
		}) {
		t.Errorf("again: %+v", again)
	}
	produce(0, &Record{Value: []byte("nobody of ours wrote it")})
	work := *source
	work.Topic, work.Partition = "letters.retry.5s", 0
	var offsets []int64
	for range 2*deadWindow + 10 {
		offsets = append(offsets, produce(0, c.DeadLetterRecord(&work, "dispatch", errors.New("why"))))
	}
	n := int64(len(offsets)) + 1
	count(n)
	is.List(t, deadLetters("", 2), []int64{offsets[n-2], offsets[n-3]}, "the newest")
	is.List(t, deadLetters(Events, 10), []int64{100_000 + first}, "of events")
	// All but the oldest and the newest are retried: both are found, far apart.
	for _, offset := range offsets[1 : n-2] {
		produce(0, DeadLetter{Offset: offset}.RetriedMarker())
	}
	count(3)
	is.List(t, deadLetters("retry.5s", 10), []int64{offsets[n-2], offsets[0]}, "not retried")
	var each []int64
	err = r.EachDeadLetter(ctx, "", func(g DeadLetter) error {
		is.Equal(t, string(g.Record.Value), "body", "%+v has lost its value", g)
		each = append(each, int64(g.Partition)*100_000+g.Offset)
		return nil
	})
	if err != nil || !slices.Equal(each, []int64{offsets[0], offsets[n-2], 100_000 + first}) {
		t.Errorf("each: %v, %v", each, err)
	}
	for _, f := range []struct {
		partition int32
		offset    int64
		want      error
	}{{0, offsets[1], ErrAlreadyRetried}, {0, 0, ErrNoDeadLetter}, {0, 1 << 40, ErrNoDeadLetter}, {7, 0, ErrNoDeadLetter},
		{0, -1, ErrNoDeadLetter}} {
		if _, err := r.ReadDeadLetter(ctx, f.partition, f.offset); !errors.Is(err, f.want) {
			t.Errorf("%d:%d is %v, want %v", f.partition, f.offset, err, f.want)
		}
	}
	stop := errors.New("stop")
	is.ErrorIs(t, r.EachDeadLetter(ctx, "", func(DeadLetter) error { return stop }), stop, "ended with")
	if found, _ := r.ListDeadLetters(ctx, Events, 1, 3); string(found[0].Record.Value) != "bod" || found[0].Size != 4 {
		t.Errorf("%+v", found[0])
	}
}
