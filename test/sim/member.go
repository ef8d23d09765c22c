package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// member is a stream.Member. As that of Kafka it fetches ahead of Poll, and gives partitions back only between two
// calls of each.
type member struct {
	*logClient
	cfg     stream.GroupConfig
	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup
	once    sync.Once
	ready   chan struct{} // capacity 1: Poll may find something
	refetch chan struct{} // capacity 1: what is to be fetched has changed

	handing sync.Mutex // held while records are handed over, and while partitions are given back

	mu         sync.Mutex // guards the fields below
	id         string
	generation int
	owned      []*share
	fetched    []fetched
	session    int // of the assignment
	fatal      error
	closed     bool
}

// share is a partition that a member reads.
type share struct {
	position    // next is the offset to be fetched
	handed, end int64
	paused      bool
}

// NewMember implements stream.Engine.
func (c *logClient) NewMember(_ stream.Config, g stream.GroupConfig) stream.Member {
	m := &member{logClient: c, cfg: g, ready: make(chan struct{}, 1), refetch: make(chan struct{}, 1)}
	m.ctx, m.end = context.WithCancel(context.Background())
	return m
}

// Poll implements stream.Member.
func (m *member) Poll(ctx context.Context, each func(stream.Partition, []*stream.Record)) error {
	m.once.Do(func() {
		m.running.Go(m.manage)
		m.running.Go(m.fetch)
	})
	for {
		m.over.pass()
		if err := ctx.Err(); err != nil {
			return err
		}
		m.handing.Lock()
		found, err := m.take()
		for _, f := range found {
			each(f.Partition, f.records)
		}
		m.handing.Unlock()
		if err != nil || len(found) > 0 {
			return err
		}
		select {
		case <-m.ready:
		case <-ctx.Done():
		}
	}
}

// take returns what was fetched, but of paused partitions: that is fetched again when they go on.
func (m *member) take() (found []fetched, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errors.New("consumer is closed")
	}
	for _, f := range m.fetched {
		s := m.share(f.Partition)
		if s.paused {
			s.next = f.records[0].Offset
			continue
		}
		s.handed, s.end = f.records[len(f.records)-1].Offset+1, f.end
		found = append(found, f)
	}
	m.fetched = nil
	wait.Wake(m.refetch)
	return found, m.fatal
}

func (m *member) share(p stream.Partition) *share {
	if i := slices.IndexFunc(m.owned, func(s *share) bool { return s.Partition == p }); i >= 0 {
		return m.owned[i]
	}
	return nil
}

// fetch fetches when all was handed over.
func (m *member) fetch() {
	for m.ctx.Err() == nil {
		m.mu.Lock()
		session := m.session
		var from []position
		if len(m.fetched) == 0 {
			for _, s := range m.owned {
				if !s.paused {
					from = append(from, s.position)
				}
			}
		}
		m.mu.Unlock()
		if len(from) == 0 {
			select {
			case <-m.refetch:
			case <-m.ctx.Done():
			}
			continue
		}
		fetching, cancel := context.WithCancel(m.ctx)
		var watching sync.WaitGroup
		watching.Go(func() { // what is to be fetched may change meanwhile
			select {
			case <-m.refetch:
				cancel()
			case <-fetching.Done():
			}
		})
		var found []fetched
		err := m.over.call(fetching, func(ctx context.Context) { found = m.b.fetch(ctx, from, m.cfg.MaxPoll) })
		cancel()
		watching.Wait()
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				_ = wait.For(m.ctx, pause.First)
			}
			continue
		}
		m.mu.Lock()
		if session == m.session {
			for _, f := range found {
				m.share(f.Partition).next = f.records[len(f.records)-1].Offset + 1
			}
			m.fetched = found
		}
		m.mu.Unlock()
		wait.Wake(m.ready)
	}
}

// manage joins the group, again and again, until the member is closed or fenced.
func (m *member) manage() {
	for try := 0; m.ctx.Err() == nil; try++ {
		answer, err := m.join()
		switch {
		case errors.Is(err, kerr.FencedInstanceID):
			m.fail(err)
			return
		case err != nil:
			_ = wait.For(m.ctx, pause.After(try))
			continue
		}
		try = 0
		session, stop := context.WithCancel(m.ctx)
		var assigning sync.WaitGroup
		assigning.Go(func() { m.assign(session, answer) })
		err = m.heartbeats(answer.generation, m.ctx.Done())
		stop()
		assigning.Wait()
		if m.ctx.Err() != nil {
			return // Close gives the partitions back
		}
		m.release(answer.generation, errors.Is(err, kerr.RebalanceInProgress))
		if errors.Is(err, kerr.FencedInstanceID) {
			m.fail(err)
			return
		}
	}
}

func (m *member) fail(err error) {
	m.mu.Lock()
	m.fatal = fmt.Errorf("join group %s as %s: another process uses this node's name: %w", m.cfg.Name,
		m.cfg.InstanceID, err)
	m.mu.Unlock()
	wait.Wake(m.ready)
}

func (m *member) join() (answer joined, err error) {
	m.mu.Lock()
	if m.id == "" {
		m.id = fmt.Sprintf("%s-%d", m.name, m.b.w.intn(1<<30))
	}
	id := m.id
	m.mu.Unlock()
	err = m.ask(m.ctx, func(ctx context.Context) error {
		c, err := m.b.coordinator(m.cfg.Name)
		if err == nil {
			answer, err = c.join(ctx, id, m.cfg.InstanceID, m.cfg.Topics)
		}
		return err
	})
	if errors.Is(err, kerr.UnknownMemberID) {
		m.mu.Lock()
		m.id = ""
		m.mu.Unlock()
	}
	return answer, err
}

