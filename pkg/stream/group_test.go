package stream

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// onEachLog runs a test on Kafka and on the log in this process. Topics that are keyed by endpoint have that many
// partitions.
func onEachLog(t *testing.T, partitions int32, test func(t *testing.T, c Config, p *Producer)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) Config{
		"kafka": func(t *testing.T) Config {
			cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1)))(t)
			t.Cleanup(cluster.Close)
			// No sessions: kfake serves first in one what had records last time.
			cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				req.(*kmsg.FetchRequest).SessionID, req.(*kmsg.FetchRequest).SessionEpoch = 0, -1
				return nil, nil, false
			})
			return Config{Brokers: cluster.ListenAddrs(), Prefix: "t."}
		},
		"in this process": func(t *testing.T) Config { return Config{Embedded: localLog(t, t.TempDir()), Prefix: "t."} },
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			must.Get(Migrate(t.Context(), c, partitions, 1))(t)
			p := must.Get(NewProducer(c, "test"))(t)
			t.Cleanup(p.Close)
			test(t, c, p)
		})
	}
}

// localLog runs a log in a directory until the test ends.
func localLog(t *testing.T, dir string) *Log {
	t.Helper()
	l, stop := runLog(t, dir)
	t.Cleanup(stop)
	return l
}

// runLog runs a log in a directory until stop is called.
func runLog(t *testing.T, dir string) (l *Log, stop func()) {
	t.Helper()
	l = must.Get(OpenLog(LogConfig{Dir: dir, Fsync: true}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	return l, func() {
		cancel()
		is.OK(t, <-ended)
	}
}

// broker starts a broker with one partition of each topic.
func broker(t *testing.T) (*kfake.Cluster, Config, *Producer) {
	t.Helper()
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	c := Config{Brokers: cluster.ListenAddrs(), Prefix: "t."}
	must.Get(Migrate(t.Context(), c, 1, 1))(t)
	p := must.Get(NewProducer(c, "test"))(t)
	t.Cleanup(p.Close)
	return cluster, c, p
}

func join(t *testing.T, c Config, g GroupConfig) *Group {
	t.Helper()
	g.Name, g.Topics, g.MaxWait = "group", []string{Events}, 100*time.Millisecond
	m := must.Get(NewGroup(c, g))(t)
	t.Cleanup(m.Close)
	return m
}

// poll polls until enough returns true.
func poll(t *testing.T, m *Group, enough func([]*Record) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for done := false; !done; {
		must.Do(t, m.Poll(ctx, func(_ Partition, rs []*Record) { done = enough(rs) }))
	}
}

// A log is truncated and grows again: the new records at these offsets are read under a new assignment.
func TestTruncatedLogIsReadAgain(t *testing.T) { onEachLog(t, 1, testTruncatedLogIsReadAgain) }

func testTruncatedLogIsReadAgain(t *testing.T, c Config, p *Producer) {
	at := Partition{Topic: Events}
	produce := func() {
		t.Helper()
		must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("x")}))
	}
	produce()
	before := join(t, c, GroupConfig{})
	poll(t, before, func([]*Record) bool { return true })
	must.Do(t, before.Commit(t.Context(), map[Partition]Commit{at: {Offset: 50, LeaderEpoch: -1}}))
	before.Close()
	produce()

	var calls []string
	var commits []Commit
	m := join(t, c, GroupConfig{
		Assigned:  func(all map[Partition]Commit) { calls, commits = append(calls, "assigned"), append(commits, all[at]) },
		Lost:      func([]Partition) { calls = append(calls, "lost") },
		Truncated: func(Partition) { calls = append(calls, "truncated") },
	})
	poll(t, m, func(rs []*Record) bool { calls = append(calls, "records"); return rs[len(rs)-1].Offset == 1 })
	if got := strings.Join(calls, " "); got != "assigned lost truncated assigned records" || commits[0].Offset != 50 ||
		commits[1].Offset != 0 {
		t.Errorf("%s %+v, want assigned lost truncated assigned records, at 50 and at 0", got, commits)
	}
	produce()
	poll(t, m, func([]*Record) bool { return true })
	is.Equal(t, len(commits), 2, "assigned … times")
}

