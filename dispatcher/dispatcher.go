// Package dispatcher delivers events to their destinations, at least once.
//
// It reads the topics events, commands and retry.*, and sends requests to destinations. It writes outcomes,
// follow-ups to retry.*, and to the dead letter topic records that cannot be decoded and follow-ups that brokers
// reject. For events that hit a tripwire it writes a hit to findings.
//
// One delivery passes these files, in this order. Start reading at intake.go and deliver.go.
//
//	intake.go     reads a record: a slot of its partition, and one delivery for each destination
//	lane          Admit: the lane of the destination queues the delivery, or decides to park or end it
//	lane          Next: a worker of the lane takes it; configuration and rate are checked now
//	transform.go  applies the endpoint's transformation to the body, or ends the delivery
//	deliver.go    sends it: one attempt, through the kind of the destination
//	destination   Kind: makes the attempt and classifies its answer; webhook is one
//	next.go       decides the next step: delivered, failed, or another attempt, and when
//	finish.go     produces the follow-up, then the outcome, then completes the slot
//	commit.go     commits the lowest unfinished offset, with the finished records above it as gaps in the metadata
//
// A slot stands for one record. It is done when for each destination Kafka has acknowledged the follow-up, if there is
// one, and then the outcome. A retry is the same delivery with the next attempt number, in the retry topic (tier) of
// its delay. The head of each tier partition is held in memory until it is due (timer.go), or until the lane that
// parked it has recovered (recheck.go). A delivery that is due after the delay of its tier moves on to another one.
//
// Package lane decides when a destination gets its deliveries. What it does not send now is parked in a retry topic
// with a reason. Each parked delivery is re-checked once per interval, and its lane decides again. An outcome reports
// it again only when the reason changes or the reported time has passed. If the destination is only busy, its partition
// pauses for a moment instead.
//
// Back-pressure: a stuck lane parks its deliveries, a partition with too many unfinished records pauses, and a node
// whose memory for deliveries is full stops reading.
//
// Ownership: a partition belongs to one node at a time, and a partition object to one assignment of it. When it is
// revoked, no new delivery begins, running requests finish (for at most revokeTimeout), the offset is committed, and
// the object is dropped. What completes later is not committed. When a lost partition returns, this node remembers
// which of its records it had completed (assignment.go).
//
// Run owns all goroutines: the reader, the timer of the retry topics, the one that wakes lanes waiting for a token and
// removes empty ones, the commit loop, the one that disables destinations that are gone, four that produce records
// (next ones, retries, single ones, hits of tripwires), and one per worker of a lane. Lock order: the lock of the
// lanes, then that of a partition.
//
// # Invariants
//
//  1. Nothing is lost, in whatever order deliveries finish and wherever the process dies: a commit never passes an
//     unfinished record (TestCommitNeverPassesUnfinished, TestRandomCompletionsSurviveCrashes; with the build tag
//     faults TestCrashPoints).
//  2. The follow-up is in the log before its outcome, and both are before the offset is committed
//     (TestFollowUpComesBeforeItsOutcome, TestOutcomeIsRetriedUntilProduced).
//  3. After a crash only these are repeated: records finished since the last commit, running deliveries, and gaps that
//     did not fit into the commit metadata (TestGapsSurviveRestart, TestNextOwnerRepeatsNothing). Of two records
//     of one delivery that a crash has left, the second ends while the first is queued, sent or being recorded, and
//     once the first has delivered (TestCrashWhilePacedReplayQueues, TestCopiesOfWaitingDeliveriesEnd).
//  4. No attempt is early. It is late by at most max(1 s, 5 %) of its wait as long as the node keeps up
//     (TestHopsAreNeverEarlyAndHardlyLate, TestDestinationDownFor29Seconds, TestDeepTier).
//  5. A destination that hangs, is slow or is down delays no other one, and a busy one does so for a bounded time
//     (TestHungDestinationsBesideAGoodOne, TestStuckLanesLeaveRoom, TestStallsAreBounded,
//     TestStuckLanesShedWhenMemoryIsLow, TestHungDestinationGetsFewRequests), also at the same host and port
//     (TestNeighboursAtOneHost, TestRequestsAreShared).
//  6. Memory is bounded, however much is pending (TestIntakeStopsWhenNothingCanBeRecorded,
//     TestPartitionPausesWhenTooMuchIsUnfinished, TestTierPausesAtItsShare, TestLaneBytesAreBounded,
//     TestAMillionPendingInLittleMemory).
//  7. The body arrives byte for byte, and the signature covers what is sent (TestBodyArrivesByteForByte,
//     TestTwoSecretsTwoSignatures).
//  8. An attempt is one request, and no redirect is followed (TestOneAttemptIsOneRequest, TestRecordedResponse).
//  9. A partition has one owner: a revocation waits for running requests, and nothing is committed for a lost partition
//     (TestRebalanceInMidFlight, TestLostMembership, TestStoppedPartition).
//  10. Each attempt uses the current configuration (TestConfigurationIsReadAtFireTime, TestUnknownEndpoint).
//  11. Credentials are masked in what is recorded (TestCredentialsAreMaskedInTheRow).
//  12. A record that cannot be decoded becomes a dead letter with a failed outcome, and does not block its partition
//     (TestUndecodableRecordsBecomeDeadLetters). So does a follow-up that brokers reject permanently
//     (TestFollowUpThatBrokersReject).
//  13. A stop finishes running requests, and nothing outlives Run (TestStopFinishesWhatIsInFlight,
//     TestRunEndsWithItsContext, TestMain).
//  14. One decision of its lane settles what becomes of a delivery (TestDecisions), and each delivery that a lane took
//     ends exactly once (TestEveryDeliveryEndsOnce).
//  15. All parked deliveries of a node together are re-checked at most some 4,000 times a second, those of lanes that
//     hang or are paused 500 times, but 6,000 times for a while when one recovers. Each is re-checked at least once an
//     hour, and a new owner knows their number after one interval (TestRecheckBudget, TestManyDeadDestinations,
//     TestNewOwnerCountsParkedAfterOneRecheck).
//  16. A rate limit is neither exceeded nor left unused, also by retries, replays and tests (TestRateIsHeld,
//     TestSlowRate, TestRateChanges).
//  17. While an endpoint is paused or a circuit breaker is open, only probes are sent; deliveries resume within one
//     re-check interval (TestPausedDeliveriesAreHeldUntilResumed, TestBreakerHoldsAndProbes, TestReplaysAreProbes,
//     TestNewURLClosesTheBreaker).
//  18. A use of a tripwire is never delivered, and its offset is committed after its hit is stored (TestUses).
//  19. A body that cannot be transformed is never sent, and changes nothing but its delivery
//     (TestFailingTransformation, TestTransformedBodiesAreDelivered).
package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/destination/kafka"
	"github.com/eventrelay/relay/dispatcher/destination/pull"
	"github.com/eventrelay/relay/dispatcher/destination/s3"
	"github.com/eventrelay/relay/dispatcher/destination/sqs"
	"github.com/eventrelay/relay/dispatcher/destination/webhook"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/pkg/stream"
)

