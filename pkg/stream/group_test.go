package stream

import (
	"context"
	"errors"
	"log/slog"
	"strings"
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
