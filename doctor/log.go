package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

func (x *examination) kafka(ctx context.Context) Check {
	const advice = "see that the brokers of RELAY_KAFKA_BROKERS run and can be reached from here"
	n, err := x.log.BrokerCount(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fail(advice, "no answer in %v", checkTime)
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
	c := ok("%s, an answer in %v", count(n, "broker"), took)
	if x.Stream.SendsPasswordInClear() {
		c = warn("set RELAY_KAFKA_TLS, or use scram-sha-512", "the password travels in clear: RELAY_KAFKA_SASL is plain "+
			"and there is no TLS")
	}
	if n < x.ReplicationFactor {
		c.State, c.Advice = StateFail, fmt.Sprintf("bring the missing brokers back: topics have %d copies", x.ReplicationFactor)
	}
	return c
}

func (x *examination) topics(ctx context.Context) Check {
	a, err := stream.CheckTopics(ctx, x.Stream, x.ReplicationFactor)
	if err != nil {
		return unasked(err)
	}
	wrong := a.WrongSettings()
	switch {
	case a.Err() == nil:
		return ok("%d topics are as they must be, %d partitions for endpoints", len(a.Topics), a.Partitions())
	case len(wrong) == 0:
		return fail("relay migrate", "%v", a.Err())
	}
	c := fail("relay migrate --fix", "%s of topics would lose events or stop them", count(len(wrong), "setting"))
	for _, s := range wrong {
		c.Details = append(c.Details, s.String())
	}
	return c
}

// writers says who else may write to the topics. The relay authenticates what it reads of its configuration; the other
// topics carry deliveries that it signs and sends, so nobody else may write to them.
func (x *examination) writers(ctx context.Context) Check {
	cluster, _, err := x.log.TopicID(ctx, stream.Control)
	if err != nil {
		return unasked(err)
	}
	if cluster == stream.EmbeddedCluster {
		return embeddedWriters(x.Stream)
	}
	others, own, err := x.log.Writers(ctx)
	return judgeWriters(others, own, err, x.Stream.Prefix)
}

// embeddedWriters is the check of a broker that has no ACLs.
func embeddedWriters(conf stream.Config) Check {
	switch {
	case conf.DialFunc != nil:
		return ok("nobody but this process reaches the broker")
	case conf.SASL == "":
		return warn("give it a key: relay engine kafka --key-file, and RELAY_KAFKA_SASL for the nodes",
			"the embedded broker asks for no key: every process that reaches it can write to every topic")
	}
	return ok("the embedded broker has no ACLs: whoever has its key can write")
}

func judgeWriters(others []stream.Writer, own string, err error, prefix string) Check {
	advice := "give the relay a principal of its own and allow Write, Delete and Alter on the topics " + prefix +
		"* to it alone"
	switch {
	case errors.Is(err, stream.ErrNoAuthorizer):
		return warn("turn on an authorizer; "+advice, "%v: whoever reaches them can write to every topic", err)
	case errors.Is(err, stream.ErrACLsHidden):
		return warn("allow the relay's principal Describe on the cluster, to have them checked", "%v", err)
	case err != nil:
		return unasked(err)
	case len(others) == 0 || len(others) == 1 && own == "" && others[0].Principal != "User:*":
		return ok("by the ACLs nobody else may write to the topics, super users excepted")
	}
	c := warn(advice, "%s may write to topics of the relay", count(len(others), "other principal"))
	if own == "" {
		c.Text = fmt.Sprintf("%s may write to topics of the relay, which is one of them", count(len(others), "principal"))
	}
	for _, w := range others {
		c.Details = append(c.Details, fmt.Sprintf("%s: %s", w.Principal, list(w.Topics)))
	}
	return c
}

// waiting sums up what a group has not done of some topics.
type waiting struct {
	records int64
	oldest  time.Time // of a record, by its own time; zero when there is none
}

func (w *waiting) add(b stream.Backlog, at time.Time) {
	w.records += b.Records
	if b.Head != nil && (w.oldest.IsZero() || at.Before(w.oldest)) {
		w.oldest = at
	}
}

func (w *waiting) age(now time.Time) time.Duration {
	if w.oldest.IsZero() {
		return 0
	}
	return now.Sub(w.oldest)
}

// dispatch looks at what the dispatchers have still to do: what they should be doing now, and what waits in
// the retry topics.
func (x *examination) dispatch(ctx context.Context) []Check {
	tiers := stream.Tiers()
	backlogs, err := x.log.Backlogs(ctx, stream.DispatchGroup, stream.ReadBy(stream.DispatchGroup)...)
	if err != nil {
		return []Check{unasked(err)}
	}
	members, err := x.log.MemberCount(ctx, stream.DispatchGroup)
	if err != nil {
		return []Check{unasked(err)}
	}
	var now, retries waiting
	byTier := make(map[string]int64)
	var undelivered time.Time
	for _, b := range backlogs {
		if !stream.IsTier(b.Topic) {
			now.add(b, timeOf(b.Head))
		} else {
			retries.add(b, timeOf(b.Head))
			byTier[b.Topic] += b.Records
		}
		if accepted := acceptedAt(b.Head); !accepted.IsZero() && (undelivered.IsZero() || accepted.Before(undelivered)) {
			undelivered = accepted
		}
	}
	return []Check{
		x.group(stream.DispatchGroup, "there to deliver", "dispatch", members, now),
		oldestUndelivered(undelivered, x.Now()),
		depth(tiers, byTier, retries),
	}
}

// group judges a group by what waits for it and by who is there to do it.
func (x *examination) group(name, verb, role string, members int, w waiting) Check {
	text := "nothing waits"
	if w.records > 0 {
		text = fmt.Sprintf("%s wait, the oldest for %s", count(w.records, "record"), ago(w.age(x.Now())))
	}
	text += fmt.Sprintf("; %s %s", count(members, "node"), verb)
	advice := "see whether the nodes are busy (CPU, slow disks) or stopped, and whether more are needed"
	c := judgeAge(w.age(x.Now()), advice, "%s", text)
	if members == 0 {
		c = fail("start a node with the role "+role, "%s", text)
	}
	c.Name = name
	return c
}

func oldestUndelivered(accepted, now time.Time) Check {
	c := ok("nothing is undelivered")
	if !accepted.IsZero() {
		c = ok("the oldest event that is not through was accepted %s ago", ago(now.Sub(accepted)))
	}
	c.Name = "undelivered"
	return c
}

func depth(tiers []stream.Tier, byTier map[string]int64, all waiting) Check {
	var parts []string
	for _, t := range tiers {
		if n := byTier[t.Topic]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", t.Topic, n))
		}
	}
	c := ok("%s in retry topics", count(all.records, "delivery"))
	c.Name, c.Details = "tiers", parts
	return c
}

