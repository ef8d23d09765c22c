package stream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A group that polls for a while gets what came, or nothing without an error, and keeps offsets that it could not
// commit.
func TestPollForAndCommitAll(t *testing.T) { onEachLog(t, 1, testPollForAndCommitAll) }

func testPollForAndCommitAll(t *testing.T, c Config, p *Producer) {
	at := Partition{Topic: Events}
	for range 3 {
		must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("x")}))
	}
	m := join(t, c, GroupConfig{})
	var commits map[Partition]Commit
	for deadline := time.Now().Add(time.Minute); commits[at].Offset < 3; {
		batches, err := m.PollFor(t.Context(), 100*time.Millisecond)
		if err != nil || time.Now().After(deadline) {
			t.Fatal("3 records should come: ", err)
		}
		for _, b := range batches {
			commits = map[Partition]Commit{b.Partition: b.Done()}
		}
	}
	if batches, err := m.PollFor(t.Context(), time.Millisecond); err != nil || len(batches) > 0 {
		t.Errorf("at the end of the log: %v, %v", batches, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.PollFor(ended, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if err := m.CommitAll(ended, commits); err == nil || len(commits) != 1 {
		t.Errorf("a commit that fails: %v, and %d offsets are kept", err, len(commits))
	}
	if err := m.CommitAll(t.Context(), commits); err != nil || len(commits) != 0 {
		t.Errorf("a commit: %v, and %d offsets are kept", err, len(commits))
	}
	m.Close()
	next := join(t, c, GroupConfig{Assigned: func(start map[Partition]Commit) {
		is.Equal(t, start[at].Offset, 3, "the next member starts at")
	}})
	if batches, err := next.PollFor(t.Context(), 500*time.Millisecond); err != nil || len(batches) > 0 {
		t.Errorf("the next member reads %v, %v", batches, err)
	}
}

func TestIsForOneGroup(t *testing.T) {
	r := &Record{Headers: []Header{{Key: "relay-v", Value: []byte("1")}}}
	if IsForOneGroup(r) {
		t.Error("a record of all groups")
	}
	if r.Headers = append(r.Headers, Header{Key: HeaderOnlyGroup, Value: []byte(StoreGroup)}); !IsForOneGroup(r) {
		t.Error("a record that a retry has put back for the store")
	}
}
