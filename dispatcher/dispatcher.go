// Package dispatcher delivers events to their destinations, at least once.
//
// In flow the records of the topics events, commands and retry.*; out flow requests to the
// destinations, and the records that tell what came of them: outcomes, follow-ups in retry.*, and
// dead for what cannot be decoded.
//
// One delivery goes down through these files:
//
//	intake.go     a record is read: a slot of its partition, and a delivery for each destination
//	lane          Admit: its lane queues it, or decides to park or to end it
//	lane          Next: a worker of the lane gets it; configuration and rate are asked at this moment
//	deliver.go    send: one attempt (attempt.go, header.go, trace.go)
//	classify.go   what the answer means
//	next.go       the next step: delivered, failed, or another attempt (retry.go)
//	finish.go     the follow-up is recorded, then the outcome, then the slot is done
//	commit.go     the lowest slot that is not done, and what is done beyond it as holes in the metadata
//
// A record is a slot; it is done when, for each of its destinations, the outcome is acknowledged by
// Kafka and before it the record that continues the delivery, if there is one. A retry is the same
// delivery with the next attempt number, in the retry topic of its delay; the head of such a partition is
// held in memory until it is due (timer.go), and hops on to the next topic if that takes longer than its delay.
//
// Package lane decides when a destination gets its deliveries. What it does not send now is parked in a retry topic
// with the reason: parked deliveries come by once per step, are decided anew each time, and are told again only when
// the reason changes or the time that was told is over. Or the partition pauses for a moment if the destination is only
// busy.
//
// Back-pressure: a lane that is stuck parks, a partition with too much undone work pauses, a node
// that holds all it may stops reading.
//
// Ownership: a partition belongs to one node at a time, and one partition object to one assignment of
// it. When it is revoked the intake stops, what is in flight finishes, the offset is committed, the
// object is dropped; what still completes after that commits nothing. A partition that was lost and comes
// back is told what was completed here (lost_partitions.go). Run owns all goroutines: the intake, the timer of the
// retry topics, the one that wakes lanes that wait for a token, the committer, the one that disables destinations that
// are gone, those that produce what follows or was not taken, and one for each request in flight. Everything they
// share is behind the lock of the lanes, then that of a partition.
//
// # Invariants
//
//  1. Nothing is lost, whatever finishes in which order and wherever the process dies: a commit never
//     passes a record that is not done (TestCommitNeverPassesUnfinished, TestRandomCompletionsSurviveCrashes;
//     with the tag faults TestCrashPoints).
//  2. The follow-up is in the log before the outcome that speaks of it, and both before the offset is
//     committed (TestFollowUpComesBeforeItsOutcome, TestOutcomeIsRetriedUntilProduced).
//  3. After a crash no more is done again than was done since the last commit, was in flight, or had no
//     room in the metadata (TestHolesSurviveRestart, TestNextOwnerRepeatsNothing).
//  4. No attempt is early; it is late by at most max(1 s, 5 %) of its wait as long as the node keeps up
//     (TestHopsAreNeverEarlyAndHardlyLate, TestDestinationDownFor29Seconds, TestDeepTier).
//  5. A destination that hangs, is slow or dead keeps nobody else waiting, and one that is only busy does
//     so for a bounded time (TestHungDestinationsBesideAGoodOne, TestStuckLanesLeaveRoom, TestStallsAreBounded,
//     TestStuckLanesShedWhenMemoryIsLow, TestHungDestinationGetsFewRequests), at the same host and port too
//     (TestNeighboursAtOneHost, TestRequestsAreShared).
//  6. Memory is bounded, however much is pending (TestIntakeStopsWhenNothingCanBeRecorded,
//     TestPartitionPausesWhenTooMuchIsUnfinished, TestTierPausesAtItsShare, TestLaneBytesAreBounded,
//     TestAMillionPendingInLittleMemory).
//  7. The body arrives byte for byte, and what is signed is what is sent (TestBodyArrivesByteForByte,
//     TestTwoSecretsTwoSignatures).
//  8. An attempt is one request, and no redirect is followed (TestOneAttemptIsOneRequest, TestRecordedResponse).
//  9. A partition has one owner: what is in flight is waited for when it is revoked, and nothing is
//     committed when it is lost (TestRebalanceInMidFlight, TestLostMembership, TestStoppedPartition).
//  10. The configuration at the moment of the attempt counts (TestConfigurationIsReadAtFireTime, TestUnknownEndpoint).
//  11. Credentials are masked in what is recorded (TestCredentialsAreMaskedInTheRow).
//  12. A record that cannot be decoded is kept, told of and passed (TestUndecodableRecordsBecomeDeadLetters), and so is a follow-up that
//     Kafka will never take (TestFollowUpThatIsRefusedForGood).
//  13. A stop finishes what is in flight, and nothing outlives Run (TestStopFinishesWhatIsInFlight,
//     TestRunEndsWithItsContext, TestMain).
//  14. What becomes of a delivery is one decision of its lane (TestDecisions), and each that a lane took ends exactly
//     once, whatever happens to the lane (TestEveryDeliveryEndsOnce).
//  15. All parked deliveries of a node come by some 4,000 times a second at most, each of them at least once
//     an hour, and a new owner knows how many there are after one step (TestRecheckBudget, TestNewOwnerCountsParkedAfterOneRecheck).
//  16. A rate is held from both sides, by retries, replays and tests too (TestRateIsHeld, TestSlowRate,
//     TestRateChanges).
//  17. What is paused or behind an open circuit breaker is not sent but by a probe, and goes on within a step
//     (TestPausedDeliveriesAreHeldUntilResumed, TestBreakerHoldsAndProbes, TestReplaysAreProbes, TestNewURLClosesTheBreaker).
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

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// What the dispatcher asks of its consumer group.
const (
	// maxPollRecords bounds what one poll adds to the memory of a partition that is about to rest.
	maxPollRecords = 256
	// maxFetchBytes is how many bytes one fetch brings, of one partition or of all. What is left of it when a
	// partition rests was fetched for nothing, and an event that comes meanwhile waits until it is done with.
	maxFetchBytes = 256 << 10
	// maxFetchWait bounds how late a partition that is resumed is fetched, and so how fast a deep tier
	// flows: its share of the memory in this time. It costs an idle node ten small requests a second.
	maxFetchWait = 100 * time.Millisecond
	// revokeTimeout is how long a rebalance waits for requests in flight. Of the 30 s that the group gives a
	// member, up to 2 s pass until a heartbeat tells it, and up to commitTimeout for the commit.
	revokeTimeout = 20 * time.Second
	// commitAfterRecords finished records a commit is made even if its time has not come.
	commitAfterRecords = 5000
	// commitTimeout bounds one commit, and the wait for one that is on its way.
	commitTimeout = 5 * time.Second
	// sweepEvery is how often empty lanes are removed.
	sweepEvery = time.Minute
)

