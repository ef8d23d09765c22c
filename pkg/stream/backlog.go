package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Backlog is what a group has not finished of one partition.
type Backlog struct {
	Partition
	Records int64   // holes left out
	Head    *Record // the first of them; nil when there is none
}

// headFetchBytes is how many bytes one fetch brings of a partition of which one record is wanted; a larger record
// comes all the same.
const headFetchBytes = 64 << 10

// Backlogs is what a group (named without the prefix) has not finished of the topics, for each partition.
func (r *Reader) Backlogs(ctx context.Context, group string, topics ...string) ([]Backlog, error) {
	marks, err := r.Commits(ctx, group, topics...) // before the ends: what is finished now was there before
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
		mark := marks[p]
		mark.Offset = max(mark.Offset, starts[p])
		b := Backlog{Partition: p, Records: max(0, end-mark.Offset)}
		holes, err := mark.Holes()
		if err != nil {
			holes = nil // another's metadata: nothing beyond the mark counts as finished
		}
		for _, h := range holes {
			b.Records -= max(0, min(h.To, end)-max(h.From, mark.Offset))
		}
		if b.Records > 0 {
			heads = append(heads, Range{p, mark.Offset, mark.Offset + 1})
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

// Members is how many members a group has that share its partitions.
func (r *Reader) MemberCount(ctx context.Context, group string) (int, error) {
	described, err := r.adm.DescribeGroups(ctx, r.cfg.Prefix+group)
	if err == nil {
		err = described.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("describe group %s: %w", group, err)
	}
	return len(described[r.cfg.Prefix+group].Members), nil
}

// Brokers is how many brokers the cluster has at the moment.
func (r *Reader) BrokerCount(ctx context.Context) (int, error) {
	brokers, err := r.adm.ListBrokers(ctx)
	if err != nil {
		return 0, explainLogin(fmt.Errorf("list brokers: %w", err))
	}
	return len(brokers), nil
}
