// Package alert notifies an account when its deliveries have a problem, and when the problem is over.
//
// It reads the topics outcomes and events as the consumer group alerts, and the configuration. It sends notices
// through the account's channels (mail, Slack, webhook). The owner of a partition keeps a small state for each of its
// destinations: consecutive failures, a window of attempts, the oldest open deliveries. The rules evaluate this state
// after each outcome that may change their result, and once a second for what time alone changes.
//
// An alert is an entity of the configuration log. Its transitions, firing and resolved, are conditional records, so
// exactly one node makes each. The record carries the notice: what to send, and to which targets. One node, the sender,
// holds a lease: it sends the notices of all nodes and removes each target that received one. Failed sends are retried
// with growing pauses for 24 hours. If the sender dies, another node takes over once the lease has expired. So each
// target receives a notice once, or a second time with the same id after a crash between sending and recording.
//
// Offsets are committed after the transitions that their records caused. A new owner reads the last outcomes again to
// rebuild its state, without evaluating them, and evaluates from the committed offset on. Records that are evaluated
// twice change nothing, because an alert stores the log position of its last transition.
//
// Begin reading at consume.go (records in), evaluate.go (rules and transitions) and notifier.go (notices out).
//
// # Invariants
//
//  1. A notice goes out on a transition only: once however often the condition is seen, not again before the
//     cooldown, never while the endpoint is muted (TestNextTransition, TestConsecutiveFailures…).
//  2. One node of several announces a transition, also when one of them is killed (TestCluster in test/e2e).
//  3. A restart neither repeats nor loses a transition (TestRestart…, TestRunContinuesAfterARestart).
//  4. Notices survive a crash and unavailable channels (TestNotifier…).
//  5. No mail is dropped because of the limit: more than 60 an hour become a digest
//     (TestMailsOverTheLimitBecomeADigest, TestDigestsContinueWhenANodeDies).
//  6. Memory is bounded by the destinations of this node's partitions, with at most 1,000 open deliveries each.
//
// Backpressure: while the configuration log takes no record, the consumer waits at the first transition that it has to
// write, and evaluates no other rule. It does not wait for room: what would be one alert too many does not fire.
package alert

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/stream"
)

// Config configures the stage.
type Config struct {
	Node       string // this node's name, which its leases carry
	InstanceID string // static membership; empty = dynamic, which the embedded engine needs
	BaseURL    string // the public address, for links in notices
}

// Configuration is what the stage needs of the configuration log.
type Configuration interface {
	Endpoint(id string) (*config.Endpoint, entity.Presence)
	AlertSettings() *alerting.AlertSettings
	Alert(id string) *alerting.Alert
	Alerts(keep func(*alerting.Alert) bool) []*alerting.Alert
	// ChangeAlert creates or changes an alert by a conditional record. It returns nil without an error if alter returned
	// alerting.ErrAlertUnchanged.
	ChangeAlert(ctx context.Context, id string, alter func(*alerting.Alert) error) (*alerting.Alert, error)
	ForgetAlert(ctx context.Context, id string) error
	// AlertsWithNotices returns the alerts that have notices and for which keep returns true (nil = all). It reads no
	// other alert.
	AlertsWithNotices(keep func(*alerting.Alert) bool) []*alerting.Alert
	Finding(id string) (*leak.Finding, entity.Presence)
	EndedRecoveries(since time.Time) []*jobs.Recovery
}

// Usage returns how much of the monthly allowance is used.
type Usage interface {
	Used(ctx context.Context) (events, allowance int64, err error)
}

// Events lists events from the store.
type Events interface {
	Events(ctx context.Context, q event.Query) (event.Page, error)
}

// Source is how an endpoint fares that fetches its events, from a topic or from its provider.
type Source struct{ Endpoint, Error string } // no error: it works

// FailureCounter counts the failures of a partition. One goroutine calls it.
type FailureCounter interface {
	// Count sees each outcome in order, those from which the state of the partition is rebuilt included.
	Count(o *event.OutcomeHead, endpoint string, offset int64)
	// Write stores the counts. It is called once a second. next is the offset to read next. succeededAt returns the time
	// of the last success of a destination, zero if it is not known.
	Write(ctx context.Context, next int64, succeededAt func(destination string) time.Time)
}

// Sender makes one attempt to send a message, within a bounded time.
type Sender interface {
	Send(ctx context.Context, c notify.Channel, m notify.Message) notify.Result
}

