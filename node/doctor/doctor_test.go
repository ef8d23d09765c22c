package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

func TestCheckAge(t *testing.T) {
	for age, want := range map[time.Duration]string{
		0: StateOK, warnAge - 1: StateOK, warnAge: StateWarn, failAge - 1: StateWarn, failAge: StateFail,
	} {
		if c := checkAge(age, "do", "text"); c.State != want || c.Text != "text" || (c.Advice != "") != (want != StateOK) {
			t.Errorf("%v: %+v, want %s", age, c, want)
		}
	}
}

func TestCheckDisk(t *testing.T) {
	const gib = 1 << 30
	f := func(free, size uint64, state, text string) {
		t.Helper()
		if c := checkDisk("/data", free, size); c.State != state || c.Text != text {
			t.Errorf("%d of %d: %+v", free, size, c)
		}
	}
	f(50*gib, 100*gib, StateOK, "50.0 GiB (50 %) free on the disk of /data")
	f(15*gib, 100*gib, StateOK, "15.0 GiB (15 %) free on the disk of /data")
	f(14*gib, 100*gib, StateWarn, "14.0 GiB (14 %) free on the disk of /data")
	f(4*gib, 100*gib, StateFail, "4.0 GiB (4 %) free on the disk of /data")
	f(0, 0, StateOK, "0.0 GiB (100 %) free on the disk of /data") // a file system without a size
}

func TestFormatAgeAndPlural(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 1234 * time.Millisecond: "1.2s", 83*time.Second + 400*time.Millisecond: "1m23s",
		50*time.Hour + 40*time.Second: "50h1m0s",
	} {
		if got := formatAge(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 deliveries", 1: "1 delivery", 2: "2 deliveries"} {
		if got := plural(n, "delivery"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// When no engine answers, every check says so, and none waits for another.
func TestEveryCheckFailsWhenNothingAnswers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	unavailable := errors.New("away")
	report, err := Examine(ctx, Target{
		Stream: stream.Config{Brokers: []string{"127.0.0.1:1"}}, ConfigErr: unavailable, Store: func(context.Context) error {
			return unavailable
		},
		Redis:   func(context.Context) (time.Duration, error) { return 0, unavailable },
		DataDir: "/nowhere", Now: time.Now,
		Ledger: func(ctx context.Context) Check { <-ctx.Done(); return Check{State: StateWarn} },
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ended with %v", err)
	}
	for _, c := range report.Checks {
		want := StateFail
		switch c.Name {
		case "redis", "disk", "ledger":
			want = StateWarn
		case "sizes", "nodes", "clock", "master keys":
			want = StateWarn // the check configuration says why
			if c.Text != "not checked: the check configuration failed" {
				t.Errorf("%+v", c)
			}
		}
		if c.State != want {
			t.Errorf("%+v", c)
		}
	}
	if err := report.Err(); err == nil ||
		!strings.HasPrefix(err.Error(), "failed: kafka, topics, rights, writers, dispatch, store, alerts, findings, "+
			"unread, dead, configuration, clickhouse") {
		t.Errorf("%v", err)
	}
}

func TestCheckWriters(t *testing.T) {
	f := func(others []stream.AllowedWriter, own string, err error, state, text string) {
		t.Helper()
		if c := checkWriters(others, own, err, "relay."); c.State != state || !strings.Contains(c.Text, text) ||
			len(c.Details) != len(others) && state == StateWarn && err == nil {
			t.Errorf("%+v, want %s: %s", c, state, text)
		}
	}
	single, all := stream.AllowedWriter{Principal: "User:a", Topics: []string{"relay.control"}},
		stream.AllowedWriter{Principal: "User:*"}
	f(nil, "User:relay", nil, StateOK, "nobody else")
	f([]stream.AllowedWriter{single}, "", nil, StateOK, "nobody else") // the relay itself, whose principal is unknown
	f([]stream.AllowedWriter{single}, "User:relay", nil, StateWarn, "1 other principal may write")
	f([]stream.AllowedWriter{all}, "", nil, StateWarn, "1 principal may write")
	f([]stream.AllowedWriter{single, all}, "", nil, StateWarn, "2 principals may write to topics of the relay, the relay "+
		"itself included")
	f(nil, "", stream.ErrNoAuthorizer, StateWarn, "no authorizer: every client that can connect may write to every topic")
	f(nil, "", stream.ErrACLsHidden, StateWarn, "cannot be read")
	f(nil, "", errors.New("away"), StateFail, "away")
}

func TestCheckBounds(t *testing.T) {
	if c := checkBounds([]config.BoundUsage{{Name: "endpoints", Used: 79, Limit: 100}}); c.State != StateOK {
		t.Errorf("%+v", c)
	}
	c := checkBounds([]config.BoundUsage{
		{Name: "endpoints", Used: 80, Limit: 100}, {Name: "answers", Used: 1, Limit: 100}})
	if c.State != StateWarn || c.Text != "near a limit: endpoints: 80 of 100" || len(c.Details) != 1 {
		t.Errorf("%+v", c)
	}
}

func TestCheckBackup(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := func(last time.Time, err error, state, text string) {
		t.Helper()
		x := checker{Target: Target{Now: func() time.Time { return now },
			BackedUp: func() (time.Time, error) { return last, err }}}
		c := x.backup(t.Context())
		if c.State != state || c.Text != text || (c.Advice == "") != (state == StateOK) {
			t.Errorf("%+v, want %s %q", c, state, text)
		}
	}
	f(time.Time{}, nil, StateWarn, "no backup was ever made")
	f(now.Add(-24*time.Hour), nil, StateOK, "the last backup began 24h0m0s ago")
	f(now.Add(-49*time.Hour), nil, StateWarn, "the last backup began 49h0m0s ago")
	f(now, errors.New("broken"), StateWarn, "cannot read when the last backup was made: broken")
}
