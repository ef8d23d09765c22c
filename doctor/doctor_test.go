package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestJudgeAge(t *testing.T) {
	for age, want := range map[time.Duration]string{
		0: command.StateOK, warnAge - 1: command.StateOK, warnAge: command.StateWarn, failAge - 1: command.StateWarn, failAge: command.StateFail,
	} {
		if c := judgeAge(age, "do", "text"); c.State != want || c.Text != "text" || (c.Advice != "") != (want != command.StateOK) {
			t.Errorf("%v: %+v, want %s", age, c, want)
		}
	}
}

func TestJudgeDisk(t *testing.T) {
	const gib = 1 << 30
	f := func(free, size uint64, state, text string) {
		t.Helper()
		if c := judgeDisk("/data", free, size); c.State != state || c.Text != text {
			t.Errorf("%d of %d: %+v", free, size, c)
		}
	}
	f(50*gib, 100*gib, command.StateOK, "50.0 GiB (50 %) are free where /data is")
	f(15*gib, 100*gib, command.StateOK, "15.0 GiB (15 %) are free where /data is")
	f(14*gib, 100*gib, command.StateWarn, "14.0 GiB (14 %) are free where /data is")
	f(4*gib, 100*gib, command.StateFail, "4.0 GiB (4 %) are free where /data is")
	f(0, 0, command.StateOK, "0.0 GiB (100 %) are free where /data is") // a file system without a size
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 1234 * time.Millisecond: "1.2s", 83*time.Second + 400*time.Millisecond: "1m23s", 50*time.Hour + 40*time.Second: "50h1m0s",
	} {
		if got := ago(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 deliveries", 1: "1 delivery", 2: "2 deliveries"} {
		if got := count(n, "delivery"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// When nothing answers, every check says so, and none waits for another.
func TestNothingAnswers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	away := errors.New("away")
	report, err := Examine(ctx, Patient{
		Stream: stream.Config{Brokers: []string{"127.0.0.1:1"}}, ConfigErr: away, Store: func(context.Context) error { return away },
		Redis:   func(context.Context) (time.Duration, error) { return 0, away },
		DataDir: "/nowhere", Now: time.Now,
		Ledger: func(ctx context.Context) command.Check { <-ctx.Done(); return command.Check{State: command.StateWarn} },
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ended with %v", err)
	}
	for _, c := range report.Checks {
		want := command.StateFail
		if c.Name == "redis" || c.Name == "disk" || c.Name == "ledger" {
			want = command.StateWarn
		}
		if c.State != want {
			t.Errorf("%+v", c)
		}
	}
	if err := report.Err(); err == nil || !strings.HasPrefix(err.Error(), "failed: kafka, topics, dispatch, store, alerts, unread, dead, configuration, nodes, clock, master keys, clickhouse") {
		t.Errorf("%v", err)
	}
}