// Settings of the consumer group.
const (
	// maxPollRecords bounds what one poll adds to the memory of a partition that is about to pause.
	maxPollRecords = 256
	// maxFetchBytes bounds one fetch, of one partition and of all. When a partition pauses, the client discards what it
	// has fetched of it, and an event that arrives during a fetch waits for the whole fetch.
	maxFetchBytes = 256 << 10
	// maxFetchWait bounds how late a resumed partition is fetched. So it limits the throughput of a deep tier to its share
	// of the memory per maxFetchWait.
	maxFetchWait = 100 * time.Millisecond
	// revokeTimeout is how long a rebalance waits for running requests. The group gives a member 30 s; up to 2 s pass
	// until a heartbeat reports the rebalance, and up to commitTimeout for the commit.
	revokeTimeout = 20 * time.Second
)

// Dispatcher is one member of the consumer group that delivers.
type Dispatcher struct {
	cfg       Config
	log       *slog.Logger
	stream    stream.Config
	config    ConfigView
	ids       *id.Generator
	now       func() time.Time
	onOwned   func([]int32)
	useHit    func(context.Context, *event.Event) (int32, *stream.Record, error)
	delivered func(context.Context, int, func(string, id.ID, string, time.Time)) error
	tiers     []stream.Tier

	metrics    *metrics
	assignment assignment
	committer  *committer
	lanes      *lane.Lanes
	tierMemory tierMemory
	finisher   *finisher
	rules      *rules
	disabler   *disabler
	sender     *destination.Sender
	kinds      map[string]destination.Kind
	pulls      *pull.Kind
	placing    sync.Mutex // held from when a record counts as read until its place in an order is known
	spans      *spans.Recorder
	filters    bodyFilters // used by the reader only

	transformations transformations

	joinGroup func(stream.GroupConfig) (member, error) // joins the group; New sets it, tests replace it
	group     member                                   // set by Run
	lag       func(stream.Partition) int64             // records not fetched yet, see stream.Group; set by Run

	timerWake     chan struct{}  // a tier partition has a new head, or lanes want attention; capacity 1
	recalled      map[int32]bool // the numbers of the partitions of the last assignment; used by assignments only
	recheck       recheck        // used by the timer only
	wanted        wanted         // used by the timer only
	surveyWake    chan struct{}  // a survey is wanted; capacity 1
	parkWarned    atomic.Int64   // unix seconds of the last warning that deliveries are parked because of an error
	tiersAssigned atomic.Bool    // partitions were assigned since the timer looked
}

