package dispatcher

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// surveyPause is the pause before a survey that failed is made again.
	surveyPause = time.Second
	// maxWantedPause bounds the pause between two searches for wanted deliveries that are not in memory.
	maxWantedPause = 5 * time.Second
	// A search for others parks at most 4,000 deliveries a second again.
	searchBatch, searchPause = 1000, 250 * time.Millisecond
)

// slotOfKey is the slot of the key of an event; ok is false for an event without the key, which has no order.
func slotOfKey(ev *event.Event, dest string, ordering *kinds.Ordering) (slot uint64, ok bool) {
	keyOf, err := ordering.KeyOf()
	if err != nil { // a newer version wrote it
		return 0, false
	}
	header := make(http.Header, len(ev.Header))
	for _, f := range ev.Header {
		header.Add(f.Name, f.Value)
	}
	key, ok := keyOf(header, ev.Body)
	hash := sha256.Sum256([]byte(dest + "\x00" + key)) // a sender must find no key that waits for one of another sender
	return binary.BigEndian.Uint64(hash[:]), ok
}

// blocker is the record that keeps those after a delivery waiting that has failed for good; it has none if the next
// one may go.
func (d *Dispatcher) blocker(work *event.Work, outcome *event.Outcome) step {
	endpoint, _ := d.config.Endpoint(work.Event.Endpoint)
	if outcome.Status != event.Failed || outcome.Reason == event.PayloadExpired || endpoint == nil {
		return step{}
	}
	if dest := endpoint.Destination(work.Dest); dest == nil || !dest.BlocksAfterFailure() {
		return step{}
	}
	now, next := d.now(), *work
	next.Place.Blocks, next.Parked, next.ParkedBy, next.ReportedNextAt = true, event.Behind, 0, time.Time{}
	next.Due = now.Add(lane.MinRecheck)
	return d.followUp(&next, now)
}

// wanted is how the timer searches for deliveries whose turn is near.
type wanted struct {
	last   time.Time
	pause  time.Duration
	search int // how many others may be parked again to find them in what was not read
}

// admitWanted takes deliveries of ordered destinations out of the retry topics when their turn is near, and returns how
// long to wait before the next call. If they are not in memory, others that are not at their turn are parked again,
// each once, to read what is behind them.
func (d *Dispatcher) admitWanted() time.Duration {
	w, now := &d.wanted, d.now()
	places, fresh := d.lanes.Wanted()
	tiers := onlyTiers(d.assignment.all())
	if fresh {
		w.pause, w.search = recheckTick, 0
		for _, p := range tiers {
			w.search += p.depth(d.lag(p.id))
		}
	}
	if len(places) == 0 {
		return maxSleep
	}
	if passed := now.Sub(w.last); passed >= 0 && passed < w.pause {
		return w.pause - passed
	}
	w.last = now
	take := func(limit int, matches func(*partition, *lane.Delivery) bool) (taken int) {
		for _, p := range tiers {
			if places[p.id.Index] == nil {
				continue
			}
			for _, delivery := range p.takeParked(now.Add(maxDelay), limit-taken, func(delivery *lane.Delivery) bool {
				return delivery.Work.Place.Position > 0 && matches(p, delivery)
			}) {
				d.admit(delivery)
				taken++
			}
		}
		return taken
	}
	if take(maxWaiting, func(p *partition, delivery *lane.Delivery) bool {
		return places[p.id.Index][lane.KeyOfPlace(delivery.Work)]
	}) > 0 {
		w.pause = recheckTick
		return w.pause
	}
	unread := make(map[*partition]bool)
	for _, p := range tiers {
		unread[p] = p.hasUnread(d.lag(p.id))
	}
	passed := take(min(w.search, searchBatch), func(p *partition, delivery *lane.Delivery) bool {
		return unread[p] && delivery.Work.Parked == event.Behind && !delivery.Work.Place.Blocks
	})
	w.search -= passed
	if w.pause = min(2*w.pause, maxWantedPause); passed > 0 {
		w.pause = searchPause
	}
	return w.pause
}

// depth is how many records of a retry topic wait in memory or were not read, of which lag are known.
func (p *partition) depth(lag int64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) + int(lag)
}

// surveys makes the surveys of the lanes until ctx ends.
func (d *Dispatcher) surveys(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.surveyWake:
		}
		for all := d.lanes.Surveys(); len(all) > 0 && ctx.Err() == nil; all = d.lanes.Surveys() {
			for _, survey := range all {
				if err := d.makeSurvey(ctx, survey); err != nil && ctx.Err() == nil {
					d.log.LogAttrs(ctx, slog.LevelWarn, "cannot read what waits for ordered destinations, trying again",
						slog.Int("partition", int(survey.Index())), slog.Any("error", err))
					wait.For(ctx, surveyPause)
				}
			}
		}
	}
}

