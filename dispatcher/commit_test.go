package dispatcher

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A commit follows commitAfterRecords finished records, so that a crash repeats few of them, and a pause follows each
// commit. Fewer records wait for CommitEvery.
func TestCommitFollowsFewRecords(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		commits := countCommits(w)
		url, _ := w.serve(80, &sink{})
		w.endpoint(url)
		cfg := testConfig()
		cfg.CommitEvery = time.Minute
		w.start(cfg)
		finished := 0
		f := func(records int, wait time.Duration, wantCommitted int64, mostCommits int64) {
			t.Helper()
			for range records {
				w.accept(w.newEvent("x"))
				time.Sleep(time.Millisecond)
			}
			finished += records
			w.outcomes(count(finished))
			time.Sleep(wait)
			made := commits.Load()
			if n := w.committed(stream.Partition{Topic: stream.Events}); n != wantCommitted || made > mostCommits {
				t.Errorf("%d of %d finished records are committed, want %d; %d commits, at most %d", n, finished,
					wantCommitted, made, mostCommits)
			}
		}
		f(commitAfterRecords-1, 20*time.Second, -1, 0)
		f(1, commitPause, commitAfterRecords, 1)
		f(20*commitAfterRecords, commitPause, 21*commitAfterRecords, 7)
		f(1, 20*time.Second, 21*commitAfterRecords, 7)
		f(0, time.Minute, 21*commitAfterRecords+1, 8)
	})
}

// However many records finish, and whether they or CommitEvery ask for it: four commits a second at most.
func TestCommitsAreFew(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		commits := countCommits(w)
		url, _ := w.serve(80, &sink{})
		w.endpoint(url)
		cfg := testConfig()
		cfg.CommitEvery = DefaultConfig().CommitEvery
		w.start(cfg)
		const seconds = 4
		for range seconds * 500 {
			w.accept(w.newEvent("x"))
			time.Sleep(2 * time.Millisecond)
		}
		w.outcomes(count(seconds * 500))
		if n := commits.Load(); n < 2*seconds || n > 4*seconds+1 {
			t.Errorf("%d commits in %d seconds, want two to four a second", n, seconds)
		}
	})
}

// A commit that waited for another one commits no partition that has left the node meanwhile: its next owner may have
// committed more.
func TestWaitingCommitLeavesOutLostPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := must.Get(newMetrics(prometheus.NewRegistry(), time.Now))(t)
		a := newAssignment()
		c := newCommitter(time.Second, testLog(), m, a)
		member := newSimLog()
		kept, _ := testPartition(t, stream.Events, 0)
		lost, _ := testPartition(t, stream.Commands, 0)
		kept.group, lost.group = member, member
		a.add([]*partition{kept, lost})
		for _, p := range a.all() {
			p.beginRecord(0, 1).deliveryDone()
		}
		c.lock <- struct{}{} // a commit is running
		go c.commit(t.Context(), a.all())
		synctest.Wait()
		a.remove([]*partition{lost})
		<-c.lock
		synctest.Wait()
		if _, wrong := member.marks[lost.id]; wrong || member.marks[kept.id].Offset != 1 {
			t.Errorf("committed: %+v", member.marks)
		}
	})
}

// countCommits counts the requests of the world's broker to commit offsets from now on.
func countCommits(w *bubbleWorld) *atomic.Int64 {
	commits := new(atomic.Int64)
	w.cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		commits.Add(1)
		return nil, nil, false
	})
	return commits
}

// lags is a group with unread records.
type lags struct {
	consumer
	unread map[stream.Partition]int64
}

func (l lags) Lag(p stream.Partition) int64 { return l.unread[p] }

// The age of the backlog is that of the last record read from the partition that is furthest behind. Partitions without
// unread records and retry topics do not count, nor do partitions from which nothing was read yet.
func TestBacklogAge(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	group := lags{unread: map[stream.Partition]int64{}}
	s := &stats{now: func() time.Time { return now }, assignment: newAssignment()}
	add := func(topic string, index int32, delay, age time.Duration, records int64) *partition {
		id := stream.Partition{Topic: topic, Index: index}
		p := &partition{host: &host{group: group}, id: id, delay: delay}
		if age > 0 {
			p.setLastRead(now.Add(-age))
		}
		s.assignment.partitions[id], group.unread[id] = p, records
		return p
	}
	add(stream.Events, 0, 0, time.Hour, 0)
	add(stream.Events, 1, 0, 0, 10)
	add(stream.Tiers()[0].Topic, 0, time.Second, time.Hour, 10)
	is.Equal(t, s.backlogAge(), 0, "age … without a backlog")
	add(stream.Events, 2, 0, 3*time.Second, 1)
	late := add(stream.Commands, 0, 0, 7*time.Second, 5)
	if age := s.backlogAge(); age != 7*time.Second {
		t.Errorf("age %v, want 7 s", age)
	}
	late.setLastRead(now)
	if age := s.backlogAge(); age != 3*time.Second {
		t.Errorf("age %v after the commands were read, want 3 s", age)
	}
}
