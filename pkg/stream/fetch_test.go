package stream

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// However many records other topics have, one poll returns at most MaxBytes of them, plus one record of each partition:
// an event waits for no more than that.
func TestFetchIsBounded(t *testing.T) { onEachLog(t, 4, testFetchIsBounded) }

func testFetchIsBounded(t *testing.T, c Config, p *Producer) {
	const size, many, limit = 1000, 400, 64 << 10
	for i := range many { // in batches of their own: the broker hands over whole batches
		must.Do(t, p.ProduceInOwnBatch(t.Context(), Tiers()[i%3].Topic, int32(i%4), &Record{Value: make([]byte, size)}))
	}
	g := must.Get(NewGroup(c, GroupConfig{
		Name: "g", Topics: []string{Events, Tiers()[0].Topic, Tiers()[1].Topic, Tiers()[2].Topic}, MaxBytes: limit}))(t)
	t.Cleanup(g.Close)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for got := 0; got < many; {
		bytes := 0
		if err := g.Poll(ctx, func(_ Partition, records []*Record) {
			got += len(records)
			bytes += len(records) * size
		}); err != nil {
			t.Fatalf("%v, after %d records", err, got)
		}
		if bytes > limit {
			t.Fatalf("one poll returned %d bytes", bytes)
		}
	}
}

// While one partition always has more than a fetch returns, a record of another partition is read within the next
// fetches, even if it is larger than MaxPartitionBytes.
func TestFetchIsFair(t *testing.T) {
	t.Parallel()
	const limit = fairLimit
	for name, c := range map[string]struct {
		cfg  GroupConfig
		size int // of the record of the quiet partition, in bytes
	}{
		"small beside a full fetch":     {GroupConfig{MaxBytes: limit}, 100},
		"large beside small partitions": {GroupConfig{MaxPartitionBytes: limit}, 3 * limit},
		"large beside a full fetch":     {GroupConfig{MaxBytes: limit, MaxPartitionBytes: limit}, 3 * limit},
	} {
		t.Run(name, func(t *testing.T) {
			onEachLog(t, 4, func(t *testing.T, conf Config, producer *Producer) {
				testFetchIsFair(t, conf, producer, c.cfg, c.size)
			})
		})
	}
}

const fairLimit = 64 << 10

func testFetchIsFair(t *testing.T, conf Config, producer *Producer, cfg GroupConfig, size int) {
	const many = 200
	produce := func(topic string, index int32, size int) {
		t.Helper()
		must.Do(t, producer.ProduceInOwnBatch(t.Context(), topic, index, &Record{Value: make([]byte, size)}))
	}
	for range many {
		produce(Commands, 0, fairLimit/2)
	}
	cfg.Name, cfg.Topics = "g", []string{Commands, Events, Outcomes, Receipts, Tiers()[0].Topic}
	g := must.Get(NewGroup(conf, cfg))(t)
	t.Cleanup(g.Close)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	busy := 0
	poll := func() (quiet bool) {
		t.Helper()
		must.Do(t, g.Poll(ctx, func(p Partition, records []*Record) {
			if quiet = quiet || p.Topic == Outcomes; p.Topic == Commands {
				busy += len(records)
			}
		}))
		return quiet
	}
	for index := range int32(4) {
		for range 5 {
			poll()
		}
		produce(Outcomes, index, size)
		before := busy
		for !poll() {
		}
		// One fetch may be in flight, and one may be sent before the order follows from its answer.
		if n := busy - before; n > 8 {
			t.Errorf("the record of partition %d came after %d records of the busy one", index, n)
		}
	}
	if busy == many {
		t.Error("the busy partition had no more")
	}
}

// fetchCounter counts the fetches of a cluster, and those that name a partition of the retry topics. Without sessions a
// fetch names all partitions that it asks for.
type fetchCounter struct {
	mu         sync.Mutex
	all, tiers int
}

func (a *fetchCounter) watch(cluster *kfake.Cluster) {
	cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all++
		for _, t := range req.Topics {
			if info := cluster.TopicInfo("t.retry.1s"); t.Topic == "t.retry.1s" || info != nil && t.TopicID == info.TopicID {
				a.tiers++
			}
		}
		return nil, nil, false
	})
}

