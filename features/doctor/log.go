package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/stream"
)

func (x *checker) kafka(ctx context.Context) Check {
	const advice = "check that the brokers of RELAY_KAFKA_BROKERS run and that this machine can connect to them"
	n, err := x.log.BrokerCount(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fail(advice, "no answer within %v", checkTime)
	}
	if err != nil {
		return fail(advice, "%v", err)
	}
	took, err := measure(ctx, func(ctx context.Context) error {
		_, err := x.log.Ends(ctx, stream.Control)
		return err
	})
	if err != nil {
		return fail(advice, "%v", err)
	}
	c := ok("%s, round trip %v", plural(n, "broker"), took)
	if x.Stream.SendsPasswordInClear() {
		c = warn("set RELAY_KAFKA_TLS, or use scram-sha-512 in RELAY_KAFKA_SASL",
			"the password of RELAY_KAFKA_SASL is sent in clear: the mechanism is plain and there is no TLS")
	}
	if n < x.ReplicationFactor {
		c.State, c.Advice = StateFail, "start the missing brokers"
		c.Text += fmt.Sprintf("; topics need %d replicas", x.ReplicationFactor)
	}
	partitions, err := x.log.UnderReplicatedPartitions(ctx)
	if err != nil {
		return kafkaFailed(err)
	}
	return checkReplicas(c, partitions)
}

// checkReplicas adds to the check kafka the partitions that lack replicas.
func checkReplicas(c Check, partitions []stream.UnderReplicatedPartition) Check {
	var leaderless int
	for _, p := range partitions {
		if p.Leaderless {
			leaderless++
		}
		c.Details = append(c.Details, p.String())
	}
	switch {
	case leaderless > 0:
		c.State = StateFail
		c.Advice = "start the brokers that hold them; until then senders of events for these partitions get 503"
		c.Text += fmt.Sprintf("; %s without a leader", plural(leaderless, "partition"))
	case len(partitions) > 0 && c.State != StateFail:
		c.State = StateWarn
		c.Advice = "start the missing broker, or repair its disk: with one replica fewer these partitions may stop taking " +
			"events"
		c.Text += fmt.Sprintf("; %s with fewer replicas in sync than configured", plural(len(partitions), "partition"))
	}
	return c
}

func (x *checker) topics(ctx context.Context) Check {
	report, err := stream.CheckTopics(ctx, x.Stream, x.ReplicationFactor)
	if err != nil {
		return kafkaFailed(err)
	}
	wrong := report.WrongSettings()
	switch {
	case report.Err() == nil:
		return ok("all %d topics are configured correctly, %d partitions for endpoints", len(report.Topics),
			report.Partitions())
	case len(wrong) == 0:
		return fail("run relay migrate", "%v", report.Err())
	}
	c := fail("run relay migrate --fix", "%s may lose events or stop the relay", plural(len(wrong), "topic setting"))
	for _, s := range wrong {
		c.Details = append(c.Details, s.String())
	}
	return c
}

// rights checks whether the ACLs allow this client what a node does.
func (x *checker) rights(ctx context.Context) Check {
	missing, err := stream.MissingRights(ctx, x.Stream, x.Trims)
	if err != nil {
		return kafkaFailed(err)
	}
	return checkRights(missing)
}

func checkRights(missing []stream.MissingRight) Check {
	if len(missing) == 0 {
		return ok("Kafka allows all that a node does")
	}
	c := fail("add the ACLs that docs/operate/security.md lists for the relay's principal",
		"Kafka does not allow this principal all that a node does")
	for _, m := range missing {
		c.Details = append(c.Details, m.String())
	}
	return c
}

// writers checks who except the relay may write to the topics. Nobody else should: the relay authenticates records of
// the configuration only, and would sign and send any delivery that it reads from the other topics.
func (x *checker) writers(ctx context.Context) Check {
	if x.Stream.Embedded != nil {
		return ok("only this process can open the embedded log")
	}
	others, own, err := x.log.AllowedWriters(ctx)
	return checkWriters(others, own, err, x.Stream.Prefix)
}

func checkWriters(others []stream.AllowedWriter, own string, err error, prefix string) Check {
	advice := "give the relay its own principal and allow Write, Delete and Alter on the topics " + prefix +
		"* to it only"
	switch {
	case errors.Is(err, stream.ErrNoAuthorizer):
		return warn("turn on an authorizer; "+advice, "%v: every client that can connect may write to every topic", err)
	case errors.Is(err, stream.ErrACLsHidden):
		return warn("allow the relay's principal Describe on the cluster, so that this check can read the ACLs", "%v", err)
	case err != nil:
		return kafkaFailed(err)
	case len(others) == 0 || len(others) == 1 && own == "" && others[0].Principal != "User:*":
		return ok("the ACLs allow nobody else to write to the topics, except super users")
	}
	c := warn(advice, "%s may write to topics of the relay", plural(len(others), "other principal"))
	if own == "" {
		c.Text = fmt.Sprintf("%s may write to topics of the relay, the relay itself included",
			plural(len(others), "principal"))
	}
	for _, w := range others {
		c.Details = append(c.Details, fmt.Sprintf("%s: %s", w.Principal, join(w.Topics)))
	}
	return c
}

