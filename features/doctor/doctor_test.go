package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
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
		if c := checkDisk("/data", free, size, 0, 0); c.State != state || c.Text != text {
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
		-time.Second: "0 s", 0: "0 s", 1234 * time.Millisecond: "1.2 s", 10 * time.Second: "10 s",
		83*time.Second + 400*time.Millisecond: "1 min 23 s", 27*time.Hour + 4*time.Minute: "27 h 4 min",
		50*time.Hour + 40*time.Second: "2 days",
	} {
		is.Equal(t, formatAge(d), want, "%v is", d)
	}
	for n, want := range map[int]string{0: "0 deliveries", 1: "1 delivery", 2: "2 deliveries"} {
		is.Equal(t, plural(n, "delivery"), want)
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
		Checks: []nodeconfig.CheckFunc{func(ctx context.Context, _ stream.Config, _ func() time.Time) Check {
			<-ctx.Done()
			return Check{Name: "ledger", State: StateWarn}
		}},
	})
	is.ErrorIs(t, err, context.DeadlineExceeded, "ended with")
	for _, c := range report.Checks {
		want := StateFail
		switch c.Name {
		case "redis", "disk", "ledger":
			want = StateWarn
		case "sizes", "nodes", "clock", "master keys":
			want = StateWarn // the check configuration says why
			is.Equal(t, c.Text, "not checked: the check configuration failed", "%+v", c)
		}
		is.Equal(t, c.State, want, "%+v", c)
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
	f(now.Add(-24*time.Hour), nil, StateOK, "the last backup began 24 h 0 min ago")
	f(now.Add(-49*time.Hour), nil, StateWarn, "the last backup began 2 days ago")
	f(now, errors.New("broken"), StateWarn, "cannot read when the last backup was made: broken")
}

func TestUntilFull(t *testing.T) {
	t.Parallel()
	f := func(free, before uint64, ago time.Duration, state, text string) {
		t.Helper()
		c := checkDisk("/data", free<<30, 100<<30, untilFull(free<<30, before<<30, ago), ago)
		if c.State != state || !strings.HasSuffix(c.Text, text) {
			t.Errorf("%+v, want %s %q", c, state, text)
		}
	}
	f(50, 51, time.Hour, StateWarn, "; at the growth of the last 1 h 0 min it is full in 2.1 days")
	f(50, 56, 2*time.Hour, StateFail, "it is full in 0.7 days")
	f(80, 81, 6*time.Hour, StateOK, "it is full in 20.0 days")
	f(50, 50, time.Hour, StateOK, "free on the disk of /data")
	f(50, 40, time.Hour, StateOK, "free on the disk of /data")
	f(50, 90, 0, StateOK, "free on the disk of /data")
}

// The memory is that of the machine, or of a control group above or of the process that has less left.
func TestCheckMemory(t *testing.T) {
	t.Parallel()
	f := func(state, text string, files ...string) {
		t.Helper()
		system := fstest.MapFS{
			"proc/meminfo":     {Data: []byte("MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\n")},
			"proc/self/cgroup": {Data: []byte("4:memory:/other\n0::/system.slice/relay.service\n")},
		}
		for i := 0; i < len(files); i += 2 {
			system["sys/fs/cgroup/"+files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
		}
		x := checker{Target: Target{Memory: system}}
		if c := x.memory(t.Context()); c.State != state || c.Text != text {
			t.Errorf("%+v, want %s %q", c, state, text)
		}
	}
	const service, slice = "system.slice/relay.service/memory.", "system.slice/memory."
	f(StateOK, "4.0 of 8.0 GiB of memory in use")
	f(StateOK, "4.0 of 8.0 GiB of memory in use", service+"max", "max\n", service+"current", "1",
		service+"stat", "anon 1\n")
	f(StateWarn, "1.9 of 2.0 GiB of memory in use", service+"max", "2147483648\n", service+"current", "2147483648\n",
		service+"stat", "anon 1\ninactive_file 107374182\n")
	f(StateOK, "1.0 of 2.0 GiB of memory in use", service+"max", "max\n", slice+"max", "2147483648\n", slice+"current",
		"2147483648", slice+"stat", "inactive_file 1073741824\n")
	x := checker{Target: Target{Memory: fstest.MapFS{}}}
	if c := x.memory(t.Context()); c.State != StateWarn || c.Advice == "" {
		t.Errorf("%+v", c)
	}
}

// A relay on one machine has a log and no Kafka, and the checks name only what it has.
func TestChecksNameTheLogWithoutKafka(t *testing.T) {
	first, failed := ok("3 brokers, answered in 2ms"), kafkaFailed(context.DeadlineExceeded)
	first.Name = "kafka"
	checks := []Check{first, failed, checkClock([]config.Node{{Name: "relay"}})}
	withoutKafka(checks)
	is.Equal(t, checks[0].Name, "log")
	is.Equal(t, checks[0].Text, "inside the process, answered in 2ms")
	is.Equal(t, checks[1].Text, "the log did not answer within 15s")
	is.Equal(t, checks[1].Advice, "follow the advice of the check log first")
	is.Equal(t, checks[2].Text, "the clock of the node agrees with that of its log")
}
