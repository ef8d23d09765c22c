package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// slowLog answers each record a second after it was produced.
type slowLog struct {
	room     int // records
	fails    int // the number of the record that fails, from 1
	produced int
	answered int32
}

func (l *slowLog) WaitForRoom(context.Context, *stream.Record) error {
	if l.produced == l.room {
		return errors.New("no room")
	}
	return nil
}

func (l *slowLog) Produce(_ string, _ int32, r *stream.Record, done func(*stream.Record, error)) {
	l.produced++
	var err error
	if l.produced == l.fails {
		err = errors.New("no leader")
	}
	time.AfterFunc(time.Second, func() { atomic.AddInt32(&l.answered, 1); done(r, err) })
}

// When appendAll returns an error, no record is in flight: a caller that repeats the call must not race with the
// records of the first.
func TestNothingIsInFlightAfterAnError(t *testing.T) {
	errRecord := errors.New("cannot be made")
	for name, c := range map[string]struct {
		log                    slowLog
		bad                    int // the number of the record that cannot be made, from 1
		want                   error
		produced, acknowledged int
	}{
		"all are durable":        {log: slowLog{room: 10}, produced: 5, acknowledged: 5},
		"one cannot be made":     {log: slowLog{room: 10}, bad: 4, want: errRecord, produced: 3, acknowledged: 3},
		"no room for the fourth": {log: slowLog{room: 3}, want: stream.ErrBufferFull, produced: 3, acknowledged: 3},
		"one is rejected":        {log: slowLog{room: 10, fails: 2}, want: errors.New("any"), produced: 5, acknowledged: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				record := func(n int) (int32, *stream.Record, error) {
					if n == c.bad {
						return 0, nil, errRecord
					}
					return 0, &stream.Record{}, nil
				}
				n, err := appendAll(t.Context(), &c.log, stream.Commands, []int{1, 2, 3, 4, 5}, record)
				if (err == nil) != (c.want == nil) || c.log.fails == 0 && !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				if n != c.acknowledged || c.log.produced != c.produced || int(c.log.answered) != c.produced {
					t.Errorf("%d of %d are durable, %d answered, want %d of %d",
						n, c.log.produced, c.log.answered, c.acknowledged, c.produced)
				}
			})
		})
	}
}

// When the context ends, appendAll does not wait for the answers.
func TestAppendingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		log := &slowLog{room: 10}
		record := func(int) (int32, *stream.Record, error) { return 0, &stream.Record{}, nil }
		n, err := appendAll(ctx, log, stream.Commands, []int{1, 2}, record)
		if n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d are durable, %v", n, err)
		}
		time.Sleep(2 * time.Second) // the late answers do not block the producer
	})
}

// The clock steps forward and is set back. That no event is accepted is logged once, with the time until which, and the
// check and the metric show it as long as it lasts.
func TestClockThatWasAhead(t *testing.T) {
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	now := start
	var log bytes.Buffer
	reg := prometheus.NewRegistry()
	ids := newIDs(func() time.Time { return now }, slog.New(slog.NewTextHandler(&log, nil)), reg)
	var check api.Check
	for _, c := range (&Node{Host: features.Host{Settings: &nodeconfig.Config{}}, ids: ids}).checks() {
		if c.Name == "ids" {
			check = c
		}
	}
	expect := func(moment string, refused bool, ahead float64, lines int) {
		t.Helper()
		if _, err := ids.New(0); errors.Is(err, id.ErrClock) != refused {
			t.Errorf("%s: New: %v", moment, err)
		}
		if err := check.Func(t.Context()); (err != nil) != refused || refused &&
			!strings.Contains(err.Error(), "issued ids are ahead") {
			t.Errorf("%s: check: %v", moment, err)
		}
		if n := strings.Count(log.String(), "\n"); n != lines {
			t.Errorf("%s: %d log lines, want %d:\n%s", moment, n, lines, log.String())
		}
		if got, err := testutil.GatherAndCount(reg, "relay_id_ahead_seconds"); got != 1 || err != nil {
			t.Fatal(got, err)
		}
		families := must.Get(reg.Gather())(t)
		is.Equal(t, families[0].GetMetric()[0].GetGauge().GetValue(), ahead, "%s: s ahead", moment)
	}
	expect("at first", false, 0, 0)
	now = start.Add(time.Hour)
	expect("an hour ahead", false, 0, 0)
	now = start
	expect("set right", true, 3600, 1)
	is.Has(t, log.String(), "until=2026-11-01T12:59:30.000Z", "the log does not say when it ends")
	now = start.Add(time.Minute)
	expect("a minute later", true, 3540, 1)
	before, after := ids.NewUnbounded(0), ids.NewUnbounded(0)
	if bytes.Compare(before[:], after[:]) >= 0 || !before.Time().Equal(start.Add(time.Hour)) {
		t.Errorf("ids of attempts: %v, %v", before, after)
	}
	now = start.Add(59*time.Minute + 30*time.Second)
	expect("caught up", false, 30, 2)
	now = start.Add(2 * time.Hour)
	expect("long after", false, 0, 2)
}

// A node that starts while its broker is stopping waits for the next broker.
func TestAwaitLog(t *testing.T) {
	t.Parallel()
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(1)))(t)
	t.Cleanup(cluster.Close)
	var cut atomic.Int64 // connections that are closed at once
	dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil && cut.Add(-1) >= 0 {
			c.Close()
			return hungUp{c}, nil
		}
		return c, err
	}
	c := stream.Config{Brokers: cluster.ListenAddrs(), Prefix: "t."}
	must.Get(stream.Migrate(t.Context(), c, 3, 1))(t)
	c.DialFunc = dialer
	var log strings.Builder
	n := &Node{Host: features.Host{Settings: &nodeconfig.Config{Replication: 1}, Stream: c,
		Log: slog.New(slog.NewTextHandler(&log, nil))}}
	cut.Store(5)
	ctx, stop := context.WithTimeout(t.Context(), kit.BusyFactor*20*time.Second)
	defer stop()
	partitions := must.Get(n.awaitLog(ctx))(t)
	is.Equal(t, partitions, 3, "partitions")
	if cut.Load() > 0 || !strings.Contains(log.String(), "waiting for Kafka") {
		t.Errorf("%d connections were not tried, %s", cut.Load(), &log)
	}
}

// hungUp is a connection that the other end has closed.
type hungUp struct{ net.Conn }

func (hungUp) Read([]byte) (int, error)    { return 0, io.EOF }
func (hungUp) Write(p []byte) (int, error) { return len(p), nil }

// A component whose role no node can have would never start. Without RELAY_ROLES a node has every role.
func TestRoles(t *testing.T) {
	for _, c := range starts {
		if c.role != "" && !slices.Contains(nodeconfig.Roles(), c.role) {
			t.Errorf("%s needs the role %q, which no node can have", c.name, c.role)
		}
	}
	field, _ := reflect.TypeFor[nodeconfig.Config]().FieldByName("Roles")
	if got, want := field.Tag.Get("default"), strings.Join(nodeconfig.Roles(), ","); got != want {
		t.Errorf("the default of RELAY_ROLES is %q, want %q", got, want)
	}
}
