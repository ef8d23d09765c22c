// Package doctor looks at the engines and at the configuration and says what is well, what somebody should
// look at, and what does not work, each with what to do next.
//
// In flow the log, the configuration as a node knows it or as it was read from the log, and the means to ask
// the other engines; out flows a report. It changes nothing, keeps nothing and starts nothing that outlives
// Examine. Every check has its own time, so that one engine that hangs hides no other.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/stream"
)

// checkTime bounds one check.
const checkTime = 15 * time.Second

// Patient is what is examined.
type Target struct {
	Stream            stream.Config
	ReplicationFactor int // replication factor that the topics must have

	// Config is the configuration of a node that runs, or of the log as it stands; nil with the reason in
	// ConfigErr when there is none to be had.
	Config    *config.Control
	ConfigErr error
	// Node is the name of the node that runs; empty when the engines are asked directly.
	Node string
	// Keyring are the master keys; nil when none were given.
	Keyring *config.Keyring

	// Store makes an exchange with every shard of ClickHouse and judges its tables; nil when it is not configured.
	Store func(context.Context) error
	// Redis measures one exchange; nil when it is not configured.
	Redis func(context.Context) (time.Duration, error)
	// Ledger counts what became of the events; nil for no such check.
	Ledger  func(context.Context) Check
	DataDir string
	// BaseURL is the address that clients are told to call; empty when it is not known.
	BaseURL string
	// WeakKeys are the settings whose API keys are easy to guess.
	WeakKeys []string
	Now      func() time.Time
	// Retention is how long events are kept.
	Retention time.Duration
}

// look is one or more checks that share what they need.
type look struct {
	name string
	do   func(context.Context) []Check
}

// Examine makes all checks at once and returns them in the order in which they are best read.
func Examine(ctx context.Context, p Target) (Report, error) {
	reader, err := stream.NewReader(p.Stream, "doctor")
	if err != nil {
		return Report{}, err
	}
	defer reader.Close()
	x := &examination{Target: p, log: reader}
	looks := []look{
		{"kafka", one(x.kafka)}, {"topics", one(x.topics)}, {"writers", one(x.writers)}, {"dispatch", x.dispatch},
		{"store", one(x.store)}, {"alerts", one(x.alerts)}, {"unread", one(x.unread)}, {"dead", one(x.dead)},
		{"configuration", one(x.configuration)}, {"sizes", one(x.sizes)}, {"nodes", one(x.nodes)}, {"clock", one(x.clock)},
		{"master keys", one(x.masterKeys)},
		{"clickhouse", one(x.clickhouse)}, {"redis", one(x.redis)}, {"disk", one(x.disk)},
	}
	if len(p.WeakKeys) > 0 {
		looks = append(looks, look{"api keys", one(x.weakKeys)})
	}
	if p.BaseURL != "" {
		looks = append(looks, look{"base URL", one(x.baseURL)})
	}
	if p.Ledger != nil {
		looks = append(looks, look{"ledger", one(p.Ledger)})
	}
	found := make([][]Check, len(looks))
	var all sync.WaitGroup
	for i, l := range looks {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, checkTime)
			defer cancel()
			found[i] = l.do(ctx)
			for j := range found[i] {
				if found[i][j].Name == "" {
					found[i][j].Name = l.name
				}
			}
		})
	}
	all.Wait()
	r := Report{Node: p.Node}
	for _, checks := range found {
		r.Checks = append(r.Checks, checks...)
	}
	return r, ctx.Err()
}

func one(check func(context.Context) Check) func(context.Context) []Check {
	return func(ctx context.Context) []Check { return []Check{check(ctx)} }
}

// examination is a Patient on the table.
type examination struct {
	Target
	log *stream.Reader
}

func ok(format string, args ...any) Check {
	return Check{State: StateOK, Text: fmt.Sprintf(format, args...)}
}

func warn(advice, format string, args ...any) Check {
	return Check{State: StateWarn, Text: fmt.Sprintf(format, args...), Advice: advice}
}

func fail(advice, format string, args ...any) Check {
	return Check{State: StateFail, Text: fmt.Sprintf(format, args...), Advice: advice}
}

// unasked is the check of something that could not be looked at.
func unasked(err error) Check {
	if errors.Is(err, context.DeadlineExceeded) {
		return fail("see kafka", "Kafka did not answer in %v", checkTime)
	}
	return fail("see kafka", "%v", err)
}

// judgeAge turns the age of the oldest thing that waits into a check.
func judgeAge(age time.Duration, advice, format string, args ...any) Check {
	switch {
	case age >= failAge:
		return fail(advice, format, args...)
	case age >= warnAge:
		return warn(advice, format, args...)
	}
	return ok(format, args...)
}

// Ages of the oldest record that a group should have done by now: nothing waits in these topics on purpose.
const (
	warnAge = time.Minute
	failAge = 15 * time.Minute
)

// timeGrain is how exactly exchanges are told.
const timeGrain = 10 * time.Microsecond

// measure makes an exchange twice, the first of which connects, and returns how long the second took.
func measure(ctx context.Context, exchange func(context.Context) error) (time.Duration, error) {
	if err := exchange(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	err := exchange(ctx)
	return time.Since(began).Round(timeGrain), err
}

// count is a number of things in words.
func count[N int | int64](n N, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(thing, "y"))
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// ago is an age as people read it.
func ago(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	default:
		return d.Round(time.Minute).String()
	}
}