// Deps are the dependencies of the stage. All but Usage, Events, Failures and Sources are required.
type Deps struct {
	Log    *slog.Logger
	Stream stream.Config
	Config Configuration
	// Failures returns the failure counter of a partition that this node owns; nil: failures are not counted.
	Failures func(partition int32) FailureCounter
	Keyring  *seal.Keyring
	Sender   Sender
	Usage    Usage  // nil = there is no allowance
	Events   Events // nil = the rule processing_missing is not evaluated
	// Sources returns the endpoints that fetch events and of which a node has said lately how they fare, and all that
	// should. nil = the rule source_failing is not evaluated.
	Sources func(ctx context.Context) (known []Source, fetching map[string]bool)
	Now     func() time.Time
	Metrics prometheus.Registerer
}

// Alerts is the alert stage of one node.
type Alerts struct {
	cfg      Config
	deps     Deps
	log      *slog.Logger
	metrics  *metrics
	notifier *notifier

	// Set by Run before it starts a goroutine.
	group  *stream.Group
	reader *stream.Reader

	mu            sync.Mutex // guards newlyAssigned and newlyLost
	newlyAssigned map[stream.Partition]stream.Commit
	newlyLost     map[stream.Partition]bool

	ownsFirst           atomic.Bool               // this node owns partition 0 and evaluates the account rules
	full                atomic.Bool               // an alert did not fire since there is no room, which was logged
	partitions          map[int32]*partitionState // owned by the goroutine of consume
	processingCheckedAt time.Time                 // owned by the goroutine of runAccountRules
	sourcesCheckedAt    time.Time                 // owned by the goroutine of runAccountRules
	failingSince        map[string]time.Time      // by endpoint; owned by the goroutine of runAccountRules
}

// New validates its arguments. It starts nothing.
func New(cfg Config, deps Deps) (*Alerts, error) {
	err := errors.Join(deps.Stream.Validate(),
		require.Set("alerts", deps, "Stream", "Usage", "Events", "Failures", "Sources"))
	if err != nil {
		return nil, err
	}
	if cfg.Node == "" || cfg.BaseURL == "" {
		return nil, errors.New("alerts: the node's name and the base URL are needed")
	}
	m := newMetrics(deps.Metrics)
	return &Alerts{
		cfg: cfg, deps: deps, log: deps.Log, metrics: m, notifier: newNotifier(cfg, deps, m),
		newlyAssigned: map[stream.Partition]stream.Commit{}, newlyLost: map[stream.Partition]bool{},
		partitions: map[int32]*partitionState{}, failingSince: map[string]time.Time{},
	}, nil
}

// Limits of the consumer group's fetches. Alerts may be a second late, and a fetch costs the same for one record as
// for a hundred.
const (
	maxPoll  = 5000
	maxFetch = 256 << 10              // of one partition
	maxBytes = 2 << 20                // of all partitions
	pollWait = 250 * time.Millisecond // also the pause between polls, unless the consumer is behind
	// tickEvery is how often time-dependent rules are evaluated and offsets are committed.
	tickEvery = time.Second
	// retryEvery is the pause after a write to the configuration log, or a read of past outcomes, failed.
	retryEvery = time.Second
)

// Run consumes records, evaluates rules and sends notices until ctx ends.
func (a *Alerts) Run(ctx context.Context) error {
	var err error
	if a.reader, err = stream.NewReader(a.deps.Stream, "alerts"); err != nil {
		return err
	}
	defer a.reader.Close()
	a.group, err = stream.NewGroup(a.deps.Stream, stream.GroupConfig{
		Name: stream.AlertGroup, Topics: stream.ReadBy(stream.AlertGroup), InstanceID: a.cfg.InstanceID,
		MaxPoll: maxPoll, MaxWait: pollWait, MaxPartitionBytes: maxFetch, MaxBytes: maxBytes, Assigned: a.onAssigned,
		Revoked: func(_ context.Context, ps []stream.Partition) { a.onLost(ps) }, Lost: a.onLost,
	})
	if err != nil {
		return err
	}
	defer a.group.Close()
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return a.consume(running) })
	group.Go(func() error { return a.runAccountRules(running) })
	group.Go(func() error { return a.notifier.run(running) })
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("alerts: %w", err)
	}
	return nil
}

func (a *Alerts) onAssigned(commits map[stream.Partition]stream.Commit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, m := range commits {
		a.newlyAssigned[p] = m
		delete(a.newlyLost, p)
	}
}

func (a *Alerts) onLost(ps []stream.Partition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range ps {
		a.newlyLost[p] = true
		delete(a.newlyAssigned, p)
	}
}

// now returns the time of the cluster in UTC.
func (a *Alerts) now() time.Time { return a.deps.Now().UTC() }