// assign fetches the committed offsets, hands them over, and begins to fetch.
func (m *member) assign(ctx context.Context, answer joined) {
	commits := make(map[stream.Partition]stream.Commit)
	err := errNoAnswer
	for try := 0; err != nil && ctx.Err() == nil; try++ {
		if try > 0 {
			_ = wait.For(ctx, pause.After(try))
		}
		err = m.ask(ctx, func(context.Context) error {
			c, err := m.b.coordinator(m.cfg.Name)
			if err == nil {
				commits = c.committed(answer.owned)
			}
			return err
		})
	}
	if err != nil {
		return
	}
	for _, p := range answer.owned {
		if _, ok := commits[p]; !ok {
			commits[p] = stream.Commit{Offset: -1, LeaderEpoch: -1}
		}
	}
	m.mu.Lock()
	m.generation = answer.generation
	m.mu.Unlock()
	if m.cfg.Assigned != nil {
		m.cfg.Assigned(commits)
	}
	m.mu.Lock()
	m.session++
	m.owned = nil
	for _, p := range answer.owned {
		next := max(commits[p].Offset, 0)
		m.owned = append(m.owned, &share{position: position{p, next}, handed: next, end: next})
	}
	m.mu.Unlock()
	wait.Wake(m.refetch)
}

// heartbeats keeps the membership until it ends, and returns why.
func (m *member) heartbeats(generation int, done <-chan struct{}) error {
	heard := time.Now()
	for {
		select {
		case <-time.After(heartbeatEvery):
		case <-done:
			return nil
		}
		err := m.heartbeat(generation, heard)
		switch {
		case err == nil:
			heard = time.Now()
		case errors.Is(err, kerr.RebalanceInProgress), errors.Is(err, kerr.UnknownMemberID),
			errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.FencedInstanceID),
			time.Since(heard) > sessionTimeout:
			return err
		}
	}
}

func (m *member) heartbeat(generation int, heard time.Time) error {
	ctx, cancel := context.WithDeadline(m.ctx, heard.Add(sessionTimeout+time.Second))
	defer cancel()
	m.mu.Lock()
	id := m.id
	m.mu.Unlock()
	var refusal error
	err := m.over.call(ctx, func(context.Context) {
		c, err := m.b.coordinator(m.cfg.Name)
		if err == nil {
			err = c.heartbeat(id, m.cfg.InstanceID, generation)
		}
		refusal = err
	})
	if err != nil {
		return err
	}
	return refusal
}

// release gives all partitions back: in time, with heartbeats meanwhile, or because they are lost.
func (m *member) release(generation int, inTime bool) {
	m.handing.Lock()
	defer m.handing.Unlock()
	all := m.disown()
	if !inTime {
		m.mu.Lock()
		m.id = ""
		m.mu.Unlock()
		if len(all) > 0 && m.cfg.Lost != nil {
			m.cfg.Lost(all)
		}
		return
	}
	if len(all) == 0 || m.cfg.Revoked == nil {
		return
	}
	done := make(chan struct{})
	m.running.Go(func() {
		for errors.Is(m.heartbeats(generation, done), kerr.RebalanceInProgress) {
		}
	})
	m.cfg.Revoked(m.ctx, all)
	close(done)
}

// disown forgets the assignment and returns its partitions.
func (m *member) disown() (all []stream.Partition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.owned {
		all = append(all, s.Partition)
	}
	m.owned, m.fetched = nil, nil
	m.session++
	wait.Wake(m.refetch)
	return all
}

// Lag implements stream.Member.
func (m *member) Lag(p stream.Partition) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.share(p); s != nil {
		return max(s.end-s.handed, 0)
	}
	return 0
}

// maxMetadata is offset.metadata.max.bytes.
const maxMetadata = 4096

// Commit implements stream.Member.
func (m *member) Commit(ctx context.Context, commits map[stream.Partition]stream.Commit) error {
	if len(commits) == 0 {
		return nil
	}
	m.mu.Lock()
	id, generation := m.id, m.generation
	m.mu.Unlock()
	commits = maps.Clone(commits)
	var tooLarge []stream.Partition
	for p, commit := range commits {
		if len(commit.Metadata) > maxMetadata {
			tooLarge = append(tooLarge, p)
			commit.Metadata = ""
			commits[p] = commit
		}
	}
	if len(tooLarge) > 0 && m.cfg.MetadataDropped != nil {
		defer m.cfg.MetadataDropped(tooLarge)
	}
	return m.ask(ctx, func(context.Context) error {
		c, err := m.b.coordinator(m.cfg.Name)
		if err != nil {
			return err
		}
		return c.commit(id, m.cfg.InstanceID, generation, commits)
	})
}

// Pause implements stream.Member.
func (m *member) Pause(ps ...stream.Partition) { m.setPaused(ps, true) }

// Resume implements stream.Member.
func (m *member) Resume(ps ...stream.Partition) { m.setPaused(ps, false) }

func (m *member) setPaused(ps []stream.Partition, paused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range ps {
		if s := m.share(p); s != nil {
			s.paused = paused
		}
	}
	wait.Wake(m.refetch)
}

// Close implements stream.Member.
func (m *member) Close() {
	m.mu.Lock()
	again := m.closed
	m.closed = true
	m.mu.Unlock()
	if again {
		return
	}
	m.end()
	wait.Wake(m.ready)
	m.running.Wait()
	m.handing.Lock()
	defer m.handing.Unlock()
	if all := m.disown(); len(all) > 0 && m.cfg.Revoked != nil {
		m.cfg.Revoked(context.Background(), all)
	}
	m.mu.Lock()
	id := m.id
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	_ = m.over.call(ctx, func(context.Context) {
		if c, err := m.b.coordinator(m.cfg.Name); err == nil {
			c.close(id)
		}
	})
}
