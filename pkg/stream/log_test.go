package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Records come back as they were produced, in order, at consecutive offsets.
func TestRecordsComeBack(t *testing.T) { onEachLog(t, 2, testRecordsComeBack) }

func testRecordsComeBack(t *testing.T, c Config, p *Producer) {
	at := time.Now().Truncate(time.Millisecond)
	want := []*Record{
		{Value: []byte("value"), Timestamp: at},
		{Key: []byte("key"), Value: []byte{}, Timestamp: at.Add(-time.Second),
			Headers: []Header{{Key: "a", Value: []byte("1")}, {Key: "b"}, {Key: "a", Value: []byte{0, 255}}}},
		{Key: []byte{}, Value: []byte(strings.Repeat("large", 1<<20)), Timestamp: at.Add(123456 * time.Nanosecond)},
	}
	for i, r := range want {
		must.Do(t, p.ProduceSync(t.Context(), Events, 1, r))
		if r.Offset != int64(i) || r.Topic != c.Prefix+Events {
			t.Errorf("record %d has offset %d of %s", i, r.Offset, r.Topic)
		}
	}
	var got []*Record
	must.Do(t, reader(t, c).Read(t.Context(), Partition{Events, 1}, 0, func(r *Record) error {
		if got = append(got, r); len(got) == len(want) {
			return ErrStop
		}
		return nil
	}))
	want[2].Timestamp = at
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Record{}), cmpopts.IgnoreFields(Record{}, "Attrs", "LeaderEpoch",
		"ProducerEpoch", "ProducerID", "Context"), cmp.Comparer(sameBytes)); d != "" {
		t.Error(d)
	}
	if c.Embedded == nil {
		return // the fake Kafka does not set times
	}
	tier, old := Tiers()[0].Topic, at.Add(-90*time.Second)
	must.Do(t, p.ProduceSync(t.Context(), tier, 0, &Record{Value: []byte("x"), Timestamp: old}))
	must.Do(t, reader(t, c).Read(t.Context(), Partition{tier, 0}, 0, func(r *Record) error {
		if time.Since(r.Timestamp) > 80*time.Second {
			t.Errorf("a topic whose times the log sets has a record of %v", r.Timestamp)
		}
		return ErrStop
	}))
}

// sameBytes compares 5 MB in no time, which takes cmp seconds.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// What the log will never take is an error for this record alone, on another goroutine.
func TestRefusedRecords(t *testing.T) { onEachLog(t, 1, testRefusedRecords) }

func testRefusedRecords(t *testing.T, c Config, p *Producer) {
	for want, r := range map[error]*Record{
		kerr.MessageTooLarge:         {Value: make([]byte, MaxMessageBytes)},
		kerr.UnknownTopicOrPartition: {Value: []byte("x")},
	} {
		topic := Events
		if !errors.Is(want, kerr.MessageTooLarge) {
			topic = "none"
		}
		var mu sync.Mutex
		mu.Lock()
		failed := make(chan error, 1)
		p.Produce(topic, 0, r, func(_ *Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			failed <- err
		})
		mu.Unlock()
		if err := <-failed; !errors.Is(err, want) || RejectedByBroker(err) != errors.Is(want, kerr.MessageTooLarge) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("x")}))
}

// Groups read on their own, and each reads everything once, in the order of offsets.
func TestGroupsReadEverythingInOrder(t *testing.T) { onEachLog(t, 3, testGroupsReadEverythingInOrder) }

func testGroupsReadEverythingInOrder(t *testing.T, c Config, p *Producer) {
	const many = 600
	random := rand.New(rand.NewPCG(1, 1))
	topics := []string{Events, Outcomes}
	for i := range many {
		p.ProduceUnordered(topics[i%2], int32(random.IntN(3)), &Record{Value: fmt.Append(nil, i)},
			func(_ *Record, err error) {
				is.OK(t, err)
			})
	}
	var all sync.WaitGroup
	for _, group := range []string{"one", "two"} {
		all.Go(func() {
			g := must.Get(NewGroup(c, GroupConfig{Name: group, Topics: topics, MaxPoll: 7, MaxWait: 50 * time.Millisecond}))(t)
			defer g.Close()
			next, seen := make(map[Partition]int64), make(map[string]bool)
			for len(seen) < many {
				must.Do(t, g.Poll(t.Context(), func(p Partition, records []*Record) {
					for _, r := range records {
						if r.Offset != next[p] || seen[string(r.Value)] || r.Topic != c.Prefix+p.Topic {
							t.Errorf("%v: %s at %d, want offset %d", p, r.Value, r.Offset, next[p])
						}
						next[p], seen[string(r.Value)] = r.Offset+1, true
					}
				}))
			}
			for p := range next {
				is.Equal(t, g.Lag(p), 0, "%v lags by", p)
			}
		})
	}
	all.Wait()
	is.OK(t, p.Flush(t.Context()))
}

