// Package dispatcher delivers events to their destinations, at least once.
//
// It reads the topics events, commands and retry.*, and sends requests to destinations. It writes outcomes,
// follow-ups to retry.*, and to the dead letter topic records that cannot be decoded and follow-ups that brokers
// reject. For events that hit a tripwire it writes a hit to findings.
//
// One delivery passes these files, in this order. Start reading at intake.go and sender.go.
//
//	intake.go     reads a record: a slot of its partition, and one delivery for each destination
//	delivery.go   admits it to its lane, and parks or ends it whenever the lane says so
//	lane          Admit: the lane of the destination queues the delivery, or decides to park or end it
//	lane          Next: a worker of the lane takes it; configuration and rate are checked now
//	transform.go  applies the endpoint's transformation to the body, or ends the delivery
//	sender.go     sends it: one attempt, through the kind of the destination
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
// The simulation (test/sim) holds most of them with whole clusters, whatever breaks; besides:
//
//  1. Nothing is lost, in whatever order deliveries finish and wherever the process dies: a commit never passes an
//     unfinished record (TestCommitNeverPassesUnfinished, TestRandomCompletionsSurviveCrashes).
//  2. The follow-up is in the log before its outcome, and both are before the offset is committed
//     (TestFollowUpIsNoCopy, TestSmallestOutcomeIsRetriedUntilProduced).
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
//     (TestReleaseIsBounded, TestStoppedPartition).
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
//     re-check interval (TestPausedDeliveriesAreHeldUntilResumed, TestBreakerHoldsAndProbes,
//     TestRequestedDeliveriesAreSentWhileTheBreakerIsOpen, TestChangedDestinationClosesItsBreaker).
//  18. A use of a tripwire is never delivered, and its offset is committed after its hit is stored (TestUses).
//  19. A body that cannot be transformed is never sent, and changes nothing but its delivery
//     (TestFailingTransformation, TestTransformedBodiesAreDelivered).
package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/destination/pull"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// Dispatcher is one member of the consumer group that delivers.
type Dispatcher struct {
	instanceID string
	drain      time.Duration                            // Config.Drain
	join       func(stream.GroupConfig) (member, error) // joins the group; tests replace it

	kinds      destinationKinds
	pulls      *pull.Owner
	memory     *tierMemory
	rules      *rules
	lanes      *lane.Lanes
	assignment *assignment
	ownership  *ownership
	committer  *committer
	finisher   *finisher
	sender     *sender
	reader     *reader
	timer      *timer
	surveyor   *surveyor
	disabler   *disabler
}

// New validates its arguments and creates a dispatcher. It starts nothing and connects to nothing; see Run.
func New(cfg Config, deps Deps) (*Dispatcher, error) {
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Metrics, deps.Now)
	if err != nil {
		return nil, err
	}
	d := &Dispatcher{
		instanceID: cfg.InstanceID, drain: cfg.Drain, memory: &tierMemory{limit: cfg.MaxWaitingBytes},
		join:       func(g stream.GroupConfig) (member, error) { return stream.NewGroup(deps.Stream, g) },
		assignment: newAssignment(),
	}
	d.rules = &rules{
		config: deps.Config, now: deps.Now, retentionDays: cfg.RetentionDays, erased: deps.Erased,
		bodiesRead: m.filterEvaluations,
	}
	d.disabler = &disabler{
		now: deps.Now, log: deps.Log, updater: deps.Updater, disabled: m.destinationsDisabled,
		queue: make(chan disableRequest, maxDisableRequests),
	}
	pulls := pull.New(pull.Deps{Keyring: deps.Keyring, Now: deps.Now, Version: cfg.Version})
	d.kinds = newKinds(deps, cfg.Version, pulls)
	wake, surveyWanted := make(chan struct{}, 1), make(chan struct{}, 1)
	d.lanes = lane.New(lane.Config{
		MaxInFlight: cfg.MaxInFlight, MaxInFlightBytes: cfg.MaxInFlightBytes, MaxSending: cfg.MaxSending,
	}, lane.Deps{
		Now: deps.Now, Rules: d.rules, Limiter: deps.Limiter, Held: deps.Held, Open: d.kinds.open,
		Pulled: pulls.Waits, OnGone: d.disabler.requestGone,
		Wake: func() { wait.Wake(wake) }, SurveyWanted: func() { wait.Wake(surveyWanted) },
	})
	d.pulls = pull.NewOwner(pulls, d.lanes.WakePulled)
	if err := deps.Metrics.Register(&stats{cfg, d.lanes, d.assignment, deps.Now}); err != nil {
		return nil, fmt.Errorf("register dispatcher metrics: %w", err)
	}
	d.committer = newCommitter(cfg.CommitEvery, deps.Log, m, d.assignment)
	d.finisher = newFinisher(deps, m, func(delivery *lane.Delivery) {
		if slotOf(delivery).deliveryDone() {
			d.committer.countRecord()
		}
		d.lanes.Release(delivery)
		if delivery.Recorded != nil {
			delivery.Recorded()
		}
	}, d.lanes.EndPlace)
	d.ownership = &ownership{
		log: deps.Log, assignment: d.assignment, committer: d.committer, lanes: d.lanes, pulls: pulls,
		superseded: &d.rules.superseded, onOwned: deps.OnOwned, delivered: deps.Delivered,
	}
	deliveries := &deliveries{
		config: deps.Config, log: deps.Log, now: deps.Now, tiers: stream.Tiers(), lanes: d.lanes, finisher: d.finisher,
		transformations: newTransformations(cfg.MaxTransformedBody), metrics: m, spans: deps.Spans,
	}
	attempts := destination.NewSender(deps.Now, cfg.MaxSending, m.connectionWait, deps.Spans)
	d.sender = &sender{deliveries, deps.IDs, d.rules, attempts, d.disabler}
	d.reader = &reader{deliveries, d.assignment, d.rules, deps.Stream,
		deps.UseHit}
	d.timer = &timer{deliveries, d.assignment, d.rules, &recheck{deliveries: deliveries, assignment: d.assignment},
		&wanted{deliveries: deliveries, assignment: d.assignment}, wake}
	d.surveyor = &surveyor{deps.Log, deps.Stream, d.lanes, d.assignment, surveyWanted}
	return d, nil
}

