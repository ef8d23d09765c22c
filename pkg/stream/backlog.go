package stream

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/pkg/wait"
)

// Backlog is the records of one partition that a group has not completed.
type Backlog struct {
	Partition
	Records int64   // not counting gaps, which are completed
	Head    *Record // the first incomplete record; nil if there is none
}

// headFetchBytes bounds the fetch of a partition when only its first record is wanted. Kafka returns the first record
// even if it is larger.
const headFetchBytes = 64 << 10

// startWait bounds how long a start waits for coordinators. A new cluster has them some seconds after its topics.
const startWait = 30 * time.Second

// Backlogs returns, for each partition of the topics, the records that a group (named without the prefix) has not
// completed.
func (r *Reader) Backlogs(ctx context.Context, group string, topics ...string) ([]Backlog, error) {
	commits, err := r.Commits(ctx, group, topics...) // before the ends, so that no commit lies beyond its end
	if err != nil {
		return nil, err
	}
	starts, err := r.Starts(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ends, err := r.Ends(ctx, topics...)
	if err != nil {
		return nil, err
	}
	var all []Backlog
	var heads []Range
	at := make(map[Partition]int, len(ends))
	for p, end := range ends {
		commit := commits[p]
		commit.Offset = max(commit.Offset, starts[p])
		b := Backlog{Partition: p, Records: max(0, end-commit.Offset)}
		gaps, err := commit.Gaps()
		if err != nil {
			gaps = nil // metadata of another program: nothing above the committed offset counts as completed
		}
		for _, h := range gaps {
			b.Records -= max(0, min(h.To, end)-max(h.From, commit.Offset))
		}
		if b.Records > 0 {
			heads = append(heads, Range{p, commit.Offset, commit.Offset + 1})
		}
		at[p] = len(all)
		all = append(all, b)
	}
	err = r.readRanges(ctx, heads, headFetchBytes, func(p Partition, records []*Record) error {
		all[at[p]].Head = records[0]
		return nil
	})
	return all, err
}

// BacklogsAtStart is Backlogs for a process that starts, perhaps together with its brokers: while they answer that a
// coordinator or leader is not available yet, it tries again, for up to startWait.
func (r *Reader) BacklogsAtStart(ctx context.Context, group string, topics ...string) ([]Backlog, error) {
	pause := wait.Backoff{First: 100 * time.Millisecond, Longest: 2 * time.Second}
	for attempt, began := 0, time.Now(); ; attempt++ {
		all, err := r.Backlogs(ctx, group, topics...)
		if !kerr.IsRetriable(err) || time.Since(began) > startWait {
			return all, err
		}
		if err := wait.For(ctx, pause.After(attempt)); err != nil {
			return nil, err
		}
	}
}