// A partition that is paused is not read until it is resumed. Others are.
func TestPause(t *testing.T) { onEachLog(t, 2, testPause) }

func testPause(t *testing.T, c Config, p *Producer) {
	m := join(t, c, GroupConfig{})
	produce := func(partition int32) {
		must.Do(t, p.ProduceSync(t.Context(), Events, partition, &Record{Value: []byte("x")}))
	}
	produce(0)
	poll(t, m, func([]*Record) bool { return true })
	paused := Partition{Events, 0}
	m.Pause(paused)
	produce(0)
	produce(1)
	for range 5 {
		batches := must.Get(m.PollFor(t.Context(), 50*time.Millisecond))(t)
		for _, b := range batches {
			if b.Partition == paused {
				t.Error("a paused partition was read")
			}
		}
	}
	m.Resume(paused)
	poll(t, m, func(rs []*Record) bool { return rs[0].Partition == 0 && rs[0].Offset == 1 })
}

// The next owner begins where the one before has committed, with its gaps. That one cannot commit any more.
func TestNextOwner(t *testing.T) { onEachLog(t, 1, testNextOwner) }

func testNextOwner(t *testing.T, c Config, p *Producer) {
	at := Partition{Topic: Events}
	for range 5 {
		must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("x")}))
	}
	commit := func(offset int64) map[Partition]Commit {
		return map[Partition]Commit{at: {Offset: offset, Metadata: metadata(t, offset, Gap{offset + 1, offset + 2})}}
	}
	var first *Group
	revoked := 0
	first = join(t, c, GroupConfig{Revoked: func(ctx context.Context, ps []Partition) {
		if revoked++; !slices.Contains(ps, at) {
			t.Errorf("revoked: %v", ps)
		}
		must.Do(t, first.Commit(ctx, commit(2))) // the last chance
	}})
	poll(t, first, func([]*Record) bool { return true })
	must.Do(t, first.Commit(t.Context(), commit(1)))
	first.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := first.Commit(ctx, commit(4)); err == nil || revoked != 1 {
		t.Errorf("the old owner commits: %v, revoked %d times", err, revoked)
	}
	if err := first.Poll(t.Context(), nil); err == nil {
		t.Error("the old owner polls")
	}
	var start Commit
	next := join(t, c, GroupConfig{Assigned: func(all map[Partition]Commit) { start = all[at] }})
	poll(t, next, func(rs []*Record) bool {
		is.Equal(t, rs[0].Offset, 2, "begins at")
		return true
	})
	if gaps, err := start.Gaps(); err != nil || start.Offset != 2 || len(gaps) != 1 || gaps[0] != (Gap{3, 4}) {
		t.Errorf("%+v, gaps %v, %v", start, gaps, err)
	}
}

// A second member of a group in one process waits until the first is closed.
func TestMembersTakeTurns(t *testing.T) {
	t.Parallel()
	c := Config{Embedded: localLog(t, t.TempDir()), Prefix: "t."}
	must.Get(Migrate(t.Context(), c, 1, 1))(t)
	p := must.Get(NewProducer(c, "test"))(t)
	first, second := join(t, c, GroupConfig{}), join(t, c, GroupConfig{})
	must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("x")}))
	poll(t, first, func([]*Record) bool { return true })
	read := make(chan error, 1)
	go func() { read <- second.Poll(t.Context(), func(Partition, []*Record) {}) }()
	for n := 0; n != 2; {
		n = must.Get(reader(t, c).MemberCount(t.Context(), "group"))(t)
	}
	select {
	case err := <-read:
		t.Errorf("the second member read beside the first: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	if err := <-read; err != nil { // nothing was committed
		t.Error(err)
	}
}