// Pulls answers for destinations that consumers pull.
func (d *Dispatcher) Pulls() *pull.Owner { return d.pulls }

// Run delivers until ctx ends or reading fails. Then it stops reading, waits for running requests, at most
// Config.Drain, commits, and closes its membership. A static member (Config.InstanceID) keeps its partitions until its
// session times out.
func (d *Dispatcher) Run(ctx context.Context) error {
	background := context.WithoutCancel(ctx)
	var workers sync.WaitGroup
	sending, cancel := context.WithCancel(background) // ends when running requests must be cancelled
	defer cancel()
	h := &host{memory: d.memory, wake: d.timer.wake,
		startWorker: func(l *lane.Lane) { workers.Go(func() { d.sender.work(sending, l) }) }}
	joined := make(chan struct{}) // the group may call back before join has returned
	group, err := d.join(d.groupConfig(ctx, h, joined))
	if err != nil {
		return err
	}
	h.group = group
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
	readers.Go(func() error { return d.reader.run(readCtx, group) })
	readers.Go(func() error { d.timer.run(readCtx); return nil })
	readers.Go(func() error { d.surveyor.run(readCtx); return nil })
	readers.Go(func() error { d.lanes.Run(readCtx); return nil })
	readers.Go(func() error { d.disabler.run(readCtx, d.lanes.ForgetGone); return nil })
	err = readers.Wait()

	d.ownership.release(background, d.assignment.all(), d.drain)
	cancel()
	workers.Wait()
	group.Close()
	stopRecording()
	recorders.Wait()
	return err
}

// groupConfig describes the member of the group. h is complete when joined is closed.
func (d *Dispatcher) groupConfig(ctx context.Context, h *host, joined <-chan struct{}) stream.GroupConfig {
	tiers := make([]string, 0, len(stream.Tiers())) // their records wait at least one second, so they are fetched last
	for _, t := range stream.Tiers() {
		tiers = append(tiers, t.Topic)
	}
	return stream.GroupConfig{
		Name: stream.DispatchGroup, Topics: stream.ReadBy(stream.DispatchGroup), DelayTolerant: tiers,
		InstanceID: d.instanceID,
		MaxPoll:    maxPollRecords,
		MaxWait:    maxFetchWait, MaxPartitionBytes: maxFetchBytes, MaxBytes: maxFetchBytes,
		Assigned: func(commits map[stream.Partition]stream.Commit) {
			<-joined
			d.ownership.recall(ctx, commits)
			d.ownership.assign(h, commits)
		},
		Revoked: func(ctx context.Context, ids []stream.Partition) {
			d.ownership.release(ctx, d.assignment.named(ids), revokeTimeout)
		},
		Lost:            func(ids []stream.Partition) { d.ownership.lose(d.assignment.named(ids)) },
		Truncated:       d.assignment.forgetLost,
		MetadataDropped: d.committer.onMetadataRejected,
	}
}