// Dispatcher is one node's part of the group.
type Dispatcher struct {
	cfg     Config
	log     *slog.Logger
	stream  stream.Config
	config  ConfigView
	ids     *id.Generator
	now     func() time.Time
	onOwned func([]int32)
	tiers   []stream.Tier

	metrics      *metrics
	faults       *faults
	lanes        *lane.Lanes
	tierMemory   tierMemory
	finisher     *finisher
	rules        *rules
	goneDisabler *goneDisabler
	client       *client
	filters      bodyFilters // of the reader alone

	joinGroup func(stream.GroupConfig) (member, error) // of the group; New sets it
	group     member                                   // set by Run
	lag       func(stream.Partition) int64             // see stream.Group; set by Run
	completed atomic.Int64
	commitNow chan struct{}
	timerWake chan struct{} // a tier partition has a new head

	// committing is full from reading marks until they are committed, so that no old mark is committed after
	// a newer one. Whoever fills it does so for at most commitTimeout.
	commitLock chan struct{}

	mu         sync.RWMutex // guards what follows
	partitions map[stream.Partition]*partition
	lost       map[stream.Partition]*partition // lost, and not assigned since
}

// member is one member of the consumer group: a stream.Group.
type member interface {
	pauser
	Poll(ctx context.Context, each func(stream.Partition, []*stream.Record)) error
	Commit(ctx context.Context, marks map[stream.Partition]stream.Commit) error
	Close()
}

