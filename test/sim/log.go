package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/pkg/stream"
)

// kafka is where the log is: kfake, or a model.
type kafka interface {
	config(over *link, name string, now func() time.Time) stream.Config
	end(stream.Partition) int64
	close()
	// Faults, which last until the function is called that they return.
	refuse(*kerr.Error) (end func())
	dropCoordinators() (end func())
	move(index int32) (end func())
	forgetMember()
}

// brokers is a model of Kafka: topics whose appends are acknowledged by all replicas, so that none is lost, and groups
// (coordinator.go). It has no protocol: nodes call it over their links (client.go).
type brokers struct {
	w *World

	mu      sync.Mutex // guards the fields below
	topics  map[string]*topic
	groups  map[string]*coordinator
	refusal *kerr.Error // of appends; nil: none
	noGroup bool        // no group has a coordinator
}

type topic struct {
	appendTime bool
	partitions []*partition
}

type partition struct {
	start   int64 // first offset that can be read
	records []*stream.Record
	epoch   int32
	moving  bool // it has no leader
	waiting []chan<- struct{}
}

func (p *partition) end() int64 { return p.start + int64(len(p.records)) }

func newBrokers(w *World) *brokers {
	b := &brokers{w: w, topics: make(map[string]*topic), groups: make(map[string]*coordinator)}
	for _, t := range stream.Topics() {
		n := int32(1)
		if t.Keyed {
			n = w.partitions
		}
		made := &topic{appendTime: t.TimestampType == "LogAppendTime"}
		for range n {
			made.partitions = append(made.partitions, &partition{})
		}
		b.topics[t.Name] = made
	}
	return b
}

// partition returns a partition; a caller holds mu.
func (b *brokers) partition(p stream.Partition) (*topic, *partition) {
	t := b.topics[p.Topic]
	if t == nil || int(p.Index) >= len(t.partitions) {
		panic(fmt.Sprintf("no partition %v", p))
	}
	return t, t.partitions[p.Index]
}