func (a *fetchCounter) count() (all, tiers int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all, a.tiers
}

// While other topics keep a group busy, delay-tolerant topics are left out of most fetches. Their records are still
// read within half a second, from every broker.
func TestDelayTolerantTopicsArePaused(t *testing.T) {
	t.Parallel()
	cluster := must.Get(kfake.NewCluster(
		kfake.NumBrokers(3), kfake.BrokerConfigs(map[string]string{"max.incremental.fetch.session.cache.slots": "0"})))(t)
	t.Cleanup(cluster.Close)
	c := Config{Brokers: cluster.ListenAddrs(), Prefix: "t."}
	must.Get(Migrate(t.Context(), c, 3, 1))(t)
	for p := range int32(3) { // broker 2 has only a partition of the delay-tolerant topic
		must.Do(t, cluster.MoveTopicPartition("t.events", p, 0))
	}
	must.Do(t, cluster.MoveTopicPartition("t.retry.1s", 1, 2))
	var seen fetchCounter
	seen.watch(cluster)
	p := must.Get(NewProducer(c, "test"))(t)
	t.Cleanup(p.Close)
	m := tolerantGroup(t, c)

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var writers sync.WaitGroup
	busy, rest := context.WithCancel(ctx)
	writers.Go(func() { // keeps the group busy
		for busy.Err() == nil {
			_ = p.ProduceSync(busy, Events, 0, &Record{Value: []byte("x")})
		}
	})
	const rounds, apart = 6, 200 // polls between two records of the delay-tolerant topic
	late := make([]time.Duration, 0, rounds)
	var sent time.Time
	for polls := 0; len(late) < rounds; polls++ {
		if sent.IsZero() && polls >= apart {
			sent, polls = time.Now(), 0
			must.Do(t, p.ProduceSync(ctx, "retry.1s", int32(len(late)%3), &Record{Value: []byte{byte(len(late))}}))
		}
		must.Do(t, m.Poll(ctx, func(from Partition, rs []*Record) {
			if from.Topic == "retry.1s" {
				if len(rs) != 1 || int(rs[0].Value[0]) != len(late) {
					t.Errorf("%d records, the first %v, want number %d", len(rs), rs[0].Value, len(late))
				}
				late, sent = append(late, time.Since(sent)), time.Time{}
			}
		}))
	}
	rest()
	writers.Wait()
	all, tiers := seen.count()
	t.Logf("%d of %d fetches asked for the delay-tolerant topic; its records were read after %v", tiers, all, late)
	if tiers > all/2 {
		t.Errorf("%d of %d fetches asked for the delay-tolerant topic", tiers, all)
	}
}

func tolerantGroup(t *testing.T, c Config) *Group {
	t.Helper()
	m := must.Get(NewGroup(c, GroupConfig{
		Name: "group", Topics: []string{Events, "retry.1s"}, DelayTolerant: []string{"retry.1s"},
		MaxWait: 50 * time.Millisecond}))(t)
	t.Cleanup(m.Close)
	return m
}

// fakePauser records whether its topics are paused.
type fakePauser struct{ paused bool }

func (f *fakePauser) PauseFetchTopics(...string) []string { f.paused = true; return nil }
func (f *fakePauser) ResumeFetchTopics(...string)         { f.paused = false }