// A member that lacks permission to join logs it, and reads once it has the permission.
func TestFetchErrorIsLoggedAndRetried(t *testing.T) {
	cluster, c, p := broker(t)
	for range 2 {
		cluster.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
			resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
			resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
			return resp, nil, true
		})
	}
	var log kit.Buffer
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("x")}))
	poll(t, join(t, c, GroupConfig{}), func([]*Record) bool { return true })
	if n := strings.Count(log.String(), "GROUP_AUTHORIZATION_FAILED"); n != 1 {
		t.Errorf("the error was logged %d times, want once:\n%s", n, log.String())
	}
}

// A record that failed can be produced again, with the timestamp of the new attempt.
func TestFailedRecordCanBeProducedAgain(t *testing.T) {
	_, _, p := broker(t)
	r := &Record{Value: make([]byte, MaxMessageBytes)}
	if err := p.ProduceSync(t.Context(), Events, 0, r); err == nil {
		t.Fatal("a record as large as the largest batch was accepted")
	}
	if !r.Timestamp.IsZero() {
		t.Errorf("timestamp %v of the failed attempt is kept", r.Timestamp)
	}
	r.Value = []byte("x")
	if err := p.ProduceSync(t.Context(), Events, 0, r); err != nil || r.Timestamp.IsZero() {
		t.Errorf("second attempt: %v, time %v", err, r.Timestamp)
	}
}

// If metadata is too large, the offset is committed without it; other errors are returned.
func TestCommitMetadataTooLarge(t *testing.T) {
	cluster, c, p := broker(t)
	must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("x")}))
	at := Partition{Topic: Events}
	var dropped []Partition
	var commits []Commit
	m := join(t, c, GroupConfig{MetadataDropped: func(ps []Partition) { dropped = append(dropped, ps...) }})
	poll(t, m, func([]*Record) bool { return true })
	refuse := func(err *kerr.Error, count int) {
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "t." + Events, Err: err, Count: count})
	}
	commit := map[Partition]Commit{at: {Offset: 1, LeaderEpoch: -1, Metadata: "large"}}
	refuse(kerr.OffsetMetadataTooLarge, 1)
	if err := m.Commit(t.Context(), commit); err != nil || len(dropped) != 1 || dropped[0] != at {
		t.Errorf("%v, dropped %v", err, dropped)
	}
	refuse(kerr.InvalidCommitOffsetSize, 2) // without metadata as well
	if err := m.Commit(t.Context(), commit); !errors.Is(err, kerr.InvalidCommitOffsetSize) || len(dropped) != 1 {
		t.Errorf("%v, dropped %v", err, dropped)
	}
	refuse(kerr.TopicAuthorizationFailed, 1)
	is.ErrorIs(t, m.Commit(t.Context(), commit), kerr.TopicAuthorizationFailed)
	m.Close()
	next := join(t, c, GroupConfig{Assigned: func(all map[Partition]Commit) { commits = append(commits, all[at]) }})
	must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("y")}))
	poll(t, next, func([]*Record) bool { return true })
	if len(commits) != 1 || commits[0].Offset != 1 || commits[0].Metadata != "" {
		t.Errorf("%+v", commits)
	}
}

// A group that polls for a while gets what came, or nothing without an error, and keeps offsets that it could not
// commit.
func TestPollForAndCommitAll(t *testing.T) { onEachLog(t, 1, testPollForAndCommitAll) }

