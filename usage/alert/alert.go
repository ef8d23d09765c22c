// Package alert tells an account when something about its deliveries turns bad, and when it is good again.
//
// In flow the topics outcomes and events, through the consumer group alerts, and the configuration; out flow messages
// down the account's channels. Whoever owns a partition keeps a small picture of its destinations: failures in a row,
// a window of attempts, the oldest deliveries that are open. Rules judge the picture after each outcome that may change
// it, and once a second for what time alone changes.
//
// An alert is an entity of the configuration log. A transition is one conditional record of it, so one node of all
// makes it, and it carries the message with it: what is to be told, to whom, and who tells it. That node sends, and
// takes each channel off the message that took it. What failed is tried again with growing pauses for a day. A node
// that dies is followed by any other once its claim has run out. So a message goes out once; after a crash between
// sending and saying so, a second time with the same id.
//
// Offsets are committed after the transitions that their records led to. A new owner reads the last outcomes again to
// build its picture, without judging them, and judges from the committed offset on. What it judges twice changes
// nothing, for an alert remembers up to where the log was known when it changed last.
//
// # Invariants
//
//  1. An alert fires on transitions alone: once however often its condition is seen, again not before the cooldown,
//     never while its endpoint is muted (TestNext, TestConsecutiveFailures…).
//  2. Of several nodes one announces, also when one of them is killed (TestCluster in the root).
//  3. A restart neither repeats a transition nor loses one (TestRestart…, TestRunGoesOnAfterARestart).
//  4. Messages survive a crash and channels that are away (TestAnnouncer…).
//  5. No mail is dropped for being one too many: beyond 60 an hour they come as a digest (TestDigest, TestDigestsGoOn).
//  6. Memory is bounded by the destinations of this node's partitions; of each at most 1,000 deliveries.
//
// Backpressure: none is needed. While the configuration log takes no record, nothing is judged, and the log waits.
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
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/stream"
)

// Config of the stage.
type Config struct {
	Node       string // this node's name, by which it claims messages
	InstanceID string // static membership; empty = dynamic, which the embedded engine needs
	BaseURL    string // the public address, for links
}

// Configuration is what the stage needs of the configuration log.
type Configuration interface {
	Endpoint(id string) (*config.Endpoint, config.Presence)
	AlertSettings() *config.AlertSettings
	Alert(id string) *config.Alert
	Alerts(keep func(*config.Alert) bool) []*config.Alert
	// ChangeAlert changes an alert, or makes it, by a conditional record.
	ChangeAlert(ctx context.Context, id string, alter func(*config.Alert) error) (*config.Alert, error)
}

// History is what else there is in it.
type History interface {
	EndedRecoveries(since time.Time) []*config.Recovery
	ForgetAlert(ctx context.Context, id string) error
}

// Usage says how much of the allowance of the present period is used.
type Usage interface {
	Used(ctx context.Context) (events, allowance int64, err error)
}

// Events lists what the store has.
type Events interface {
	Events(ctx context.Context, q event.Query) (event.Page, error)
}

// Notifier makes one try to send a message, within a bounded time.
type Sender interface {
	Send(ctx context.Context, c notify.Channel, m notify.Message) notify.Result
}

// Deps are what the stage works with. All but Usage and Events are needed.
type Deps struct {
	Log     *slog.Logger
	Stream  stream.Config
	Config  Configuration
	History History
	Keyring *config.Keyring
	Sender  Sender
	Usage   Usage  // nil = there is no allowance
	Events  Events // nil = it is not asked which were processed
	Now     func() time.Time
	Metrics prometheus.Registerer
}

func (d Deps) validate() error {
	if d.Log == nil || d.Config == nil || d.History == nil || d.Keyring == nil || d.Sender == nil || d.Now == nil ||
		d.Metrics == nil {
		return errors.New("alerts: a dependency is missing")
	}
	return d.Stream.Validate()
}

// Alerts is one node's part.
type Alerts struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	metrics *metrics
	herald  *herald

	// Set by Run before it starts anything.
	group  *stream.Group
	reader *stream.Reader

	mu      sync.Mutex // guards arrived and left
	arrived map[stream.Partition]stream.Commit
	left    map[stream.Partition]bool

	first atomic.Bool     // this node has the first partition, and with it what is no partition's
	books map[int32]*book // of the goroutine that follows the log
	asked time.Time       // of the goroutine of the account: when it last asked what was processed
}

// New validates and starts nothing.
func New(cfg Config, deps Deps) (*Alerts, error) {
	if err := deps.validate(); err != nil {
		return nil, err
	}
	if cfg.Node == "" || cfg.BaseURL == "" {
		return nil, errors.New("alerts: the node's name and the base URL are needed")
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}
	return &Alerts{
		cfg: cfg, deps: deps, log: deps.Log, metrics: m, herald: newHerald(cfg, deps, m),
		arrived: map[stream.Partition]stream.Commit{}, left: map[stream.Partition]bool{}, books: map[int32]*book{},
	}, nil
}

// What is asked of the consumer group. Alerts may be a second late, and a fetch costs the same for one record as for
// a hundred.
const (
	maxPoll  = 5000
	maxFetch = 256 << 10 // of a partition
	maxBytes = 2 << 20   // of all: whoever is behind reads on without a pause
	pollWait = 250 * time.Millisecond
	// beat is how often what time alone changes is judged, and offsets are committed.
	beat = time.Second
	// retryEvery is the pause after the configuration log, or the log, did not answer.
	retryEvery = time.Second
)

// Run judges and announces until ctx ends.
func (a *Alerts) Run(ctx context.Context) error {
	var err error
	if a.reader, err = stream.NewReader(a.deps.Stream, "alerts"); err != nil {
		return err
	}
	defer a.reader.Close()
	a.group, err = stream.NewGroup(a.deps.Stream, stream.GroupConfig{
		Name: stream.AlertGroup, Topics: stream.ReadBy(stream.AlertGroup), InstanceID: a.cfg.InstanceID,
		MaxPoll: maxPoll, MaxWait: pollWait, MaxPartitionBytes: maxFetch, MaxBytes: maxBytes, Assigned: a.assigned,
		Revoked: func(_ context.Context, ps []stream.Partition) { a.lost(ps) }, Lost: a.lost,
	})
	if err != nil {
		return err
	}
	defer a.group.Close()
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return a.follow(running) })
	group.Go(func() error { return a.account(running) })
	group.Go(func() error { return a.herald.run(running) })
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("alerts: %w", err)
	}
	return nil
}

func (a *Alerts) assigned(marks map[stream.Partition]stream.Commit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, m := range marks {
		a.arrived[p] = m
		delete(a.left, p)
	}
}

func (a *Alerts) lost(ps []stream.Partition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range ps {
		a.left[p] = true
		delete(a.arrived, p)
	}
}

// now is the time of the cluster.
func (a *Alerts) now() time.Time { return a.deps.Now().UTC() }
