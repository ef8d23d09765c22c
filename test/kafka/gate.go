package kafka

import (
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A gate decides which sync rounds each request and each answer waits for.
type gate struct {
	disk      *disk
	isDurable func(topic string) bool
	enabled   bool // false: nothing waits

	durable    *barrier // syncs durable topics, before they are acknowledged
	lazy       *barrier // syncs other topics and the broker's state, around offset commits
	unanswered *produceTracker

	breakOnce sync.Once
	broken    chan struct{} // closed after the first error of a barrier
	err       error         // set before broken is closed

	mu    sync.Mutex              // guards dirty
	dirty map[*partition]struct{} // of other topics, acknowledged since the last offset commit
}

func newGate(d *disk, isDurable func(string) bool, on bool) *gate {
	g := &gate{disk: d, isDurable: isDurable, enabled: on, unanswered: newProduceTracker(),
		broken: make(chan struct{}), dirty: make(map[*partition]struct{})}
	g.durable = newBarrier(g.fail)
	g.lazy = newBarrier(g.fail)
	return g
}

func (g *gate) barriers() []*barrier { return []*barrier{g.durable, g.lazy} }

func (g *gate) fail(err error) {
	g.breakOnce.Do(func() {
		g.err = err
		close(g.broken)
	})
}

func (g *gate) failure() error {
	select {
	case <-g.broken:
		return g.err
	default:
		return nil
	}
}

// isCommit reports whether a request commits offsets.
func isCommit(key int16) bool {
	return key == int16(kmsg.OffsetCommit) || key == int16(kmsg.TxnOffsetCommit)
}

// roundsBeforeRequest returns the rounds that must be done before the broker gets a request. An offset commit waits for
// all records that were acknowledged before it, and for unacknowledged ones of durable topics: a consumer may have read
// them.
func (g *gate) roundsBeforeRequest(key int16) []*round {
	if !g.enabled || !isCommit(key) {
		return nil
	}
	g.mu.Lock()
	targets := make([]target, 0, len(g.dirty))
	for p := range g.dirty {
		targets = append(targets, p)
	}
	clear(g.dirty)
	lazy := g.lazy.join(targets...)
	g.mu.Unlock()
	return []*round{lazy, g.durable.join()}
}

// roundBeforeAnswer returns the round that must be done before the client gets an answer, or nil. The broker has
// handled the request by now: its result is in the page cache.
func (g *gate) roundBeforeAnswer(req requestHeader, answer []byte) (*round, error) {
	if !g.enabled {
		return nil, nil
	}
	switch kmsg.Key(req.key) {
	case kmsg.Produce:
		return g.roundBeforeProduceAnswer(req, answer)
	case kmsg.OffsetCommit, kmsg.TxnOffsetCommit:
		return g.lazy.join(g.disk.groups), nil
	case kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.CreatePartitions, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs:
		return g.lazy.join(g.disk.state), nil
	default:
		return nil, nil
	}
}

func (g *gate) roundBeforeProduceAnswer(req requestHeader, answer []byte) (*round, error) {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = req.version
	body := answer[8:] // length and correlation id
	if resp.IsFlexible() {
		body = body[min(1, len(body)):] // the header's tags, always empty
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("parse produce answer: %w", err)
	}
	var targets []target
	for i := range resp.Topics {
		t := &resp.Topics[i]
		durable := g.isDurable(t.Topic)
		for j := range t.Partitions {
			if t.Partitions[j].ErrorCode != 0 {
				continue
			}
			p := g.disk.partition(t.Topic, t.Partitions[j].Partition)
			if durable {
				targets = append(targets, p)
				continue
			}
			g.mu.Lock()
			g.dirty[p] = struct{}{}
			g.mu.Unlock()
		}
	}
	if len(targets) == 0 {
		return nil, nil
	}
	return g.durable.join(targets...), nil
}
