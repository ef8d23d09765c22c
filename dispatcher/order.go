package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
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

// wanted is how the timer searches for deliveries of ordered destinations whose turn is near.
type wanted struct {
	*deliveries
	assignment *assignment

	last   time.Time
	pause  time.Duration
	search int // how many others may be parked again to find them in what was not read
}

// run takes deliveries out of the retry topics when their turn is near, and returns how long to wait before the next
// call. If they are not in memory, others that are not at their turn are parked again,
// each once, to read what is behind them.
func (w *wanted) run() time.Duration {
	now := w.now()
	places, fresh := w.lanes.Wanted()
	tiers := onlyTiers(w.assignment.all())
	if fresh {
		w.pause, w.search = recheckTick, 0
		for _, p := range tiers {
			w.search += p.depth()
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
				w.admit(delivery)
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
		unread[p] = p.hasUnread()
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

// surveyor makes the surveys of the lanes.
type surveyor struct {
	log        *slog.Logger
	stream     stream.Config
	lanes      *lane.Lanes
	assignment *assignment
	wanted     chan struct{} // a survey is wanted; capacity 1
}

// run makes surveys until ctx ends.
func (s *surveyor) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wanted:
		}
		for all := s.lanes.Surveys(); len(all) > 0 && ctx.Err() == nil; all = s.lanes.Surveys() {
			for _, survey := range all {
				if err := s.survey(ctx, survey); err != nil && ctx.Err() == nil {
					s.log.LogAttrs(ctx, slog.LevelWarn, "cannot read what waits for ordered destinations, trying again",
						slog.Int("partition", int(survey.Index())), slog.Any("error", err))
					wait.For(ctx, surveyPause)
				}
			}
		}
	}
}

// survey reads the records of the retry topics that this node has not read yet. Those that it has read are known to
// the lanes.
func (s *surveyor) survey(ctx context.Context, survey *lane.Survey) error {
	log, err := stream.NewReader(s.stream, "order")
	if err != nil {
		return err
	}
	defer log.Close()
	topics := []string{stream.Events}
	for _, t := range stream.Tiers() {
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
		p := s.assignment.partition(id)
		if p == nil {
			return errors.New("a partition is not assigned yet")
		}
		if parts[id] = p; topic == stream.Events {
			continue
		}
		if from := max(s.assignment.placedTo(p), starts[id], 0); from < ends[id] {
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
				s.assignment.placing.Lock()
				if parts[id].isUnread(record.Offset, record.LeaderEpoch) {
					survey.Add(work.Dest, work.Place)
				}
				s.assignment.placing.Unlock()
			}
			return nil
		})
	}
	if err == nil {
		events := stream.Partition{Topic: stream.Events, Index: survey.Index()}
		survey.Finish(max(s.assignment.placedTo(parts[events]), starts[events]), ends[events])
	}
	return err
}