// append appends records and sets their offsets. A refused append may have been made: then it has offsets, too.
func (b *brokers) append(at stream.Partition, records []*stream.Record) error {
	maybe := b.w.intn(2) == 0
	b.mu.Lock()
	defer b.mu.Unlock()
	t, p := b.partition(at)
	refusal := b.refusal
	if p.moving {
		refusal = kerr.NotLeaderForPartition
	}
	if refusal != nil && (refusal != kerr.RequestTimedOut && refusal != kerr.UnknownServerError || !maybe) {
		return refusal
	}
	if records[0].Offset >= 0 { // an append that was not answered is repeated: the producer has a sequence
		return nil
	}
	for _, r := range records {
		r.Offset, r.LeaderEpoch = p.end(), p.epoch
		kept := *r
		if t.appendTime {
			kept.Timestamp = time.Now()
		}
		kept.Timestamp = kept.Timestamp.Truncate(time.Millisecond)
		p.records = append(p.records, &kept)
		b.w.ledger.append(at, &kept)
	}
	for _, w := range p.waiting {
		select {
		case w <- struct{}{}:
		default:
		}
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

// position is where a reader reads a partition.
type position struct {
	stream.Partition
	next int64
}

// fetched is what a fetch found of a partition.
type fetched struct {
	stream.Partition
	records []*stream.Record
	end     int64
}

// fetch waits until one of the partitions has records, or ctx ends, and returns at most that many.
func (b *brokers) fetch(ctx context.Context, from []position, most int) (all []fetched) {
	wake := make(chan struct{}, 1)
	b.subscribe(from, wake)
	defer b.unsubscribe(from, wake)
	for ctx.Err() == nil {
		if all = b.read(from, most); len(all) > 0 {
			return all
		}
		select {
		case <-wake:
		case <-ctx.Done():
		}
	}
	return nil
}

func (b *brokers) subscribe(to []position, wake chan<- struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range to {
		_, p := b.partition(at.Partition)
		p.waiting = append(p.waiting, wake)
	}
}

func (b *brokers) unsubscribe(from []position, wake chan<- struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range from {
		_, p := b.partition(at.Partition)
		p.waiting = slices.DeleteFunc(p.waiting, func(w chan<- struct{}) bool { return w == wake })
	}
}

// read returns what the partitions have now.
func (b *brokers) read(from []position, most int) (all []fetched) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range from {
		_, p := b.partition(at.Partition)
		next := max(at.next, p.start) // a reader of trimmed records goes on at the start
		n := min(int(p.end()-next), most)
		if n <= 0 || p.moving {
			continue
		}
		most -= n
		f := fetched{Partition: at.Partition, end: p.end()}
		for _, r := range p.records[next-p.start : next-p.start+int64(n)] {
			given := *r
			f.records = append(f.records, &given)
		}
		all = append(all, f)
	}
	return all
}

// bounds returns the start and the end of a partition, and the first offset at or after t.
func (b *brokers) bounds(at stream.Partition, t time.Time) (start, end, since int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, p := b.partition(at)
	i := sort.Search(len(p.records), func(i int) bool { return !p.records[i].Timestamp.Before(t) })
	return p.start, p.end(), p.start + int64(i)
}

func (b *brokers) end(at stream.Partition) int64 {
	_, end, _ := b.bounds(at, time.Time{})
	return end
}

// of returns the partitions of topics.
func (b *brokers) of(topics []string) (all []stream.Partition) {
	for _, name := range topics {
		for i := range b.topics[name].partitions {
			all = append(all, stream.Partition{Topic: name, Index: int32(i)})
		}
	}
	return all
}

// trim deletes records below offsets.
func (b *brokers) trim(before map[stream.Partition]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, offset := range before {
		_, p := b.partition(at)
		if n := min(offset, p.end()) - p.start; n > 0 {
			p.records, p.start = p.records[n:], p.start+n
		}
	}
}

// move gives the partitions of an index other leaders, which they lack until end is called.
func (b *brokers) move(index int32) (end func()) {
	set := func(moving bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, t := range b.topics {
			for i, p := range t.partitions {
				if int32(i) == index {
					p.moving = moving
					if moving {
						p.epoch++
					}
					for _, w := range p.waiting {
						select {
						case w <- struct{}{}:
						default:
						}
					}
				}
			}
		}
	}
	set(true)
	return func() { set(false) }
}

// refuse lets appends fail until end is called.
func (b *brokers) refuse(why *kerr.Error) (end func()) {
	set := func(why *kerr.Error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.refusal = why
	}
	set(why)
	return func() { set(nil) }
}

// dropCoordinators lets heartbeats, joins and commits fail until end is called.
func (b *brokers) dropCoordinators() (end func()) {
	set := func(gone bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.noGroup = gone
	}
	set(true)
	return func() { set(false) }
}

// forgetMember makes a member of the dispatchers unknown.
func (b *brokers) forgetMember() {
	if c, err := b.coordinator(stream.DispatchGroup); err == nil {
		c.forget(b.w.intn(10))
	}
}

func (b *brokers) config(over *link, name string, now func() time.Time) stream.Config {
	return stream.Config{Model: &logClient{b, over, now, name}, Prefix: "relay.", Log: b.w.log,
		ProducerBufferBytes: 256 << 20}
}

func (b *brokers) close() {}

// coordinator returns that of a group, named without the prefix.
func (b *brokers) coordinator(group string) (*coordinator, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noGroup {
		return nil, kerr.CoordinatorNotAvailable
	}
	c := b.groups[group]
	if c == nil {
		c = &coordinator{b: b, group: group, offsets: make(map[stream.Partition]stream.Commit)}
		b.groups[group] = c
	}
	return c, nil
}

var errNoAnswer = errors.New("the answer is lost")
