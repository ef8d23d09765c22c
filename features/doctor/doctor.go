// Package doctor checks the engines and the configuration and says, line by line, what is wrong and what to do next.
//
// It reads the log and the configuration (of a running node, or from the log itself), and asks the other engines.
// Examine returns a [Report]: a check is ok, warn (needs attention within a day) or fail (something does not work, or
// events may be lost), with advice that names the next step.
//
// Promises: it changes nothing, stores nothing, and starts nothing that outlives Examine. All checks run at the same
// time and each has 15 s of its own, so an engine that hangs hides no other fault
// (TestEveryCheckFailsWhenNothingAnswers).
//
// Begin reading at Examine. log.go has the checks of Kafka, node.go those of nodes and engines.
package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/stream"
)

// checkTime bounds one check.
const checkTime = 15 * time.Second

// Target is the installation that Examine checks.
type Target struct {
	Stream            stream.Config
	ReplicationFactor int // that the topics must have
	// Trims is whether the nodes with this principal trim the log, for which they need the right to delete records.
	Trims bool

	// Config is the configuration of the running node, or as read from the log; nil if it could not be read, for the
	// reason in ConfigErr.
	Config    *config.Control
	ConfigErr error
	// Node is the name of the running node; empty if the engines are asked directly.
	Node string
	// Keyring holds the master keys; nil if none were given.
	Keyring *seal.Keyring

	// Store asks every shard of ClickHouse and checks its tables; nil if ClickHouse is not configured.
	Store func(context.Context) error
	// StoreDamage returns what is damaged or missing in ClickHouse; nil = skip this.
	StoreDamage func(context.Context) ([]string, error)
	// StoreRights returns the rights that users of ClickHouse lack, with the settings that name them; nil = skip this.
	StoreRights func(context.Context) ([]string, error)
	// Redis measures one round trip; nil if Redis is not configured.
	Redis func(context.Context) (time.Duration, error)
	// RedisSettings reads settings of Redis; nil = skip them.
	RedisSettings func(context.Context) (limit.Settings, error)
	// OpenFiles is how many files the node may open at once; 0 = unknown. WantFiles is how many it should be able to.
	OpenFiles, WantFiles int
	// CertFile is the file with the certificate that the node serves; empty if it serves none.
	CertFile string
	// Endpoints are where ClickHouse and Redis use TLS; the doctor asks Kafka for its own.
	Endpoints []Endpoint
	// Checks are those of features.
	Checks []nodeconfig.CheckFunc
	// DroppedHits returns how many hits of leaked secrets have no finding since the node's start; nil = skip this.
	DroppedHits func() int64
	// Missing are the records of the embedded log that were lost and are not trimmed yet.
	Missing []string
	// DataDir is the data directory, whose disk is checked.
	DataDir string
	// BackedUp returns when the last backup of this node began, zero if there is none; nil: the engines are elsewhere.
	BackedUp func() (time.Time, error)
	// Memory is the root of the file system, with /proc and /sys; nil = skip this check.
	Memory fs.FS
	// FreeBefore returns the free bytes of the data directory's disk some time ago; nil or 0 = unknown.
	FreeBefore func() (free uint64, ago time.Duration)
	// BaseURL is the public address that clients use; empty if unknown.
	BaseURL string
	// Issuer asks the OpenID Connect issuer for its description, and returns where it sends browsers back; nil: none.
	Issuer func(context.Context) (redirectURL string, err error)
	// WeakKeys are the settings whose API keys are easy to guess.
	WeakKeys []string
	Now      func() time.Time
	// Retention is how long the log keeps records (RELAY_RETENTION_DAYS).
	Retention time.Duration
}

// checkGroup is one check, or several that share their input.
type checkGroup struct {
	name string
	do   func(context.Context) []Check
}

// ofFeatures are the checks of features.
func (x *checker) ofFeatures() (all []checkGroup) {
	for _, check := range x.Checks {
		all = append(all, checkGroup{"", single(func(ctx context.Context) Check { return check(ctx, x.Stream, x.Now) })})
	}
	return all
}

