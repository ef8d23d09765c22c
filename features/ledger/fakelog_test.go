package ledger

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// fakeLog is a log in memory. Tests may let things happen between any two requests.
type fakeLog struct {
	partitions int32
	records    map[stream.Partition][]*stream.Record // by offset; nil = lost
	starts     map[stream.Partition]int64
	commits    map[stream.Partition]stream.Commit
	between    func(asked bool) // called before every answer about offsets, and every few records
	reads      map[string]int
}

func newFakeLog(partitions int32) *fakeLog {
	return &fakeLog{
		partitions: partitions, records: map[stream.Partition][]*stream.Record{}, starts: map[stream.Partition]int64{},
		commits: map[stream.Partition]stream.Commit{}, between: func(bool) {}, reads: map[string]int{},
	}
}

func (l *fakeLog) append(topic string, partition int32, r *stream.Record, now time.Time) int64 {
	p := stream.Partition{Topic: topic, Index: partition}
	c := *r
	c.Topic, c.Partition, c.Offset = "t."+topic, partition, int64(len(l.records[p]))
	if c.Timestamp.IsZero() {
		c.Timestamp = now
	}
	l.records[p] = append(l.records[p], &c)
	return c.Offset
}

func (l *fakeLog) each(topics []string, f func(stream.Partition) int64) map[stream.Partition]int64 {
	l.between(true)
	out := map[stream.Partition]int64{}
	for _, t := range topics {
		for i := range l.partitions {
			p := stream.Partition{Topic: t, Index: i}
			out[p] = f(p)
		}
	}
	return out
}

func (l *fakeLog) Commits(_ context.Context, group string, _ ...string) (map[stream.Partition]stream.Commit, error) {
	if group != stream.DispatchGroup {
		return nil, errors.New("another group's offsets were asked for")
	}
	l.between(true)
	return maps.Clone(l.commits), nil
}

func (l *fakeLog) Starts(_ context.Context, topics ...string) (map[stream.Partition]int64, error) {
	return l.each(topics, func(p stream.Partition) int64 { return l.starts[p] }), nil
}

func (l *fakeLog) Ends(_ context.Context, topics ...string) (map[stream.Partition]int64, error) {
	return l.each(topics, func(p stream.Partition) int64 { return int64(len(l.records[p])) }), nil
}

func (l *fakeLog) OffsetsForTime(_ context.Context, topic string, t time.Time) (map[stream.Partition]int64, error) {
	return l.each([]string{topic}, func(p stream.Partition) int64 {
		for o, r := range l.records[p] {
			if r != nil && int64(o) >= l.starts[p] && !r.Timestamp.Before(t) {
				return int64(o)
			}
		}
		return int64(len(l.records[p]))
	}), nil
}

func (l *fakeLog) ReadRanges(
	_ context.Context, ranges []stream.Range, each func(stream.Partition, []*stream.Record) error) error {
	ranges = slices.Clone(ranges)
	for len(ranges) > 0 {
		l.between(false)
		g := &ranges[len(ranges)/2]
		if g.From < l.starts[g.Partition] && g.From < g.To {
			return stream.ErrTrimmed
		}
		to := min(g.From+10, g.To)
		var batch []*stream.Record
		for _, r := range l.records[g.Partition][g.From:max(to, g.From)] {
			if r != nil {
				batch = append(batch, r)
			}
		}
		l.reads[g.Topic] += len(batch)
		p := g.Partition
		if g.From = to; g.From >= g.To {
			ranges = slices.Delete(ranges, len(ranges)/2, len(ranges)/2+1)
		}
		if len(batch) == 0 {
			continue
		}
		if err := each(p, batch); errors.Is(err, stream.ErrStop) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