// groupBacklog sums up the records of some topics that a consumer group has not processed.
type groupBacklog struct {
	records int64
	oldest  time.Time // timestamp of the oldest record; zero if there is none
}

func (w *groupBacklog) add(b stream.Backlog, at time.Time) {
	w.records += b.Records
	if b.Head != nil && (w.oldest.IsZero() || at.Before(w.oldest)) {
		w.oldest = at
	}
}

func (w *groupBacklog) age(now time.Time) time.Duration {
	if w.oldest.IsZero() {
		return 0
	}
	return now.Sub(w.oldest)
}

// dispatch checks the consumer group of the dispatchers: records to process now, the oldest undelivered event, and
// the number of deliveries in retry topics.
func (x *checker) dispatch(ctx context.Context) []Check {
	tiers := stream.Tiers()
	backlogs, err := x.log.Backlogs(ctx, stream.DispatchGroup, stream.ReadBy(stream.DispatchGroup)...)
	if err != nil {
		return []Check{kafkaFailed(err)}
	}
	members, err := x.log.MemberCount(ctx, stream.DispatchGroup)
	if err != nil {
		return []Check{kafkaFailed(err)}
	}
	var immediate, retries groupBacklog
	byTier := make(map[string]int64)
	var undelivered time.Time
	for _, b := range backlogs {
		if !stream.IsTier(b.Topic) {
			immediate.add(b, timeOf(b.Head))
		} else {
			retries.add(b, timeOf(b.Head))
			byTier[b.Topic] += b.Records
		}
		if accepted := acceptedAt(b.Head); !accepted.IsZero() && (undelivered.IsZero() || accepted.Before(undelivered)) {
			undelivered = accepted
		}
	}
	return []Check{
		x.groupCheck(stream.DispatchGroup, nodeconfig.RoleDispatch, members, immediate),
		oldestUndelivered(undelivered, x.Now()),
		retryDepth(tiers, byTier, retries),
	}
}

// groupCheck checks a consumer group by its oldest unprocessed record and the number of its members. role is the role
// (RELAY_ROLES) of the nodes that join the group.
func (x *checker) groupCheck(name, role string, members int, w groupBacklog) Check {
	text := "no record waits"
	if w.records > 0 {
		verb := "wait"
		if w.records == 1 {
			verb = "waits"
		}
		text = fmt.Sprintf("%s %s, the oldest for %s", plural(w.records, "record"), verb, formatAge(w.age(x.Now())))
	}
	text += fmt.Sprintf("; %s in the consumer group", plural(members, "node"))
	advice := "check whether the nodes of this group are overloaded (CPU, slow disks) or stopped; add nodes if they " +
		"are busy"
	c := checkAge(w.age(x.Now()), advice, "%s", text)
	if members == 0 {
		c = fail("start a node with the role "+role, "%s", text)
	}
	c.Name = name
	return c
}

func oldestUndelivered(accepted, now time.Time) Check {
	c := ok("no event waits for a delivery")
	if !accepted.IsZero() {
		c = ok("the oldest undelivered event was accepted %s ago", formatAge(now.Sub(accepted)))
	}
	c.Name = "undelivered"
	return c
}

func retryDepth(tiers []stream.Tier, byTier map[string]int64, all groupBacklog) Check {
	var parts []string
	for _, t := range tiers {
		if n := byTier[t.Topic]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", t.Topic, n))
		}
	}
	c := ok("%s waiting in retry topics", plural(all.records, "delivery"))
	c.Name, c.Details = "tiers", parts
	return c
}

// timeOf returns the timestamp of a record; zero for none.
func timeOf(r *stream.Record) time.Time {
	if r == nil {
		return time.Time{}
	}
	return r.Timestamp
}

// acceptedAt returns when the event of a record was accepted, from the event's id.
func acceptedAt(r *stream.Record) time.Time {
	if r == nil {
		return time.Time{}
	}
	e, err := id.Parse(id.Event, event.RecordID(r))
	if err != nil {
		return r.Timestamp
	}
	return e.Time()
}

func (x *checker) store(ctx context.Context) Check {
	return x.consumerCheck(ctx, "store", nodeconfig.RoleWrite, stream.StoreGroup, stream.StoreFindingsGroup)
}

// alerts checks the consumer group that evaluates alert rules: while it is behind, alerts are late.
func (x *checker) alerts(ctx context.Context) Check {
	return x.consumerCheck(ctx, "alerts", nodeconfig.RoleDispatch, stream.AlertGroup)
}

