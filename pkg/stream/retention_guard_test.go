package stream

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

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
	must.Get(r.logReader.(*kafkaReader).adm.AlterTopicConfigs(t.Context(), alter, c.Prefix+Receipts))(t)
	must.Do(t, p.ProduceSync(t.Context(), Receipts, 0, &Record{Value: []byte("x")}))
	f("a topic that somebody has given a limit", 31*time.Minute, StoreGroup, warnShare)
	f("and nobody has ever read", 55*time.Minute, StoreGroup, refuseShare)
}
