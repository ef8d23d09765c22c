// Package count makes issues of the failures of destinations.
//
// Failures of a destination with the same cause are an issue, an entity of the configuration. The owner of the
// partition counts them in memory and adds the count to the issue once a minute. The issue stores up to which offset
// outcomes are counted, so those that the next owner reads again are not counted twice.
package count

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

const (
	// issueFailures is how many requests must fail before there is an issue; a delivery that fails for good makes one
	// at once.
	issueFailures = 5
	// issueEvery is the time between two changes of an issue: each is a record of the configuration.
	issueEvery = time.Minute
	// issueQuiet is how long nothing must have failed before the next success resolves an issue, and how long failures
	// that made no issue are remembered.
	issueQuiet = time.Hour
	// worksAfter is how long nothing must have failed before the next success counts as the end of the failures. It is
	// looked for every worksEvery.
	worksAfter, worksEvery = 15 * time.Second, 5 * time.Second
	// maxFailing bounds the causes of a partition that are counted at the same time.
	maxFailing = 2000
	// maxCauses bounds the causes of a destination: the receiver chooses its statuses. Further ones are otherCause.
	maxCauses  = 20
	otherCause = "other"
)

// issuePrefix is that of ids of issues.
const issuePrefix = "iss_"

// Issues reads and changes issues.
type Issues interface {
	Issue(id string) *alerting.Issue
	Issues(keep func(*alerting.Issue) bool) []*alerting.Issue
	// ChangeIssue creates an issue, or changes it by a conditional record.
	ChangeIssue(ctx context.Context, id string, alter func(*alerting.Issue) error) error
	Endpoint(id string) (*config.Endpoint, entity.Presence)
}

// Counter counts the failures of one partition.
type Counter struct {
	issues    Issues
	log       *slog.Logger
	now       func() time.Time
	partition int32
	failing   map[string]*failing        // by id of the issue
	causes    map[string]map[string]bool // by destination: those of its issues, and of failing
	checkedAt time.Time                  // when issues were resolved last
	lookedAt  time.Time                  // when destinations that work again were looked for last
}

// New returns the counter of a partition.
func New(in Issues, log *slog.Logger, now func() time.Time, partition int32) *Counter {
	return &Counter{issues: in, log: log, now: now, partition: partition, failing: map[string]*failing{},
		causes: map[string]map[string]bool{}}
}

// failing are failures that are not added to their issue yet.
type failing struct {
	endpoint, destination, cause string

	from        int64 // outcomes before this offset are counted
	count       int
	first, last time.Time
	oldest      time.Time // when the oldest of the events was received; zero: there is none
	events      []string  // newest first
	final       bool      // a delivery failed for good
	writtenAt   time.Time
}

// issueID returns the id of the issue of a destination and a cause: every node finds the same.
func issueID(destination, cause string) string {
	sum := sha256.Sum256([]byte("issue " + destination + " " + cause))
	return id.ID(sum[:16]).Text(issuePrefix)
}

// causeOf returns why a request or a delivery failed; empty: it did not, or a user has asked for a test.
func causeOf(o *event.OutcomeHead) string {
	switch {
	case o.Trigger == event.TriggerTest || o.OK:
		return ""
	case !o.Attempt.IsZero() && o.Code > 0:
		return fmt.Sprintf("http_%d", o.Code)
	case !o.Attempt.IsZero():
		return string(o.ErrorCode)
	case o.Status == event.Failed:
		return string(o.Reason)
	}
	return ""
}

// Count counts an outcome, if it is a failure.
func (c *Counter) Count(o *event.OutcomeHead, endpoint string, offset int64) {
	cause := causeOf(o)
	if cause == "" {
		return
	}
	known := c.causes[string(o.Dest)]
	if known == nil {
		known = c.causesOf(string(o.Dest))
	}
	if !known[cause] && len(known) >= maxCauses {
		cause = otherCause
	}
	name := issueID(string(o.Dest), cause)
	f := c.failing[name]
	if f == nil {
		if len(c.failing) >= maxFailing {
			return
		}
		known[cause], c.causes[string(o.Dest)] = true, known
		f = &failing{endpoint: endpoint, destination: string(o.Dest), cause: cause,
			from: c.countedUntil(name)}
		c.failing[name] = f
	}
	if offset < f.from {
		return
	}
	if f.count++; f.count == 1 {
		f.first = o.At
	}
	f.last, f.final = o.At, f.final || o.Status == event.Failed
	if at := o.Event.Time(); f.oldest.IsZero() || at.Before(f.oldest) {
		f.oldest = at
	}
	text := o.Event.Text(id.Event)
	f.events = slices.DeleteFunc(f.events, func(e string) bool { return e == text })
	f.events = slices.Insert(f.events, 0, text)
	f.events = f.events[:min(len(f.events), alerting.MaxIssueEvents)]
}