// Examine makes all checks at the same time and returns their results in reading order: a check on which many others
// depend comes first. It returns an error if the Kafka client cannot be created or ctx ends.
func Examine(ctx context.Context, target Target) (Report, error) {
	reader, err := stream.NewReader(target.Stream, "doctor")
	if err != nil {
		return Report{}, err
	}
	defer reader.Close()
	x := &checker{Target: target, log: reader}
	groups := []checkGroup{
		{"kafka", single(x.kafka)}, {"topics", single(x.topics)}, {"rights", single(x.rights)},
		{"writers", single(x.writers)}, {"dispatch", x.dispatch},
		{"store", single(x.store)}, {"alerts", single(x.alerts)}, {"findings", single(x.findings)},
		{"unread", single(x.unread)}, {"dead", single(x.dead)},
		{"configuration", single(x.configuration)}, {"sizes", single(x.sizes)}, {"nodes", single(x.nodes)},
		{"clock", single(x.clock)},
		{"master keys", single(x.masterKeys)},
		{"clickhouse", single(x.clickhouse)}, {"redis", single(x.redis)}, {"disk", single(x.disk)},
	}
	if len(target.Missing) > 0 {
		groups = append(groups, checkGroup{"missing records", single(x.missing)})
	}
	if target.BackedUp != nil {
		groups = append(groups, checkGroup{"backup", single(x.backup)})
	}
	if target.Memory != nil {
		groups = append(groups, checkGroup{"memory", single(x.memory)})
	}
	if len(target.WeakKeys) > 0 {
		groups = append(groups, checkGroup{"api keys", single(x.weakKeys)})
	}
	if target.CertFile != "" {
		groups = append(groups, checkGroup{"certificate", single(x.certificate)})
	}
	if target.Stream.TLS != "" || len(target.Endpoints) > 0 {
		groups = append(groups, checkGroup{"engine certificates", single(x.engineCertificates)})
	}
	if target.OpenFiles > 0 {
		groups = append(groups, checkGroup{"open files", single(x.openFiles)})
	}
	if target.BaseURL != "" {
		groups = append(groups, checkGroup{"base URL", single(x.baseURL)})
	}
	if target.Issuer != nil {
		groups = append(groups, checkGroup{"sign-in", single(x.issuer)})
	}
	groups = append(groups, x.ofFeatures()...)
	results := make([][]Check, len(groups))
	var all sync.WaitGroup
	for i, group := range groups {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, checkTime)
			defer cancel()
			results[i] = group.do(ctx)
			for j := range results[i] {
				if results[i][j].Name == "" {
					results[i][j].Name = group.name
				}
			}
		})
	}
	all.Wait()
	r := Report{Node: target.Node}
	for _, checks := range results {
		r.Checks = append(r.Checks, checks...)
	}
	if target.Stream.Embedded != nil {
		withoutKafka(r.Checks)
	}
	return r, ctx.Err()
}

func single(check func(context.Context) Check) func(context.Context) []Check {
	return func(ctx context.Context) []Check { return []Check{check(ctx)} }
}