// findings checks the consumer group that decides what hits of leaked secrets change, and whether every hit had a
// finding.
func (x *checker) findings(ctx context.Context) Check {
	var usage []config.BoundUsage
	if x.Config != nil {
		usage = x.Config.BoundsUsage()
	}
	var dropped int64
	if x.DroppedHits != nil {
		dropped = x.DroppedHits()
	}
	return checkFindings(x.consumerCheck(ctx, "findings", nodeconfig.RoleDispatch, stream.FindingsGroup), usage, dropped)
}

// checkFindings adds to the check findings what keeps new leaks out of the list of findings: a bound that is reached
// now, or that was reached since the node's start.
func checkFindings(c Check, usage []config.BoundUsage, dropped int64) Check {
	const advice = "resolve or ignore findings, so that the next hit opens one; follow the runbook " +
		"RelayFindingHitsDropped for what was dropped"
	for _, u := range usage {
		if u.StopsFindings() {
			c.State, c.Advice = StateFail, advice
			c.Text += fmt.Sprintf("; new leaks are in no list: %s: %d of %d", u.Name, u.Used, u.Limit)
		}
	}
	if dropped == 0 {
		return c
	}
	if c.State == StateOK {
		c.State, c.Advice = StateWarn, advice
	}
	c.Text += fmt.Sprintf("; %s in no list since the start of this node", plural(dropped, "hit"))
	return c
}

// unread checks for records that retention will delete before their consumer group has read them.
func (x *checker) unread(ctx context.Context) Check {
	all, _, err := x.log.ExpiringBacklogs(ctx, x.Now(), x.Retention)
	if err != nil {
		return kafkaFailed(err)
	}
	c := ok("no unread record is near the end of its retention")
	for _, u := range all {
		const advice = "start the nodes of that consumer group, or raise RELAY_RETENTION_DAYS, before retention deletes " +
			"unread records"
		if u.RefusesEvents() {
			c.State, c.Advice, c.Text = StateFail, advice, "new events are rejected with 503: retention will soon delete "+
				"unread records"
		} else if c.State == StateOK {
			c.State, c.Advice, c.Text = StateWarn, advice, "a consumer group is behind by half of the retention: it may lose "+
				"unread records"
		}
		c.Details = append(c.Details, u.String())
	}
	return c
}

// consumerCheck checks consumer groups that process all of their topics in order and have the same members.
func (x *checker) consumerCheck(ctx context.Context, name, role string, groups ...string) Check {
	fewest := math.MaxInt
	var w groupBacklog
	for _, group := range groups {
		backlogs, err := x.log.Backlogs(ctx, group, stream.ReadBy(group)...)
		if err != nil {
			return kafkaFailed(err)
		}
		members, err := x.log.MemberCount(ctx, group)
		if err != nil {
			return kafkaFailed(err)
		}
		fewest = min(fewest, members)
		for _, b := range backlogs {
			w.add(b, timeOf(b.Head))
		}
	}
	return x.groupCheck(name, role, fewest, w)
}

func (x *checker) dead(ctx context.Context) Check {
	n, err := x.log.CountDeadLetters(ctx)
	if err != nil {
		return kafkaFailed(err)
	}
	if n == 0 {
		return ok("no dead letters")
	}
	return warn("run relay dead list to see them and the reason; once that is fixed, run relay dead retry",
		"%s in the dead letter topic: they could not be read or stored", plural(n, "record"))
}

// missing warns about records that a start skipped.
func (x *checker) missing(context.Context) Check { return missingRecords(x.Missing) }

func missingRecords(all []string) Check {
	c := warn("ask senders to send the lost events again; the warning ends when retention removes that part of the log",
		"the log lost records: events, deliveries or receipts")
	c.Details = all
	return c
}

// CheckFiles reports what is wrong with the files of a log while no node runs on them.
func CheckFiles(cfg stream.LogConfig) (c Check) {
	missing, err := stream.CheckLog(cfg)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c = warn("name the data directory with --data-dir", "there is no log in %s", cfg.Dir)
	case errors.Is(err, stream.ErrRecordsMissing):
		c = fail("restore a backup, or a copy of the data directory; to start without the lost records, set "+
			"RELAY_SKIP_MISSING_RECORDS=true for one start", "%v", err)
	case err != nil:
		c = fail("restore a backup, or a copy of the data directory", "%v", err)
	case len(missing) > 0:
		var all []string
		for _, m := range missing {
			all = append(all, m.String())
		}
		c = missingRecords(all)
	default:
		c = ok("all files are whole")
	}
	c.Name = "log"
	return c
}

// join joins words for a line.
func join(words []string) string { return strings.Join(words, ", ") }
