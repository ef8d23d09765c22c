package node

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The clock steps forward and is set back. That no event is accepted is logged once, with the time until which, and the
// check and the metric show it as long as it lasts.
func TestClockThatWasAhead(t *testing.T) {
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	now := start
	var log bytes.Buffer
	reg := prometheus.NewRegistry()
	ids := newIDs(func() time.Time { return now }, slog.New(slog.NewTextHandler(&log, nil)), reg)
	var check api.Check
	for _, c := range (&Node{ids: ids}).checks() {
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