// makeSurvey reads the records of the retry topics that this node has not read yet. Those that it has read are known to
// the lanes.
func (d *Dispatcher) makeSurvey(ctx context.Context, survey *lane.Survey) error {
	log, err := stream.NewReader(d.stream, "order")
	if err != nil {
		return err
	}
	defer log.Close()
	topics := []string{stream.Events}
	for _, t := range d.tiers {
		topics = append(topics, t.Topic)
	}
	starts, err := log.Starts(ctx, topics...)
	if err != nil {
		return err
	}
	ends, err := log.Ends(ctx, topics...)
	if err != nil {
		return err
	}
	parts := make(map[stream.Partition]*partition)
	var ranges []stream.Range
	for _, topic := range topics {
		id := stream.Partition{Topic: topic, Index: survey.Index()}
		p := d.assignment.partition(id)
		if p == nil {
			return errors.New("a partition is not assigned yet")
		}
		if parts[id] = p; topic == stream.Events {
			continue
		}
		if from := max(d.placedTo(p), starts[id], 0); from < ends[id] {
			ranges = append(ranges, stream.Range{Partition: id, From: from, To: ends[id]})
		}
	}
	if len(ranges) > 0 {
		err = log.ReadRanges(ctx, ranges, func(id stream.Partition, records []*stream.Record) error {
			for _, record := range records {
				work, err := event.DecodeWorkHead(record)
				if err != nil || work.Place.Position == 0 {
					continue
				}
				d.placing.Lock()
				if parts[id].isUnread(record.Offset, record.LeaderEpoch) {
					survey.Add(work.Dest, work.Place)
				}
				d.placing.Unlock()
			}
			return nil
		})
	}
	if err == nil {
		events := stream.Partition{Topic: stream.Events, Index: survey.Index()}
		survey.Finish(max(d.placedTo(parts[events]), starts[events]), ends[events])
	}
	return err
}

// placedTo is the offset below which the places of all records are known to the lanes.
func (d *Dispatcher) placedTo(p *partition) int64 {
	d.placing.Lock()
	defer d.placing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tracker.next
}

// isUnread reports whether the record has yet to be read, and was not finished before.
func (p *partition) isUnread(offset int64, leaderEpoch int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset >= p.tracker.next && !p.tracker.doneByEarlierOwner(offset) &&
		(p.predecessor == nil || !p.predecessor.wasDone(offset, leaderEpoch))
}

// wasDone reports whether a partition that was lost had finished the record.
func (p *partition) wasDone(offset int64, leaderEpoch int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tracker.wasDone(offset, leaderEpoch)
}

// ErrTooManyOpen means that more records are open than a Survey keeps in memory.
var ErrTooManyOpen = errors.New("too many records are open")

// maxOpenRecords bounds the open records that a Survey keeps, about 100 bytes each.
const maxOpenRecords = 200_000

// Survey finds the unfinished records of one endpoint, from the log and from what the group has committed. It counts
// too many rather than too few: a record that was finished in the last second may still count.
type Survey struct {
	log        *stream.Reader
	endpoint   string
	partitions []int32

	readUntil map[stream.Partition]int64   // records below these offsets were read
	open      map[recordPosition]time.Time // unfinished records and when they are due; zero: now
}

// recordPosition is the partition and offset of a record.
type recordPosition struct {
	stream.Partition
	offset int64
}

// OpenRecords is the result of a Survey.
type OpenRecords struct {
	Immediate int       // records of events and commands, which are processed at once
	Waiting   int       // records in retry topics
	LastDue   time.Time // when the last of the waiting ones is due
}

// Any reports whether any record is open.
func (o OpenRecords) Any() bool { return o.Immediate+o.Waiting > 0 }

// NewSurvey makes a Survey; Refresh does the reading.
func NewSurvey(log *stream.Reader, endpoint string, partitions []int32) *Survey {
	return &Survey{
		log: log, endpoint: endpoint, partitions: partitions,
		readUntil: make(map[stream.Partition]int64), open: make(map[recordPosition]time.Time),
	}
}

// Refresh returns the open records. The first call reads everything that the group has not finished in these
// partitions, later calls only what was added since. After an error the Survey is incomplete and must not be used.
func (s *Survey) Refresh(ctx context.Context) (OpenRecords, error) {
	topics := stream.ReadBy(stream.DispatchGroup)
	// Commits are read before the ends: the follow-up of a record is in the log before the record is committed.
	commits, err := s.log.Commits(ctx, stream.DispatchGroup, topics...)
	if err != nil {
		return OpenRecords{}, err
	}
	starts, err := s.log.Starts(ctx, topics...)
	if err != nil {
		return OpenRecords{}, err
	}
	ends, err := s.log.Ends(ctx, topics...)
	if err != nil {
		return OpenRecords{}, err
	}
	done := make(map[stream.Partition]stream.Completed)
	var ranges []stream.Range
	for _, index := range s.partitions {
		for _, topic := range topics {
			p := stream.Partition{Topic: topic, Index: index}
			done[p] = commits[p].Completed()
			from := max(done[p].FirstIncomplete(), starts[p], s.readUntil[p])
			s.readUntil[p] = max(from, ends[p])
			ranges = append(ranges, stream.Range{Partition: p, From: from, To: ends[p]})
		}
	}
	for at := range s.open {
		if done[at.Partition].Contains(at.offset) {
			delete(s.open, at)
		}
	}
	err = s.log.ReadRanges(ctx, ranges, func(p stream.Partition, records []*stream.Record) error {
		for _, record := range records {
			if string(record.Key) == s.endpoint && !done[p].Contains(record.Offset) {
				s.open[recordPosition{p, record.Offset}] = dueOf(p, record)
			}
		}
		if len(s.open) > maxOpenRecords {
			return fmt.Errorf("%w: more than %d records", ErrTooManyOpen, maxOpenRecords)
		}
		return nil
	})
	return s.count(), err
}

// dueOf is when a record is due; zero for records that are processed at once.
func dueOf(p stream.Partition, record *stream.Record) time.Time {
	if p.Topic == stream.Events {
		return time.Time{}
	}
	work, err := event.DecodeWorkHead(record)
	if err != nil {
		return time.Time{} // it goes to the dead letter topic
	}
	return work.Due
}

func (s *Survey) count() (o OpenRecords) {
	for at, due := range s.open {
		if !stream.IsTier(at.Topic) {
			o.Immediate++
			continue
		}
		o.Waiting++
		if due.After(o.LastDue) {
			o.LastDue = due
		}
	}
	return o
}