// countedUntil returns the offset before which outcomes of the partition are counted in an issue.
func (c *Counter) countedUntil(name string) int64 {
	if x := c.issues.Issue(name); x != nil && x.Partition == c.partition {
		return x.Position
	}
	return 0
}

// causesOf returns the causes of a destination that have an issue or may get one.
func (c *Counter) causesOf(destination string) map[string]bool {
	causes := map[string]bool{}
	for _, x := range c.issues.Issues(func(x *alerting.Issue) bool { return x.Destination == destination }) {
		causes[x.Cause] = true
	}
	for _, f := range c.failing {
		if f.destination == destination {
			causes[f.cause] = true
		}
	}
	return causes
}

// Write adds the counts to the issues, and records which destinations work again. Once a minute it resolves issues
// whose destination was deleted or works again.
// Counts that cannot be written stay for the next call. position is the offset before which outcomes are counted.
// succeededAt returns the time of the last success of a destination, zero if it is not known.
func (c *Counter) Write(ctx context.Context, position int64, succeededAt func(destination string) time.Time) {
	now := c.now().UTC()
	c.add(ctx, position, now)
	if now.Sub(c.lookedAt) >= worksEvery {
		c.lookedAt = now
		c.recordWorking(ctx, succeededAt, now)
	}
	if now.Sub(c.checkedAt) >= issueEvery {
		c.checkedAt = now
		c.resolve(ctx, succeededAt, now)
	}
}

func (c *Counter) add(ctx context.Context, position int64, now time.Time) {
	for name, f := range c.failing {
		exists := c.issues.Issue(name) != nil
		switch {
		case f.count == 0 || !exists && !f.final && f.count < issueFailures:
			if now.Sub(f.last) > issueQuiet {
				delete(c.failing, name)
				delete(c.causes, f.destination) // it is found again with the next failure
			}
			continue
		case now.Sub(f.writtenAt) < issueEvery:
			continue
		}
		f.writtenAt = now
		err := c.issues.ChangeIssue(ctx, name, func(x *alerting.Issue) error {
			x.Endpoint, x.Destination, x.Cause = f.endpoint, f.destination, f.cause
			x.Partition, x.Position = c.partition, position
			x.Add(f.count, f.first, f.last, f.oldest, slices.Clone(f.events))
			return nil
		})
		switch {
		case err == nil, errors.Is(err, alerting.ErrTooManyIssues), errors.Is(err, config.ErrStateFull):
			f.from, f.count, f.events, f.final = position, 0, nil, false
		case ctx.Err() == nil:
			c.log.LogAttrs(ctx, slog.LevelWarn, "cannot write an issue", slog.String("issue", name), slog.Any("error", err))
		}
	}
}

// recordWorking records the destinations that work again.
func (c *Counter) recordWorking(ctx context.Context, succeededAt func(string) time.Time, now time.Time) {
	lastOf := func(x *alerting.Issue) time.Time {
		if f := c.failing[x.ID]; f != nil && f.last.After(x.LastAt) {
			return f.last
		}
		return x.LastAt
	}
	works := c.issues.Issues(func(x *alerting.Issue) bool {
		last := lastOf(x)
		return x.Partition == c.partition && x.Status != alerting.IssueResolved && x.WorksAt.IsZero() &&
			succeededAt(x.Destination).After(last) && now.Sub(last) >= worksAfter
	})
	for _, x := range works {
		at := succeededAt(x.Destination).UTC()
		c.change(ctx, "cannot record that a destination works again", x.ID, func(x *alerting.Issue) {
			if at.After(x.LastAt) {
				x.WorksAt = at
			}
		})
	}
}

// change changes an issue, or logs why it cannot.
func (c *Counter) change(ctx context.Context, failed, issue string, alter func(*alerting.Issue)) {
	err := c.issues.ChangeIssue(ctx, issue, func(x *alerting.Issue) error { alter(x); return nil })
	if err != nil && ctx.Err() == nil {
		c.log.LogAttrs(ctx, slog.LevelWarn, failed, slog.String("issue", issue), slog.Any("error", err))
	}
}

func (c *Counter) resolve(ctx context.Context, succeededAt func(string) time.Time, now time.Time) {
	ended := c.issues.Issues(func(x *alerting.Issue) bool {
		if x.Partition != c.partition || x.Status == alerting.IssueResolved {
			return false
		}
		ep, presence := c.issues.Endpoint(x.Endpoint)
		if presence != entity.Present {
			return presence == entity.Deleted
		}
		return ep.Destination(x.Destination) == nil ||
			succeededAt(x.Destination).After(x.LastAt) && now.Sub(x.LastAt) > issueQuiet
	})
	for _, x := range ended {
		last := x.LastAt
		c.change(ctx, "cannot resolve an issue", x.ID, func(x *alerting.Issue) {
			if x.LastAt.Equal(last) { // else it has failed again meanwhile
				x.SetStatus(alerting.IssueResolved, now)
			}
		})
	}
}