// New validates and prepares; it connects to nothing.
func New(cfg Config, deps Deps) (*Dispatcher, error) {
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	d := &Dispatcher{
		cfg: cfg, log: deps.Log, stream: deps.Stream, config: deps.Config, ids: deps.IDs,
		now: deps.Now, onOwned: deps.OnOwned, tiers: stream.Tiers(), tierMemory: tierMemory{limit: cfg.MaxWaitingBytes},
		faults:    newFaults(),
		commitNow: make(chan struct{}, 1), commitLock: make(chan struct{}, 1), timerWake: make(chan struct{}, 1),
		partitions: make(map[stream.Partition]*partition),
		lost:       make(map[stream.Partition]*partition),
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
	if d.metrics, err = newMetrics(deps.Metrics); err != nil {
		return nil, err
	}
	d.rules = &rules{
		config: deps.Config, now: deps.Now, retentionDays: cfg.RetentionDays, erased: deps.Erased,
		bodiesRead: d.metrics.filterEvaluations,
	}
	d.goneDisabler = &goneDisabler{
		log: deps.Log, updater: deps.Updater, disabled: d.metrics.destinationsDisabled,
		queue: make(chan disableRequest, maxDisableRequests),
	}
	d.lanes = lane.New(lane.Config{
		MaxInFlight: cfg.MaxInFlight, MaxInFlightBytes: cfg.MaxInFlightBytes, MaxSending: cfg.MaxSending,
	}, lane.Deps{
		Now: deps.Now, Rules: d.rules, Limiter: deps.Limiter, Held: deps.Held, Keyring: deps.Keyring, Wake: d.wakeTimer,
		OnGone: d.goneDisabler.requestDisable,
	})
	d.goneDisabler.resetGone = d.lanes.ForgetGone
	d.client = newClient(deps.Transport, cfg.Version, deps.Now, cfg.MaxSending, d.metrics.connectionWait)
	if err := deps.Metrics.Register(&stats{cfg: cfg, lanes: d.lanes, tierDepths: d.tierDepths}); err != nil {
		return nil, fmt.Errorf("register dispatcher metrics: %w", err)
	}
	d.filters.evaluated = d.metrics.filterEvaluations
	d.finisher = newFinisher(deps, d.faults, d.metrics, d.deliveryRecorded)
	return d, nil
}

// Run delivers until ctx ends or reading fails. Then it stops reading, waits for what is in flight, at
// most Config.Drain, commits and leaves the group.
func (d *Dispatcher) Run(ctx context.Context) error {
	background := context.WithoutCancel(ctx)
	var workers sync.WaitGroup
	sending, cut := context.WithCancel(background) // ends when requests in flight must be cut short
	defer cut()
	d.lanes.SetStartWorker(func(l *lane.Lane) { workers.Go(func() { d.worker(sending, l) }) })
	tiers := make([]string, len(d.tiers)) // what comes in them waits for a second at least
	for i, t := range d.tiers {
		tiers[i] = t.Topic
	}
	joined := make(chan struct{}) // the group may call back before NewGroup has returned
	group, err := d.joinGroup(stream.GroupConfig{
		Name: stream.DispatchGroup, Topics: stream.ReadBy(stream.DispatchGroup), DelayTolerant: tiers,
		InstanceID: d.cfg.InstanceID,
		MaxPoll:    maxPollRecords,
		MaxWait:    maxFetchWait, MaxPartitionBytes: maxFetchBytes, MaxBytes: maxFetchBytes,
		Assigned: func(marks map[stream.Partition]stream.Commit) { <-joined; d.onAssigned(marks) },
		Revoked: func(ctx context.Context, ids []stream.Partition) {
			d.releasePartitions(ctx, d.partitionsNamed(ids), revokeTimeout)
		},
		Lost:            func(ids []stream.Partition) { d.onLost(d.partitionsNamed(ids)) },
		Truncated:       d.onTruncated,
		MetadataDropped: d.onMetadataRejected,
	})
	if err != nil {
		return err
	}
	d.group = group
	close(joined)

	recording, stopRecording := context.WithCancel(background)
	defer stopRecording()
	var recorders sync.WaitGroup
	recorders.Go(func() { d.finisher.run(recording) })
	recorders.Go(func() { d.commitLoop(recording) })

	readers, readCtx := errgroup.WithContext(ctx)
	readers.Go(func() error { return d.intake(readCtx) })
	readers.Go(func() error { d.timer(readCtx); return nil })
	readers.Go(func() error { d.lanes.Run(readCtx); return nil })
	readers.Go(func() error { d.goneDisabler.run(readCtx); return nil })
	err = readers.Wait()

	d.releasePartitions(background, d.assignment(), d.cfg.Drain)
	cut()
	workers.Wait()
	group.Close()
	stopRecording()
	recorders.Wait()
	return err
}
