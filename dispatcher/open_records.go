package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

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