// A full buffer refuses records, and has room again when they are acknowledged.
func TestBufferOfTheLogInThisProcess(t *testing.T) {
	t.Parallel()
	l := must.Get(OpenLog(LogConfig{Dir: t.TempDir()}))(t)
	c := Config{Embedded: l, Prefix: "t.", ProducerBufferBytes: 1000}
	must.Get(Migrate(t.Context(), c, 1, 1))(t)
	p := must.Get(NewProducer(c, "test"))(t)
	taken, refused := make(chan error, 1), make(chan error, 1)
	p.Produce(Events, 0, &Record{Value: make([]byte, 900)}, func(_ *Record, err error) { taken <- err })
	p.Produce(Events, 0, &Record{Value: make([]byte, 200)}, func(_ *Record, err error) { refused <- err })
	p.Produce(Outcomes, 0, &Record{Value: make([]byte, 900)}, func(*Record, error) {})
	short, stop := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer stop()
	is.ErrorIs(t, p.WaitForRoom(short, &Record{Value: make([]byte, 200)}), context.DeadlineExceeded, "room")
	is.ErrorIs(t, p.Flush(short), context.DeadlineExceeded, "flush")
	ctx, cancel := context.WithCancel(t.Context()) // only a log that runs acknowledges
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	is.OK(t, <-taken)
	is.ErrorIs(t, <-refused, ErrBufferFull)
	must.Do(t, p.Flush(t.Context()))
	must.Do(t, p.WaitForRoom(t.Context(), &Record{Value: make([]byte, 1000)}))
	cancel()
	must.Do(t, <-ended)
}

// Groups and readers step over records that were lost, and nothing waits for them.
func TestReadersSkipMissingRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, stop := runLog(t, dir)
	c := Config{Embedded: l, Prefix: "t."}
	must.Get(Migrate(t.Context(), c, 1, 1))(t)
	produce := func(c Config, value string) {
		p := must.Get(NewProducer(c, "test"))(t)
		defer p.Close()
		must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte(value)}))
	}
	for i := range 6 {
		produce(c, fmt.Sprint("record ", i))
	}
	m := join(t, c, GroupConfig{})
	poll(t, m, func(rs []*Record) bool { return rs[len(rs)-1].Offset == 5 })
	metadata, _ := EncodeGaps(1, []Gap{{5, 6}}) // the others are still being delivered
	must.Do(t, m.Commit(t.Context(), map[Partition]Commit{{Events, 0}: {Offset: 1, Metadata: metadata}}))
	m.Close()
	stop()
	file := filepath.Join(dir, "t.events-0-00000000000000000000.seg")
	info := must.Get(os.Stat(file))(t)
	must.Do(t, os.Truncate(file, info.Size()/2))
	_, err := OpenLog(LogConfig{Dir: dir, Fsync: true})
	is.ErrorIs(t, err, ErrRecordsMissing)
	l = must.Get(OpenLog(LogConfig{Dir: dir, Fsync: true, SkipMissing: true}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	c.Embedded = l
	is.Equal(t, fmt.Sprint(l.Missing()), "[records 3 to 5 of t.events-0]")
	r := must.Get(NewReader(c, "test"))(t)
	ends := must.Get(r.Ends(t.Context(), Events))(t)
	read := func(to int64) (values []string) {
		must.Do(t, r.ReadRanges(t.Context(), []Range{{Partition{Events, 0}, 0, to}}, func(_ Partition, rs []*Record) error {
			for _, r := range rs {
				values = append(values, string(r.Value))
			}
			return nil
		}))
		return values
	}
	is.List(t, read(ends[Partition{Events, 0}]), []string{"record 0", "record 1", "record 2"})
	is.List(t, read(6), []string{"record 0", "record 1", "record 2"}) // up to a committed offset
	produce(c, "next")
	is.List(t, read(7), []string{"record 0", "record 1", "record 2", "next"})
	is.List(t, read(5), []string{"record 0", "record 1", "record 2"})
	var values []string
	poll(t, join(t, c, GroupConfig{}), func(rs []*Record) bool {
		for _, r := range rs {
			values = append(values, fmt.Sprint(r.Offset, " ", string(r.Value)))
		}
		return values[len(values)-1] == "6 next"
	})
	is.List(t, values, []string{"1 record 1", "2 record 2", "6 next"})
	cancel()
	must.Do(t, <-ended)
}

// Records, commits, topics and the start of the log survive a restart. Those of topics without readers go by age.
func TestLogInThisProcessAfterRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, stop := runLog(t, dir)
	c := Config{Embedded: l, Prefix: "t."}
	must.Get(Migrate(t.Context(), c, 2, 1))(t)
	p := must.Get(NewProducer(c, "test"))(t)
	for _, topic := range []string{Events, Dead, Nodes} {
		for range 4 {
			must.Do(t, p.ProduceSync(t.Context(), topic, 0, &Record{Value: []byte("x")}))
		}
	}
	at := Partition{Topic: Events}
	m := join(t, c, GroupConfig{})
	poll(t, m, func([]*Record) bool { return true })
	must.Do(t, m.Commit(t.Context(), map[Partition]Commit{at: {Offset: 3, Metadata: "m"}}))
	must.Do(t, reader(t, c).Trim(t.Context(), at, 2))
	must.Do(t, l.expire(time.Now().Add(2*time.Hour)))
	_, id, err := reader(t, c).TopicID(t.Context(), Control)
	must.Do(t, err)
	m.Close()
	stop()

	c.Embedded = localLog(t, dir)
	r := reader(t, c)
	starts := must.Get(r.Starts(t.Context(), Events, Dead, Nodes))(t)
	ends := must.Get(r.Ends(t.Context(), Events, Nodes))(t)
	if starts[at] != 2 || ends[at] != 4 || starts[Partition{Topic: Dead}] != 0 || starts[Partition{Topic: Nodes}] != 4 ||
		ends[Partition{Topic: Nodes}] != 4 {
		t.Errorf("starts %v, ends %v", starts, ends)
	}
	if _, again, err := r.TopicID(t.Context(), Control); err != nil || again != id || id == "" {
		t.Errorf("id %q, then %q, %v", id, again, err)
	}
	if all, err := r.Commits(t.Context(), "group", Events); err != nil || all[at] != (Commit{3, 0, "m"}) {
		t.Errorf("%v %v", all, err)
	}
	report := must.Get(CheckTopics(t.Context(), c, 1))(t)
	if report.Err() != nil || report.Partitions() != 2 {
		t.Errorf("%v", report.Err())
	}
	if grown, err := AddPartitions(t.Context(), c, report, 3); err != nil || len(grown) == 0 {
		t.Errorf("%v %v", grown, err)
	}
	if report = must.Get(CheckTopics(t.Context(), c, 1))(t); report.Partitions() != 3 || report.Err() != nil {
		t.Errorf("%d partitions", report.Partitions())
	}
}

