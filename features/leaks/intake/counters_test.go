package intake

import (
	"errors"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
)

// countsLog is a log of counters in memory.
type countsLog struct {
	*testing.T
	last *finding.Counts
	n    int
	err  error // of every record
}

// ProduceUnordered implements Producer.
func (l *countsLog) ProduceUnordered(_ string, _ int32, r *stream.Record, done func(*stream.Record, error)) {
	l.Helper()
	var err error
	if l.last, err = finding.DecodeCounts(r.Value); err != nil {
		l.Fatal(err)
	}
	l.n++
	done(r, l.err)
}

// A minute keeps the error of its newest refused request and the newest known platform: an accepted request has no
// error, and a refused one often no platform.
func TestCountersKeepTheNewestErrorAndPlatform(t *testing.T) {
	log := &countsLog{T: t}
	c := NewCounters("node-1", 4, log)
	at := time.Date(2026, 8, 21, 22, 24, 36, 0, time.UTC)
	for _, x := range []struct {
		add                 Counted
		platform, lastError string
	}{
		{Counted{Requests: 1, Platform: "sdk 1"}, "sdk 1", ""},
		{Counted{Requests: 1, Rejected: 1, LastError: "too_large"}, "sdk 1", "too_large"},
		{Counted{Requests: 1, Platform: "sdk 2"}, "sdk 2", "too_large"},
		{Counted{Requests: 1, Rejected: 1, LastError: "rate_limited"}, "sdk 2", "rate_limited"},
	} {
		at = at.Add(time.Second)
		c.Add("acc_1", "dsn_1", at, x.add)
		c.Report(at)
		if got := log.last; got.Platform != x.platform || got.LastError != x.lastError || !got.LastAt.Equal(at) {
			t.Errorf("after %+v: %+v, want platform %q and error %q", x.add, got, x.platform, x.lastError)
		}
	}
	if got := log.last; got.Requests != 4 || got.Rejected != 2 {
		t.Errorf("%+v", got)
	}
	c.Add("acc_1", "dsn_1", at.Add(time.Minute), Counted{Requests: 1})
	if c.Report(at.Add(time.Minute)); log.last.LastError != "" || log.last.Requests != 1 {
		t.Errorf("another minute: %+v", log.last)
	}
}

// A minute leaves memory once it is over and the log has it.
func TestCountersForgetReportedMinutes(t *testing.T) {
	log := &countsLog{T: t, err: errors.New("away")}
	c := NewCounters("node-1", 4, log)
	at := time.Date(2026, 8, 21, 22, 24, 36, 0, time.UTC)
	c.Add("acc_1", "drn_1", at, Counted{Requests: 1})
	later := at.Add(time.Hour)
	for range 2 {
		c.Report(later)
	}
	if log.n != 2 || c.isReported() || len(c.minutes) != 1 {
		t.Errorf("without the log: %d records, %d minutes in memory", log.n, len(c.minutes))
	}
	log.err = nil
	for range 3 {
		c.Report(later)
	}
	if log.n != 3 || !c.isReported() || len(c.minutes) != 0 {
		t.Errorf("%d records, %d minutes in memory", log.n, len(c.minutes))
	}
}