// checker makes the checks of a Target.
type checker struct {
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

// kafkaFailed is the result of a check whose request to Kafka failed.
func kafkaFailed(err error) Check {
	if errors.Is(err, context.DeadlineExceeded) {
		return fail("follow the advice of the check kafka first", "Kafka did not answer within %v", checkTime)
	}
	return fail("follow the advice of the check kafka first", "Kafka: %v", err)
}

// inside replaces the words about Kafka in a check: this log has no brokers.
var inside = strings.NewReplacer(
	"Kafka allows all that a node does", "the log is inside the process and needs no rights",
	"the check kafka", "the check log", "(see kafka)", "(see log)", "that kafka is ok", "that log is ok",
	"advice for kafka", "advice for log", "in the consumer group", "reading",
	"a consumer group", "a reader of the log", "of that consumer group", "that read it",
	"the clocks of the brokers and of node", "the clocks of the log and of node",
	"the clocks of all nodes agree with the brokers'", "the clock of the node agrees with that of its log",
	"not configured: each node limits rates on its own", "inside the process",
	"with the brokers'", "with the log's", "Kafka", "the log")

// withoutKafka names the log inside the process in the results.
func withoutKafka(checks []Check) {
	for i := range checks {
		c := &checks[i]
		if c.Name == "kafka" {
			c.Name = "log"
			if _, took, found := strings.Cut(c.Text, ", "); found && c.State == StateOK {
				c.Text = "inside the process, " + took
			}
		}
		c.Text, c.Advice = inside.Replace(c.Text), inside.Replace(c.Advice)
	}
}

// checkAge returns a check from the age of the oldest waiting record.
func checkAge(age time.Duration, advice, format string, args ...any) Check {
	switch {
	case age >= failAge:
		return fail(advice, format, args...)
	case age >= warnAge:
		return warn(advice, format, args...)
	}
	return ok(format, args...)
}

// Limits of the age of the oldest record that a consumer group has not processed. They do not apply to retry topics,
// where records wait on purpose.
const (
	warnAge = time.Minute
	failAge = 15 * time.Minute
)

// timePrecision is the precision of round trip times.
const timePrecision = 10 * time.Microsecond

// measure makes a request twice and returns the time of the second; the first one connects.
func measure(ctx context.Context, request func(context.Context) error) (time.Duration, error) {
	if err := request(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	err := request(ctx)
	return time.Since(began).Round(timePrecision), err
}

// plural returns a number with its noun: "1 record", "2 records", "2 entries", "2 days".
func plural[N int | int64](n N, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "y") && !strings.HasSuffix(thing, "ay"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(thing, "y"))
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// formatAge formats an age for people.
func formatAge(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.3g s", max(d.Round(100*time.Millisecond), 0).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 2*day:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return plural(int64(d/day), "day")
	}
}

// openFiles checks the limit of open files, which bounds the requests to destinations and the connections of clients.
func (x *checker) openFiles(context.Context) Check {
	if x.OpenFiles < x.WantFiles {
		return warn("raise the limit (ulimit -n, LimitNOFILE in systemd, ulimits in compose) and restart the node; 32768 "+
			"are enough", "the node may open %d files at once, want %d at least: one destination that hangs holds up to 1000",
			x.OpenFiles, x.WantFiles)
	}
	return ok("the node may open %d files at once", x.OpenFiles)
}

// baseURL checks the address that clients use.
func (x *checker) baseURL(context.Context) Check {
	if egress.Unencrypted(x.BaseURL) {
		return warn("serve HTTPS (RELAY_TLS_CERT_FILE, or a proxy in front) and set RELAY_BASE_URL to https://…",
			"clients use %s: API keys, ingest tokens and events are sent unencrypted", x.BaseURL)
	}
	return ok("clients use %s", x.BaseURL)
}

// issuer checks that people can sign in by OpenID Connect.
func (x *checker) issuer(ctx context.Context) Check {
	redirectURL, err := x.Issuer(ctx)
	if err != nil {
		return fail("check RELAY_OIDC_ISSUER, and that this machine reaches it; people of the issuer are signed out within "+
			"the hour, local people sign in with their password", "%v", err)
	}
	return ok("the issuer answers; it must know the redirect URL %s", redirectURL)
}

// States of a check.
const (
	StateOK   = nodeconfig.StateOK
	StateWarn = nodeconfig.StateWarn
	StateFail = nodeconfig.StateFail
)

// Check is the result of one check.
type Check = nodeconfig.Check

// Report is the result of relay doctor.
type Report struct {
	Node   string  `json:"node,omitempty"` // the node that was asked; empty: the engines were asked directly
	Checks []Check `json:"checks"`
}

// maxDetails bounds the detail lines that are printed for a check; JSON has all.
const maxDetails = 20

// write writes the report as JSON or as text.
func (r Report) write(c cli.Call, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(c.Stdout).Encode(r)
	}
	r.Print(c.Stdout, c.Color)
	return nil
}

// Print writes one line for each check, its details, and a line with the advice.
func (r Report) Print(w io.Writer, color bool) {
	t := cli.NewTable("STATE", "CHECK", "RESULT")
	for _, c := range r.Checks {
		t.Row(c.State, c.Name, c.Text)
		for i, d := range c.Details {
			if i == maxDetails {
				t.Row("", "", fmt.Sprintf("  … and %d more; --json has them all", len(c.Details)-i))
				break
			}
			t.Row("", "", "  "+d)
		}
		if c.Advice != "" {
			t.Row("", "", "→ "+c.Advice)
		}
	}
	t.Print(w, color)
}

// Err returns an error that names the failed checks; nil if none failed.
func (r Report) Err() error {
	var failed []string
	for _, c := range r.Checks {
		if c.State == StateFail {
			failed = append(failed, c.Name)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
}