// member is one member of the consumer group: a stream.Group.
type member interface {
	pauser
	Poll(ctx context.Context, each func(stream.Partition, []*stream.Record)) error
	Commit(ctx context.Context, commits map[stream.Partition]stream.Commit) error
	Close()
}

// New validates its arguments and creates a dispatcher. It starts nothing and connects to nothing; see Run.
func New(cfg Config, deps Deps) (*Dispatcher, error) {
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	d := &Dispatcher{
		cfg: cfg, log: deps.Log, stream: deps.Stream, config: deps.Config, ids: deps.IDs,
		now: deps.Now, onOwned: deps.OnOwned, useHit: deps.UseHit, delivered: deps.Delivered,
		tiers:      stream.Tiers(),
		tierMemory: tierMemory{limit: cfg.MaxWaitingBytes},
		timerWake:  make(chan struct{}, 1), surveyWake: make(chan struct{}, 1), assignment: newAssignment(),
	}
	d.lag = func(stream.Partition) int64 { return 0 }
	d.joinGroup = func(g stream.GroupConfig) (member, error) {
		group, err := stream.NewGroup(d.stream, g)
		if err == nil {
			d.lag = group.Lag
		}
		return group, err
	}
	var err error
	if d.metrics, err = newMetrics(deps.Metrics, deps.Now); err != nil {
		return nil, err
	}
	d.committer = newCommitter(cfg.CommitEvery, deps.Log, d.metrics, &d.assignment)
	d.rules = &rules{
		config: deps.Config, now: deps.Now, retentionDays: cfg.RetentionDays, erased: deps.Erased,
		bodiesRead: d.metrics.filterEvaluations,
	}
	d.disabler = &disabler{
		now: d.now,
		log: deps.Log, updater: deps.Updater, disabled: d.metrics.destinationsDisabled,
		queue: make(chan disableRequest, maxDisableRequests),
	}
	d.pulls = pull.New(pull.Deps{Keyring: deps.Keyring, Now: deps.Now, Version: cfg.Version,
		Wake: func(dest string, n int) { d.lanes.WakePulled(dest, n) }})
	d.lanes = lane.New(lane.Config{
		MaxInFlight: cfg.MaxInFlight, MaxInFlightBytes: cfg.MaxInFlightBytes, MaxSending: cfg.MaxSending,
	}, lane.Deps{
		Now: deps.Now, Rules: d.rules, Limiter: deps.Limiter, Held: deps.Held, Open: d.openTarget, Wake: d.wakeTimer,
		Pulled: d.pulls.Waits,
		OnGone: func(work *event.Work, url string) { d.disabler.request(work, url, event.Gone410) },
		SurveyWanted: func() {
			select {
			case d.surveyWake <- struct{}{}:
			default:
			}
		},
	})
	d.disabler.resetGone = d.lanes.ForgetGone
	d.kinds = newKinds(deps, cfg.Version, d.pulls)
	d.sender = destination.NewSender(deps.Now, cfg.MaxSending, d.metrics.connectionWait, deps.Spans)
	d.spans = deps.Spans
	collector := &stats{cfg: cfg, lanes: d.lanes, tierDepths: d.tierDepths, backlogAge: d.backlogAge}
	if err := deps.Metrics.Register(collector); err != nil {
		return nil, fmt.Errorf("register dispatcher metrics: %w", err)
	}
	d.transformations.init(cfg.MaxTransformedBody)
	d.filters.evaluated = d.metrics.filterEvaluations
	d.finisher = newFinisher(deps, d.metrics, d.deliveryRecorded)
	d.finisher.onReject = d.lanes.EndPlace
	return d, nil
}