func TestDecodeRefusesOtherBytes(t *testing.T) {
	whole := appendRecord(nil, &Record{
		Key: []byte("k"), Value: []byte("v"), Headers: []Header{{Key: "h", Value: []byte("1")}}})
	var d decoder
	for n := range whole {
		if d.decode(whole[:n], new(Record)) {
			t.Errorf("%d of %d bytes are a record", n, len(whole))
		}
	}
	if !d.decode(whole, new(Record)) {
		t.Error("a whole record is none")
	}
}

// Readers see a record before its sync. Until then it is not among those that are acknowledged.
func TestAcknowledgedEnds(t *testing.T) {
	t.Parallel()
	l := must.Get(OpenLog(LogConfig{Dir: t.TempDir(), Fsync: true}))(t)
	c := Config{Embedded: l, Prefix: "t."}
	must.Get(Migrate(t.Context(), c, 1, 1))(t)
	p, r := must.Get(NewProducer(c, "test"))(t), must.Get(NewReader(c, "test"))(t)
	acknowledged := make(chan error, 1)
	p.Produce(Events, 0, &Record{Value: []byte("v")}, func(_ *Record, err error) { acknowledged <- err })
	at := func(of func(context.Context, ...string) (map[Partition]int64, error), topic string) int64 {
		return must.Get(of(t.Context(), topic))(t)[Partition{topic, 0}]
	}
	is.Equal(t, at(r.Ends, Events), 1, "end before the sync")
	is.Equal(t, at(r.AcknowledgedEnds, Events), 0, "acknowledged before the sync")
	ctx, cancel := context.WithCancel(t.Context()) // only a log that runs syncs
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	must.Do(t, <-acknowledged)
	is.Equal(t, at(r.AcknowledgedEnds, Events), 1, "acknowledged after the sync")
	cancel()
	must.Do(t, <-ended)
}