// timeOf is when a record was written.
func timeOf(r *stream.Record) time.Time {
	if r == nil {
		return time.Time{}
	}
	return r.Timestamp
}

// acceptedAt is when the event of a record was accepted, which its id says.
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

func (x *examination) store(ctx context.Context) Check {
	return x.readers(ctx, stream.StoreGroup, "there to write", "write")
}

// alerts looks at those who judge what is worth an alert: nobody hears of trouble while they are behind.
func (x *examination) alerts(ctx context.Context) Check {
	return x.readers(ctx, stream.AlertGroup, "there to judge", "dispatch")
}

// unread looks whether something waits for so long that it will be lost by its age.
func (x *examination) unread(ctx context.Context) Check {
	all, _, err := x.log.ExpiringBacklogs(ctx, x.Now(), x.Retention)
	if err != nil {
		return unasked(err)
	}
	c := ok("every group does what it reads long before that is lost by its age")
	for _, u := range all {
		const advice = "bring that group back, or raise RELAY_RETENTION_DAYS, before records are lost"
		if u.RefusesEvents() {
			c.State, c.Advice, c.Text = StateFail, advice, "events are refused: records will soon be lost by their age"
		} else if c.State == StateOK {
			c.State, c.Advice, c.Text = StateWarn, advice, "records wait for so long that they will be lost by their age"
		}
		c.Details = append(c.Details, u.String())
	}
	return c
}

// readers looks at a group that reads all of its topics in order.
func (x *examination) readers(ctx context.Context, group, verb, role string) Check {
	backlogs, err := x.log.Backlogs(ctx, group, stream.ReadBy(group)...)
	if err != nil {
		return unasked(err)
	}
	members, err := x.log.MemberCount(ctx, group)
	if err != nil {
		return unasked(err)
	}
	var w waiting
	for _, b := range backlogs {
		w.add(b, timeOf(b.Head))
	}
	return x.group(group, verb, role, members, w)
}

func (x *examination) dead(ctx context.Context) Check {
	n, err := x.log.CountDeadLetters(ctx)
	if err != nil {
		return unasked(err)
	}
	if n == 0 {
		return ok("no dead letters")
	}
	return warn("relay dead list shows them and why; relay dead retry does them again once the reason is gone",
		"%s could not be read or stored", count(n, "record"))
}

// list joins words for a line.
func list(words []string) string { return strings.Join(words, ", ") }