// Pulls answers for destinations that consumers pull.
func (d *Dispatcher) Pulls() *pull.Kind { return d.pulls }

// Run delivers until ctx ends or reading fails. Then it stops reading, waits for running requests, at most
// Config.Drain, commits, and closes its membership. A static member (Config.InstanceID) keeps its partitions until its
// session times out.
func (d *Dispatcher) Run(ctx context.Context) error {
	background := context.WithoutCancel(ctx)
	var workers sync.WaitGroup
	sending, cancel := context.WithCancel(background) // ends when running requests must be cancelled
	defer cancel()
	d.lanes.SetStartWorker(func(l *lane.Lane) { workers.Go(func() { d.worker(sending, l) }) })
	tiers := make([]string, len(d.tiers)) // their records wait at least one second, so they are fetched last
	for i, t := range d.tiers {
		tiers[i] = t.Topic
	}
	joined := make(chan struct{}) // the group may call back before joinGroup has returned
	group, err := d.joinGroup(stream.GroupConfig{
		Name: stream.DispatchGroup, Topics: stream.ReadBy(stream.DispatchGroup), DelayTolerant: tiers,
		InstanceID: d.cfg.InstanceID,
		MaxPoll:    maxPollRecords,
		MaxWait:    maxFetchWait, MaxPartitionBytes: maxFetchBytes, MaxBytes: maxFetchBytes,
		Assigned: func(commits map[stream.Partition]stream.Commit) {
			<-joined
			d.recall(ctx, commits)
			d.onAssigned(commits)
		},
		Revoked: func(ctx context.Context, ids []stream.Partition) {
			d.releasePartitions(ctx, d.assignment.named(ids), revokeTimeout)
		},
		Lost:            func(ids []stream.Partition) { d.onLost(d.assignment.named(ids)) },
		Truncated:       d.assignment.forgetLost,
		MetadataDropped: d.committer.onMetadataRejected,
	})
	if err != nil {
		return err
	}
	d.group, d.committer.group = group, group
	close(joined)

	recording, stopRecording := context.WithCancel(background)
	defer stopRecording()
	var recorders sync.WaitGroup
	recorders.Go(func() { d.finisher.run(recording) })
	recorders.Go(func() { d.committer.run(recording) })
	for _, kind := range d.kinds {
		if keeps, ok := kind.(destination.Runner); ok {
			recorders.Go(func() { keeps.Run(recording) })
		}
	}

	readers, readCtx := errgroup.WithContext(ctx)
	readers.Go(func() error { return d.intake(readCtx) })
	readers.Go(func() error { d.timer(readCtx); return nil })
	readers.Go(func() error { d.surveys(readCtx); return nil })
	readers.Go(func() error { d.lanes.Run(readCtx); return nil })
	readers.Go(func() error { d.disabler.run(readCtx); return nil })
	err = readers.Wait()

	d.releasePartitions(background, d.assignment.all(), d.cfg.Drain)
	cancel()
	workers.Wait()
	group.Close()
	stopRecording()
	recorders.Wait()
	return err
}

// newKinds makes every kind of destination by the name of its settings; that of webhooks is empty.
func newKinds(deps Deps, version string, pulls *pull.Kind) map[string]destination.Kind {
	all := map[string]destination.Kind{"pull": pulls, "": webhook.New(webhook.Deps{Transport: deps.Transport,
		Keyring: deps.Keyring, Now: deps.Now, Version: version})}
	if guard, ok := deps.Transport.(*egress.Transport); ok { // else a test has replaced it
		all["sqs"] = sqs.New(sqs.Deps{Transport: guard, Keyring: deps.Keyring, Now: deps.Now})
		all["s3"] = s3.New(s3.Deps{Transport: guard, Keyring: deps.Keyring, Now: deps.Now})
		all["kafka"] = kafka.New(kafka.Deps{Dial: guard.Dial, Keyring: deps.Keyring, Now: deps.Now, Version: version})
	}
	return all
}

// openTarget opens a destination of any kind.
func (d *Dispatcher) openTarget(e *config.Endpoint, dest *config.Destination) (lane.Target, error) {
	name, _ := dest.Kind()
	kind := d.kinds[name]
	if kind == nil {
		return nil, fmt.Errorf("destination %s has the kind %s, which this node does not know", dest.ID, name)
	}
	return kind.Open(e, dest)
}