func TestWhenTopicsArePaused(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	client := &fakePauser{}
	r := newFetchPause("t.", []string{"slow"}, 100)
	r.cl = client
	fetched := func(broker int32, n int) {
		for range n {
			r.OnBrokerE2E(kgo.BrokerMetadata{NodeID: broker}, int16(kmsg.Fetch), kgo.BrokerE2E{})
		}
	}
	poll := func(all, tolerant int) (paused bool) {
		r.pollDeadline(now)
		r.afterPoll(now, all, tolerant)
		return client.paused
	}
	steps := []struct {
		name          string
		before        func()
		all, tolerant int
		after         time.Duration
		paused, done  bool
	}{
		{name: "nothing was asked", all: 1},
		{name: "one fetch may have been on its way", before: func() { fetched(1, 1) }, all: 1},
		{name: "the second was asked for them", before: func() { fetched(1, 1) }, all: 1},
		{name: "and had nothing", all: 1, paused: true},
		{name: "rests", all: 1, after: maxPause - 1, paused: true},
		{name: "wakes", all: 1, after: 1},
		{name: "answered", before: func() { fetched(1, 2) }, all: 1},
		{name: "has records", all: 1, tolerant: 1},
		{name: "asked again", before: func() { fetched(1, 2) }, all: 1},
		{name: "more is at hand", all: 100},
		{name: "answered after that", before: func() { fetched(1, 2) }, all: 1},
		{name: "nothing any more", all: 1, paused: true},
		{name: "but not for long, since there were some", all: 1, after: minPause - 1, paused: true},
		{name: "a second broker comes", before: func() { fetched(2, 1) }, all: 1, after: 1},
		{name: "the first alone is not enough", before: func() { fetched(1, 5) }, all: 1},
		{name: "nor later", all: 1},
		{name: "both", before: func() { fetched(2, 2) }, all: 1},
		{name: "both had nothing", all: 1, paused: true},
		{name: "for longer now", all: 1, after: 2*minPause - 1, paused: true},
		{name: "wakes once more", all: 1, after: 1},
		{name: "a partition is held", before: func() {
			fetched(1, 2)
			fetched(2, 2)
			r.setCallerPaused([]Partition{{"slow", 1}, {"fast", 1}}, true)
		}, all: 1},
		{name: "still held", all: 1},
		{name: "no more", before: func() { r.setCallerPaused([]Partition{{"slow", 1}}, false) }, all: 1},
		{name: "rests again", all: 1, paused: true},
		{name: "broker 2 is silent", before: func() {}, all: 1, after: 4 * minPause},
		{name: "for all of this waking", before: func() { fetched(1, 5); fetched(2, 2) }, all: 1},
		{name: "rest", all: 1, paused: true},
	}
	for _, s := range steps {
		now = now.Add(s.after)
		if s.before != nil {
			s.before()
		}
		must.Equal(t, poll(s.all, s.tolerant), s.paused, "%s: paused", s.name)
	}
	// A broker that is gone does not keep the topics unpaused for ever.
	now = now.Add(maxPause)
	poll(1, 0) // resumes; both brokers are known
	fetched(1, 2)
	r.afterPoll(now, 1, 0)
	if poll(1, 0) {
		t.Fatal("paused although broker 2 has answered nothing")
	}
	r.pausedUntil = now // as if the pause had ended
	poll(1, 0)
	fetched(1, 2)
	poll(1, 0)
	if !poll(1, 0) {
		t.Error("a broker that has not answered since the topics were resumed prevents the pause")
	}
}

// A group without delay-tolerant topics polls without a deadline.
func TestNoPauseWithoutDelayTolerantTopics(t *testing.T) {
	t.Parallel()
	r := newFetchPause("t.", nil, 100)
	r.OnBrokerE2E(kgo.BrokerMetadata{NodeID: 1}, int16(kmsg.Fetch), kgo.BrokerE2E{})
	for range 5 {
		if end := r.pollDeadline(time.Now()); !end.IsZero() {
			t.Error("a poll has a deadline")
		}
		r.afterPoll(time.Now(), 1, 0)
	}
}

func TestRecordRate(t *testing.T) {
	t.Parallel()
	var x recordRate
	now := time.Hour
	// run counts records for a second, the given time apart, and returns for how many the rate was high.
	run := func(apart time.Duration) (busy int) {
		for range time.Second / apart {
			now += apart
			if x.countRecord(now) {
				busy++
			}
		}
		return busy
	}
	is.Equal(t, run(2*time.Millisecond), 0, "at 500 a second the rate was high for … of 500")
	if n := run(100 * time.Microsecond); n < 9_800 {
		t.Errorf("at 10,000 a second the rate was high for only %d", n)
	}
	now += time.Minute
	if x.countRecord(now) {
		t.Error("after a minute without records the rate is still high")
	}
	is.Equal(t, run(600*time.Microsecond), 0, "at 1,667 a second the rate was high for")
}
