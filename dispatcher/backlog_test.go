package dispatcher

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// The age of the backlog is that of the last record read from the partition that is furthest behind. Partitions without
// unread records and retry topics do not count, nor do partitions from which nothing was read yet.
func TestBacklogAge(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	unread := map[stream.Partition]int64{}
	d := &Dispatcher{
		now: func() time.Time { return now }, assignment: newAssignment(),
		lag: func(p stream.Partition) int64 { return unread[p] },
	}
	add := func(topic string, index int32, delay, age time.Duration, records int64) *partition {
		id := stream.Partition{Topic: topic, Index: index}
		p := &partition{id: id, delay: delay}
		if age > 0 {
			p.setLastRead(now.Add(-age))
		}
		d.assignment.partitions[id], unread[id] = p, records
		return p
	}
	add(stream.Events, 0, 0, time.Hour, 0)
	add(stream.Events, 1, 0, 0, 10)
	add(stream.Tiers()[0].Topic, 0, time.Second, time.Hour, 10)
	is.Equal(t, d.backlogAge(), 0, "age … without a backlog")
	add(stream.Events, 2, 0, 3*time.Second, 1)
	late := add(stream.Commands, 0, 0, 7*time.Second, 5)
	if age := d.backlogAge(); age != 7*time.Second {
		t.Errorf("age %v, want 7 s", age)
	}
	late.setLastRead(now)
	if age := d.backlogAge(); age != 3*time.Second {
		t.Errorf("age %v after the commands were read, want 3 s", age)
	}
}
