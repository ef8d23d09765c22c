package sim

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/pkg/stream"
)

// Times of a group, as stream.Group sets them.
const (
	sessionTimeout   = 30 * time.Second
	rebalanceTimeout = 30 * time.Second
	firstRebalance   = 3 * time.Second // group.initial.rebalance.delay.ms
	heartbeatEvery   = 2 * time.Second
)

// coordinator is that of one group: who its members are, who has which partition, and the committed offsets. It is the
// classic protocol with an eager rebalance: all members give everything back and join again.
type coordinator struct {
	b     *brokers
	group string

	mu         sync.Mutex // guards the fields below
	seats      []*seat
	generation int
	round      chan struct{} // closed when the rebalance ends; nil: there is none
	offsets    map[stream.Partition]stream.Commit
}

// seat is a member as the coordinator knows it.
type seat struct {
	id, instance string
	topics       []string
	joined       bool // in this round
	expiry       *time.Timer
	owned        []stream.Partition
}

func (s *seat) name() string { return cmp.Or(s.instance, s.id) }

// joined is the answer to a join.
type joined struct {
	generation int
	owned      []stream.Partition
}

// join makes a member, or takes part in the rebalance that runs. It waits until that ends.
func (c *coordinator) join(ctx context.Context, id, instance string, topics []string) (joined, error) {
	c.mu.Lock()
	s := c.find(func(s *seat) bool { return s.id == id || instance != "" && s.instance == instance })
	switch {
	case s == nil:
		s = &seat{id: id, instance: instance, topics: topics}
		c.seats = append(c.seats, s)
		slices.SortFunc(c.seats, func(a, b *seat) int { return cmp.Compare(a.name(), b.name()) })
		s.expiry = time.AfterFunc(sessionTimeout, func() { c.expire(s) })
		c.rebalance()
	default:
		s.id = id // a static member that comes back takes its place; who had it is fenced
		s.expiry.Reset(sessionTimeout)
	}
	if round := c.round; round != nil {
		s.joined = true
		c.endRound(false)
		c.mu.Unlock()
		select {
		case <-round:
		case <-ctx.Done():
			return joined{}, ctx.Err()
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	if c.find(func(other *seat) bool { return other == s && s.id == id }) == nil {
		return joined{}, kerr.UnknownMemberID
	}
	return joined{c.generation, slices.Clone(s.owned)}, nil
}

func (c *coordinator) find(is func(*seat) bool) *seat {
	if i := slices.IndexFunc(c.seats, is); i >= 0 {
		return c.seats[i]
	}
	return nil
}

// rebalance begins a round unless one runs.
func (c *coordinator) rebalance() {
	if c.round != nil {
		return
	}
	c.round = make(chan struct{})
	for _, s := range c.seats {
		s.joined = false
	}
	lasts := rebalanceTimeout
	if c.generation == 0 {
		lasts = firstRebalance
	}
	round := c.round
	time.AfterFunc(lasts, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.round == round {
			c.endRound(true)
		}
	})
}

// endRound ends the round if all have joined, or by force: who has not joined is no member any more, unless it is
// static and its session lasts.
func (c *coordinator) endRound(force bool) {
	waits := func(s *seat) bool { return !s.joined }
	if !force && (c.generation == 0 || slices.ContainsFunc(c.seats, waits)) {
		return
	}
	for _, s := range slices.Clone(c.seats) {
		if waits(s) && s.instance == "" {
			c.remove(s)
		}
	}
	c.generation++
	for _, s := range c.seats {
		s.owned = nil
		s.expiry.Reset(sessionTimeout)
	}
	if len(c.seats) > 0 {
		for _, p := range c.b.of(c.seats[0].topics) {
			n := len(c.b.topics[p.Topic].partitions)
			s := c.seats[int(p.Index)*len(c.seats)/n]
			s.owned = append(s.owned, p)
		}
	}
	close(c.round)
	c.round = nil
}

func (c *coordinator) remove(s *seat) {
	s.expiry.Stop()
	c.seats = slices.DeleteFunc(c.seats, func(other *seat) bool { return other == s })
}

// expire removes a member that has not been heard of.
func (c *coordinator) expire(s *seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find(func(other *seat) bool { return other == s }) == nil {
		return
	}
	if c.round != nil && s.joined { // it waits for the answer
		s.expiry.Reset(sessionTimeout)
		return
	}
	c.leave(s)
}

func (c *coordinator) leave(s *seat) {
	c.remove(s)
	if c.round != nil {
		c.endRound(false)
	} else {
		c.rebalance()
	}
}

// member checks that a request comes from a member of this generation.
func (c *coordinator) member(id, instance string, generation int) (*seat, error) {
	s := c.find(func(s *seat) bool { return s.id == id })
	if s == nil {
		if instance != "" && c.find(func(s *seat) bool { return s.instance == instance }) != nil {
			return nil, kerr.FencedInstanceID
		}
		return nil, kerr.UnknownMemberID
	}
	if generation != c.generation {
		return nil, kerr.IllegalGeneration
	}
	s.expiry.Reset(sessionTimeout)
	return s, nil
}

func (c *coordinator) heartbeat(id, instance string, generation int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.member(id, instance, generation); err != nil {
		return err
	}
	if c.round != nil {
		return kerr.RebalanceInProgress
	}
	return nil
}

// commit commits for any member, also while a rebalance runs, and also partitions of another one.
func (c *coordinator) commit(id, instance string, generation int, commits map[stream.Partition]stream.Commit) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.member(id, instance, generation); err != nil {
		return err
	}
	for p, commit := range commits {
		c.offsets[p] = commit
		if c.group == stream.DispatchGroup {
			c.b.w.ledger.commit(p, commit)
		}
	}
	return nil
}

func (c *coordinator) committed(ps []stream.Partition) map[stream.Partition]stream.Commit {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[stream.Partition]stream.Commit)
	for _, p := range ps {
		if commit, ok := c.offsets[p]; ok {
			out[p] = commit
		}
	}
	return out
}

// close lets a member leave. A static one stays until its session ends.
func (c *coordinator) close(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.find(func(s *seat) bool { return s.id == id }); s != nil && s.instance == "" {
		c.leave(s)
	}
}

// forget makes a member unknown, as a coordinator does that lost it.
func (c *coordinator) forget(which int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.seats) > 0 {
		c.leave(c.seats[which%len(c.seats)])
	}
}

func (c *coordinator) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seats)
}
