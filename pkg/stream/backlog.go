package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/pkg/certfile"
	"github.com/eventrelay/relay/pkg/wait"
)

// Backlog is the records of one partition that a group has not completed.
type Backlog struct {
	Partition
	Records int64   // not counting holes, which are completed
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
		holes, err := commit.Holes()
		if err != nil {
			holes = nil // metadata of another program: nothing above the committed offset counts as completed
		}
		for _, h := range holes {
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

// MemberCount returns how many members a group has now; 0 if the group does not exist.
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

// Endpoints returns where the brokers use TLS: those of Config.Brokers, and those that they name if one answers.
// It is empty without TLS.
func (r *Reader) Endpoints(ctx context.Context) []certfile.Endpoint {
	if r.cfg.TLS == "" {
		return nil
	}
	conf, err := r.cfg.tlsConfig()
	if err != nil {
		return nil // NewReader has reported it
	}
	addrs := slices.Clone(r.cfg.Brokers)
	brokers, err := r.adm.ListBrokers(ctx)
	if err == nil {
		for _, b := range brokers {
			addrs = append(addrs, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
		}
	}
	slices.Sort(addrs)
	var all []certfile.Endpoint
	for _, addr := range slices.Compact(addrs) {
		all = append(all, certfile.Endpoint{Addr: addr, TLS: conf})
	}
	return all
}

// BrokerCount returns how many brokers are registered with the cluster now.
func (r *Reader) BrokerCount(ctx context.Context) (int, error) {
	brokers, err := r.adm.ListBrokers(ctx)
	if err != nil {
		return 0, explainSecurity(fmt.Errorf("list brokers: %w", err))
	}
	return len(brokers), nil
}