func testPollForAndCommitAll(t *testing.T, c Config, p *Producer) {
	at := Partition{Topic: Events}
	for range 3 {
		must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("x")}))
	}
	m := join(t, c, GroupConfig{})
	var commits map[Partition]Commit
	for deadline := time.Now().Add(time.Minute); commits[at].Offset < 3; {
		batches, err := m.PollFor(t.Context(), 100*time.Millisecond)
		if err != nil || time.Now().After(deadline) {
			t.Fatal("3 records should come: ", err)
		}
		for _, b := range batches {
			commits = map[Partition]Commit{b.Partition: b.Done()}
		}
	}
	if batches, err := m.PollFor(t.Context(), time.Millisecond); err != nil || len(batches) > 0 {
		t.Errorf("at the end of the log: %v, %v", batches, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.PollFor(ended, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if err := m.CommitAll(ended, commits); err == nil || len(commits) != 1 {
		t.Errorf("a commit that fails: %v, and %d offsets are kept", err, len(commits))
	}
	if err := m.CommitAll(t.Context(), commits); err != nil || len(commits) != 0 {
		t.Errorf("a commit: %v, and %d offsets are kept", err, len(commits))
	}
	m.Close()
	next := join(t, c, GroupConfig{Assigned: func(start map[Partition]Commit) {
		is.Equal(t, start[at].Offset, 3, "the next member starts at")
	}})
	if batches, err := next.PollFor(t.Context(), 500*time.Millisecond); err != nil || len(batches) > 0 {
		t.Errorf("the next member reads %v, %v", batches, err)
	}
}

func TestIsForOneGroup(t *testing.T) {
	r := &Record{Headers: []Header{{Key: "relay-v", Value: []byte("1")}}}
	if IsForOneGroup(r) {
		t.Error("a record of all groups")
	}
	if r.Headers = append(r.Headers, Header{Key: HeaderOnlyGroup, Value: []byte(StoreGroup)}); !IsForOneGroup(r) {
		t.Error("a record that a retry has put back for the store")
	}
}

// Two members on two shards have one shard each, of all topics, and one in the order of partitions beside a member that
// does not know shards. Either way each partition has one owner.
func TestMembersHaveFewShards(t *testing.T) {
	t.Parallel()
	for name, shards := range map[string][]int{"shards": {2, 2}, "beside the version before": {2, 0}} {
		t.Run(name, func(t *testing.T) {
			cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1)))(t)
			defer cluster.Close()
			c := Config{Brokers: cluster.ListenAddrs(), Prefix: "t."}
			must.Get(Migrate(t.Context(), c, 8, 1))(t)
			var mu sync.Mutex
			owned := []map[Partition]bool{{}, {}}
			ctx, stop := context.WithCancel(t.Context())
			var polling sync.WaitGroup
			defer polling.Wait()
			defer stop()
			for i := range owned {
				leave := func(ps []Partition) {
					mu.Lock()
					defer mu.Unlock()
					for _, p := range ps {
						delete(owned[i], p)
					}
				}
				g := must.Get(NewGroup(c, GroupConfig{Name: "g", Topics: []string{Events, Outcomes}, Shards: shards[i],
					Assigned: func(commits map[Partition]Commit) {
						mu.Lock()
						defer mu.Unlock()
						for p := range commits {
							owned[i][p] = true
						}
					}, Revoked: func(_ context.Context, ps []Partition) { leave(ps) }, Lost: leave}))(t)
				polling.Go(func() {
					defer g.Close()
					for ctx.Err() == nil {
						_ = g.Poll(ctx, func(Partition, []*Record) {}) // until ctx ends
					}
				})
			}
			kit.WaitFor(t, "an assignment of eight partitions of two topics to each member", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(owned[0]) == 8 && len(owned[1]) == 8
			})
			mu.Lock()
			defer mu.Unlock()
			of := make(map[int32]int) // by shard: bits of its owners
			for i, ps := range owned {
				for p := range maps.Keys(ps) {
					of[p.Index%2] |= 1 << i
					if other := (Partition{Events, p.Index}); !ps[other] {
						t.Errorf("%v and %v have two owners", p, other)
					}
				}
			}
			is.Equal(t, of[0]&of[1] == 0, shards[1] > 0, "owners by shard: %b", of)
		})
	}
}
