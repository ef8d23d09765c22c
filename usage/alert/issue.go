package alert

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
	"github.com/eventrelay/relay/pkg/stream"
)

// Failures of a destination with the same cause are an issue, an entity of the configuration. The owner of the
// partition counts them in memory and adds the count to the issue once a minute. The issue stores up to which offset
// outcomes are counted, so those that the next owner reads again are not counted twice.

const (
	// issueFailures is how many requests must fail before there is an issue; a delivery that fails for good makes one
	// at once.
	issueFailures = 5
	// issueEvery is the time between two changes of an issue: each is a record of the configuration.
	issueEvery = time.Minute
	// issueQuiet is how long nothing must have failed before the next success resolves an issue, and how long failures
	// that made no issue are remembered.
	issueQuiet = time.Hour
	// maxFailing bounds the causes of a partition that are counted at the same time.
	maxFailing = 2000
	// maxCauses bounds the causes of a destination: the receiver chooses its statuses. Further ones are otherCause.
	maxCauses  = 20
	otherCause = "other"
)

// IssuePrefix is that of ids of issues.
const IssuePrefix = "iss_"

// Issues reads and changes issues.
type Issues interface {
	Issue(id string) *alerting.Issue
	Issues(keep func(*alerting.Issue) bool) []*alerting.Issue
	// ChangeIssue creates an issue, or changes it by a conditional record.
	ChangeIssue(ctx context.Context, id string, alter func(*alerting.Issue) error) error
}

// failing are failures that are not added to their issue yet.
type failing struct {
	endpoint, destination, cause string

	from        int64 // outcomes before this offset are counted
	count       int
	first, last time.Time
	events      []string // newest first
	final       bool     // a delivery failed for good
	writtenAt   time.Time
}

// issueID returns the id of the issue of a destination and a cause: every node finds the same.
func issueID(destination, cause string) string {
	sum := sha256.Sum256([]byte("issue " + destination + " " + cause))
	return id.ID(sum[:16]).Text(IssuePrefix)
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

// countFailure counts an outcome, if it is a failure.
func (part *partitionState) countFailure(o *event.OutcomeHead, endpoint string, offset int64) {
	cause := causeOf(o)
	if cause == "" || part.countedUntil == nil {
		return
	}
	known := part.causes[string(o.Dest)]
	if known == nil {
		known = part.causesOf(string(o.Dest))
	}
	if !known[cause] && len(known) >= maxCauses {
		cause = otherCause
	}
	name := issueID(string(o.Dest), cause)
	f := part.failing[name]
	if f == nil {
		if len(part.failing) >= maxFailing {
			return
		}
		known[cause], part.causes[string(o.Dest)] = true, known
		f = &failing{endpoint: endpoint, destination: string(o.Dest), cause: cause,
			from: part.countedUntil(name, part.partition)}
		part.failing[name] = f
	}
	if offset < f.from {
		return
	}
	if f.count++; f.count == 1 {
		f.first = o.At
	}
	f.last, f.final = o.At, f.final || o.Status == event.Failed
	text := o.Event.Text(id.Event)
	f.events = slices.DeleteFunc(f.events, func(e string) bool { return e == text })
	f.events = slices.Insert(f.events, 0, text)
	f.events = f.events[:min(len(f.events), alerting.MaxIssueEvents)]
}

// countedUntil returns the offset before which outcomes of a partition are counted in an issue.
func (a *Alerts) countedUntil(name string, partition int32) int64 {
	if x := a.deps.Issues.Issue(name); x != nil && x.Partition == partition {
		return x.Position
	}
	return 0
}

// causesOf returns the causes of a destination that have an issue or may get one.
func (part *partitionState) causesOf(destination string) map[string]bool {
	causes := map[string]bool{}
	for _, x := range part.issues(func(x *alerting.Issue) bool { return x.Destination == destination }) {
		causes[x.Cause] = true
	}
	for _, f := range part.failing {
		if f.destination == destination {
			causes[f.cause] = true
		}
	}
	return causes
}

// writeIssues adds what was counted to the issues. What cannot be written now is kept for the next tick.
func (a *Alerts) writeIssues(ctx context.Context, part *partitionState, now time.Time) {
	for name, f := range part.failing {
		exists := a.deps.Issues.Issue(name) != nil
		switch {
		case f.count == 0 || !exists && !f.final && f.count < issueFailures:
			if now.Sub(f.last) > issueQuiet {
				delete(part.failing, name)
				delete(part.causes, f.destination) // it is found again with the next failure
			}
			continue
		case now.Sub(f.writtenAt) < issueEvery:
			continue
		}
		f.writtenAt = now
		position := part.nextOffset[stream.Outcomes]
		err := a.deps.Issues.ChangeIssue(ctx, name, func(x *alerting.Issue) error {
			x.Endpoint, x.Destination, x.Cause = f.endpoint, f.destination, f.cause
			x.Partition, x.Position = part.partition, position
			x.Add(f.count, f.first, f.last, slices.Clone(f.events))
			return nil
		})
		switch {
		case err == nil, errors.Is(err, alerting.ErrTooManyIssues), errors.Is(err, config.ErrStateFull):
			f.from, f.count, f.events, f.final = position, 0, nil, false
		case ctx.Err() == nil:
			a.log.LogAttrs(ctx, slog.LevelWarn, "cannot write an issue", slog.String("issue", name), slog.Any("error", err))
		}
	}
}

// resolveIssues resolves the issues of this node's partitions whose destination was deleted, or works again.
func (a *Alerts) resolveIssues(ctx context.Context, now time.Time) {
	ended := a.deps.Issues.Issues(func(x *alerting.Issue) bool {
		part := a.partitions[x.Partition]
		if part == nil || x.Status == alerting.IssueResolved {
			return false
		}
		ep, presence := a.deps.Config.Endpoint(x.Endpoint)
		if presence != entity.Present {
			return presence == entity.Deleted
		}
		d := part.destinations[x.Destination]
		return ep.Destination(x.Destination) == nil ||
			d != nil && d.succeededAt.After(x.LastAt) && now.Sub(x.LastAt) > issueQuiet
	})
	for _, x := range ended {
		last := x.LastAt
		if err := a.deps.Issues.ChangeIssue(ctx, x.ID, func(x *alerting.Issue) error {
			if x.LastAt.Equal(last) { // else it has failed again meanwhile
				x.SetStatus(alerting.IssueResolved, now)
			}
			return nil
		}); err != nil && ctx.Err() == nil {
			a.log.LogAttrs(ctx, slog.LevelWarn, "cannot resolve an issue", slog.String("issue", x.ID), slog.Any("error", err))
		}
	}
}
