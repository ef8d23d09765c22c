package dispatcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// simLog is the log of a simulation: topics of one partition in memory, and the only member of the group that reads
// them. With it a dispatcher is complete, and an hour of fake time costs only what the dispatcher does: no requests,
// no encoding of batches, no copies.
//
// Fetched records are forgotten. Records that must arrive late are kept aside until then.
type simLog struct {
	assigned func(map[stream.Partition]stream.Commit)
	// produced is called with every record and returns how much later the record can be fetched.
	produced func(topic string, record *stream.Record) time.Duration

	mu     sync.Mutex // guards the fields below
	topics map[string]*simTopic
	order  []*simTopic
	turn   int
	joined bool
	marks  map[stream.Partition]stream.Commit
	more   chan struct{} // wakes Poll; capacity 1
}

type simTopic struct {
	id     stream.Partition
	queue  []*stream.Record
	next   int64
	paused bool
	deep   func(int) *stream.Record // makes the records below end as they are fetched; they are not in memory before
	end    int64
}

func newSimLog() *simLog {
	l := &simLog{
		topics: make(map[string]*simTopic), marks: make(map[stream.Partition]stream.Commit), more: make(chan struct{}, 1),
		produced: func(string, *stream.Record) time.Duration { return 0 },
	}
	for _, name := range []string{stream.Events, stream.Commands} {
		l.add(name)
	}
	for _, t := range stream.Tiers() {
		l.add(t.Topic)
	}
	return l
}

func (l *simLog) add(name string) {
	t := &simTopic{id: stream.Partition{Topic: name}}
	l.topics[name] = t
	l.order = append(l.order, t)
}

// Produce appends at once.
func (l *simLog) Produce(topic string, partition int32, record *stream.Record, done func(*stream.Record, error)) {
	if record.Timestamp.IsZero() {
		record.Timestamp = time.Now()
	}
	if late := l.produced(topic, record); late > 0 {
		time.AfterFunc(late, func() { l.append(topic, record) })
	} else {
		l.append(topic, record)
	}
	done(record, nil)
}

func (l *simLog) append(topic string, record *stream.Record) {
	l.mu.Lock()
	if t := l.topics[topic]; t != nil {
		record.Offset = t.next
		t.next++
		t.queue = append(t.queue, record)
	}
	l.mu.Unlock()
	l.wakeReader()
}

// deepen gives an empty topic that many records, made as they are fetched. Other records of the topic are not stored:
// they would use more memory than is measured.
func (l *simLog) deepen(topic string, records int, make func(int) *stream.Record) {
	l.mu.Lock()
	l.produced = func(string, *stream.Record) time.Duration { return 0 }
	t := l.topics[topic]
	t.deep, t.end = make, int64(records)
	l.mu.Unlock()
	l.wakeReader()
}

func (l *simLog) wakeReader() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *simLog) WaitForRoom(ctx context.Context, _ *stream.Record) error { return ctx.Err() }

func (l *simLog) ProduceInOwnBatch(context.Context, string, int32, *stream.Record) error {
	panic("nothing is refused here")
}

// Poll returns records of the next topic that is not paused.
func (l *simLog) Poll(ctx context.Context, each func(stream.Partition, []*stream.Record)) error {
	if !l.joined {
		l.joined = true
		commits := make(map[stream.Partition]stream.Commit)
		for _, t := range l.order {
			commits[t.id] = stream.Commit{}
		}
		l.assigned(commits)
	}
	for {
		if id, records := l.fetch(); records != nil {
			each(id, records)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.more:
		}
	}
}

func (l *simLog) fetch() (stream.Partition, []*stream.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range l.order {
		l.turn = (l.turn + 1) % len(l.order)
		t := l.order[l.turn]
		for ; !t.paused && t.next < t.end && len(t.queue) < maxPollRecords; t.next++ {
			record := t.deep(int(t.next))
			record.Offset = t.next
			t.queue = append(t.queue, record)
		}
		if t.paused || len(t.queue) == 0 {
			continue
		}
		records := slices.Clone(t.queue[:min(len(t.queue), maxPollRecords)])
		t.queue = slices.Delete(t.queue, 0, len(records))
		return t.id, records
	}
	return stream.Partition{}, nil
}

// Commit stores the commits.
func (l *simLog) Commit(_ context.Context, commits map[stream.Partition]stream.Commit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, m := range commits {
		l.marks[p] = m
	}
	return nil
}

func (l *simLog) Pause(ids ...stream.Partition)  { l.pause(ids, true) }
func (l *simLog) Resume(ids ...stream.Partition) { l.pause(ids, false) }
func (l *simLog) Close()                         {}

func (l *simLog) pause(ids []stream.Partition, paused bool) {
	l.mu.Lock()
	for _, id := range ids {
		l.topics[id.Topic].paused = paused
	}
	l.mu.Unlock()
	l.wakeReader()
}

// open is how many records are appended and not committed.
func (l *simLog) open() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.order {
		n += max(t.next, t.end) - l.marks[t.id].Offset
	}
	return n
}
