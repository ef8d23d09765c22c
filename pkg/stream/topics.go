package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/wait"
)

// Names of the topics, without the prefix.
const (
	Events           = "events"
	Commands         = "commands"
	Outcomes         = "outcomes"
	Receipts         = "receipts"
	Dead             = "dead"
	Control          = "control"
	ControlSnapshots = "control.snapshots"
	Nodes            = "nodes"
	Heartbeats       = "heartbeats"
	AuditLog         = "audit"
	Findings         = "findings"
)

// Consumer groups, without the prefix. A group processes every record of the topics that it reads. Its committed
// offsets say which ones it has completed.
const (
	DispatchGroup = "dispatch" // delivers
	StoreGroup    = "store"    // copies the log into the store, findings apart
	AlertGroup    = "alerts"   // evaluates the rules of alerts
	FindingsGroup = "findings" // decides what a hit changes in its finding
	// StoreFindingsGroup copies findings into the store. It is a group of its own, so that events wait for no hits.
	StoreFindingsGroup = "store.findings"
)

// Fence names the topics of a read-your-writes fence: a read of the store waits until everything that was acknowledged
// in them before is in the store.
type Fence string

// The fences. A topic of a fence is read by one of the store's groups.
const (
	FenceEvents Fence = "events" // lists and details of events
	FenceAudit  Fence = "audit"  // the audit log
	// FenceFindings is for findings, their occurrences and the counters of their senders.
	FenceFindings Fence = "findings"
)

// Topic is everything that the service knows about one topic.
type Topic struct {
	Name string // without the prefix
	// Keyed topics have RELAY_PARTITIONS partitions, and an endpoint uses the same partition of all of them. The hits of
	// a finding are in the partition of its id. The other topics have one partition.
	Keyed bool
	// Durable topics: the log in this process acknowledges a record after its fdatasync. Records of other topics follow
	// from records of durable ones and can be produced again until the offset of those is committed. They are synced
	// before that commit.
	Durable bool
	// Authenticated topics: records carry a MAC, and readers ignore records without a valid one.
	Authenticated bool
	// Linger is how long the producer gathers records of the topic into one request.
	Linger time.Duration
	// TimestampType says who sets the timestamp of a record: createTime, appendTime, or "" if it does not matter.
	TimestampType string
	// Retention is how long a topic without readers keeps a record at least; 0: until its writer deletes it. A topic with
	// readers has no retention by time: it is trimmed by what all of them have committed, so an unavailable store loses
	// nothing.
	Retention time.Duration
	// Readers are the consumer groups that read it.
	Readers []string
	// KeepRecords is how many records of a partition trimming always keeps; 0 = none.
	KeepRecords int64
	// KeepAge is the age up to which trimming keeps committed records of this topic. It counts if it is less than
	// TrimConfig.KeepAge; 0 = TrimConfig.KeepAge.
	KeepAge time.Duration
	// Fence is the read-your-writes fence that waits for this topic.
	Fence Fence
	// Guarded topics: new events are answered 503 while a reader's oldest unprocessed record is at 90 % of retention.
	Guarded bool
	// Delay is the longest time a record stays in this retry topic; 0: not a retry topic.
	Delay time.Duration
}

// Values of Topic.TimestampType, which are Kafka's values of message.timestamp.type.
const (
	createTime = "CreateTime"
	appendTime = "LogAppendTime"
)

// topics is the only list of topics and of everything that depends on a topic: the subscriptions of groups, what relay
// migrate creates, what migrate, serve and doctor check, durability in the log of this process, the fences of the
// store, the retention guard, trimming, and which dead letters can be retried.
var topics = append([]Topic{
	{Name: Events, Keyed: true, Durable: true, TimestampType: createTime,
		Readers: []string{DispatchGroup, StoreGroup, AlertGroup}, Fence: FenceEvents, Guarded: true},
	{Name: Commands, Keyed: true, Durable: true,
		Readers: []string{DispatchGroup, StoreGroup}, Fence: FenceEvents, Guarded: true},
	{Name: Outcomes, Keyed: true, Linger: outcomeLinger, KeepRecords: outcomesKeepRecords,
		Readers: []string{StoreGroup, AlertGroup}, Fence: FenceEvents, Guarded: true},
	{Name: Receipts, Keyed: true, Durable: true,
		Readers: []string{StoreGroup}, Fence: FenceEvents, Guarded: true},
	{Name: Dead, Keyed: true, Durable: true, Retention: 30 * 24 * time.Hour},
	{Name: Control, Durable: true, Authenticated: true},
	{Name: ControlSnapshots, Durable: true, Authenticated: true},
	{Name: Nodes, Authenticated: true, TimestampType: appendTime, Retention: time.Hour},
	{Name: Heartbeats, Authenticated: true, TimestampType: appendTime, Retention: time.Hour},
	// The outbox of the configuration log forgets an entry when this topic has acknowledged it.
	{Name: AuditLog, Durable: true, Readers: []string{StoreGroup}, Fence: FenceAudit, Guarded: true},
	// Senders are answered when this topic has acknowledged the hits. It is not guarded: events do not stop because of
	// hits that nobody reads.
	{Name: Findings, Keyed: true, Durable: true, Readers: []string{FindingsGroup, StoreFindingsGroup},
		Fence: FenceFindings},
}, retryTopics(
	Tier{"retry.1s", time.Second}, Tier{"retry.2s", 2 * time.Second}, Tier{"retry.5s", 5 * time.Second},
	Tier{"retry.10s", 10 * time.Second}, Tier{"retry.30s", 30 * time.Second}, Tier{"retry.1m", time.Minute},
	Tier{"retry.2m", 2 * time.Minute}, Tier{"retry.5m", 5 * time.Minute}, Tier{"retry.10m", 10 * time.Minute},
	Tier{"retry.30m", 30 * time.Minute}, Tier{"retry.1h", time.Hour},
)...)

func retryTopics(tiers ...Tier) (all []Topic) {
	for _, t := range tiers {
		all = append(all, Topic{
			Name: t.Topic, Keyed: true, Linger: outcomeLinger, TimestampType: appendTime, Delay: t.Delay, KeepAge: tierKeepAge,
			Readers: []string{DispatchGroup}, Guarded: true,
		})
	}
	return all
}

// Topics returns all topics.
func Topics() []Topic { return slices.Clone(topics) }

// topicByName returns the topic of a name without the prefix; the zero Topic if there is none.
func topicByName(name string) Topic {
	for i := range topics {
		if topics[i].Name == name {
			return topics[i]
		}
	}
	return Topic{}
}

// topicNames returns the names of the topics for which fits returns true.
func topicNames(fits func(Topic) bool) (names []string) {
	for _, t := range topics {
		if fits(t) {
			names = append(names, t.Name)
		}
	}
	return names
}

// Groups returns the consumer groups. No record is deleted before all groups that read it have committed it.
func Groups() (groups []string) {
	for _, t := range topics {
		for _, group := range t.Readers {
			if !slices.Contains(groups, group) {
				groups = append(groups, group)
			}
		}
	}
	return groups
}

// ReadBy returns the topics that a group reads. Groups subscribe to them, and trimming waits for their commits. It
// panics for an unknown group.
func ReadBy(group string) []string {
	names := topicNames(func(t Topic) bool { return slices.Contains(t.Readers, group) })
	if len(names) == 0 {
		panic("BUG: no group " + group)
	}
	return names
}

// ReadTopics returns the topics that some group reads: they are trimmed, and their records can become dead letters.
func ReadTopics() []string { return topicNames(func(t Topic) bool { return len(t.Readers) > 0 }) }

// AuthenticatedTopics returns the topics whose records carry a MAC.
func AuthenticatedTopics() []string { return topicNames(func(t Topic) bool { return t.Authenticated }) }

// Has reports whether the fence waits for a topic.
func (f Fence) Has(topic string) bool { return topicByName(topic).Fence == f }

// DurableTopic reports whether the log in this process syncs records of a topic, with any prefix, before it
// acknowledges them. Topics that the service does not know are durable.
func DurableTopic(name string) bool {
	t, ok := topicByFullName(name)
	return !ok || t.Durable
}

// topicByFullName returns the topic of a name with any prefix.
func topicByFullName(name string) (Topic, bool) {
	for _, t := range topics {
		if prefix, ok := strings.CutSuffix(name, t.Name); ok && (prefix == "" || strings.HasSuffix(prefix, ".")) {
			return t, true
		}
	}
	return Topic{}, false
}

// Tier is a retry topic. A record stays in it until it is due, at most Delay. Records are not stored in the order in
// which they are due.
type Tier struct {
	Topic string
	Delay time.Duration
}

// Tiers returns the retry topics, shortest delay first. A longer wait takes several passes through the last one.
func Tiers() (tiers []Tier) {
	for _, t := range topics {
		if t.Delay > 0 {
			tiers = append(tiers, Tier{t.Name, t.Delay})
		}
	}
	return tiers
}

// IsTier reports whether a topic is a retry topic.
func IsTier(topic string) bool { return topicByName(topic).Delay > 0 }

// topicSpec is how a topic is created and what its settings are checked against.
type topicSpec struct {
	name  string
	keyed bool
	rules []rule
}

// rule is a setting of a topic with the value that it needs.
type rule struct {
	name    string // Kafka's
	want    string
	atLeast bool // a number; a larger one is right too, and so is -1 (no limit)
}

// Kafka's names of settings.
const (
	retentionMS   = "retention.ms"
	timestampType = "message.timestamp.type"
	minInsync     = "min.insync.replicas"
)

// Names in a WrongSetting for properties of a topic that are no settings in Kafka.
const (
	SettingPartitions        = "partitions"
	SettingReplicationFactor = "replication.factor"
)

func specs() (all []topicSpec) {
	for _, t := range topics {
		retention := rule{name: retentionMS, want: "-1"}
		if t.Retention > 0 {
			retention = minRetention(t.Retention)
		}
		rules := []rule{retention}
		if t.TimestampType != "" {
			rules = append(rules, rule{name: timestampType, want: t.TimestampType})
		}
		all = append(all, topicSpec{t.Name, t.Keyed, append(rules,
			rule{name: "cleanup.policy", want: "delete"},
			rule{name: "retention.bytes", want: "-1"},
			rule{name: "max.message.bytes", want: strconv.Itoa(MaxMessageBytes), atLeast: true},
			// An out-of-sync replica must not become leader: acknowledged records would be lost.
			rule{name: "unclean.leader.election.enable", want: "false"},
		)})
	}
	return all
}

// minRetention requires that records are kept at least for d.
func minRetention(d time.Duration) rule {
	return rule{name: retentionMS, want: strconv.FormatInt(d.Milliseconds(), 10), atLeast: true}
}

// minInsyncFor requires two in-sync replicas if there are three or more, so that one of them may be down; else one.
func minInsyncFor(replicas int) rule {
	if replicas >= 3 {
		return rule{name: minInsync, want: "2", atLeast: true}
	}
	return rule{name: minInsync, want: "1", atLeast: true}
}

// satisfiedBy reports whether the value of a setting satisfies the rule.
func (r rule) satisfiedBy(found string) bool {
	if found == r.want {
		return true
	}
	if !r.atLeast {
		return false
	}
	n, err := strconv.ParseInt(found, 10, 64)
	want, _ := strconv.ParseInt(r.want, 10, 64) // always a number
	return err == nil && (n >= want || n == -1)
}

// describe returns what the rule requires, for people.
func (r rule) describe() string {
	if r.atLeast {
		return "at least " + r.want
	}
	return r.want
}

// TopicsReport is the result of CheckTopics.
type TopicsReport struct {
	Topics []TopicReport // in the order in which they are created
}

// TopicReport is what was found of one topic.
type TopicReport struct {
	Topic         string // with the prefix
	Missing       bool
	Partitions    int
	MinReplicas   int // the smallest number of replicas of its partitions
	WrongSettings []WrongSetting

	keyed bool
}

// WrongSetting is a setting of a topic with a value that would lose events or stop them.
type WrongSetting struct {
	Topic string // with the prefix
	Name  string // Kafka's name of the setting, or SettingPartitions or SettingReplicationFactor
	Found string
	Want  string // in words, for people
	// Fix is the value that FixSettings sets; empty if an operator has to move data for it.
	Fix string
}

func (s WrongSetting) String() string {
	return fmt.Sprintf("topic %s: %s is %s, want %s", s.Topic, s.Name, s.Found, s.Want)
}

// ErrTopicSettings means that topics exist but have wrong settings.
var ErrTopicSettings = errors.New("topics have settings that would lose events or stop them")

// errTopicsMissing means that topics do not exist yet.
var errTopicsMissing = errors.New("run `relay migrate` first: topics are missing")

// Partitions returns the number of partitions that new endpoints are spread over; 0 while no keyed topic exists.
func (a TopicsReport) Partitions() (n int32) {
	for _, t := range a.Topics {
		if t.keyed {
			n = max(n, int32(t.Partitions))
		}
	}
	return n
}

// SamePartitionCount reports whether all topics that are keyed by endpoint have the same number of partitions. The
// group assigns partition p of all of them to one node only if they have.
func (a TopicsReport) SamePartitionCount() bool {
	p := int(a.Partitions())
	return !slices.ContainsFunc(a.Topics, func(t TopicReport) bool { return t.keyed && !t.Missing && t.Partitions != p })
}

// WrongSettings returns the wrong settings of all topics.
func (a TopicsReport) WrongSettings() (all []WrongSetting) {
	for _, t := range a.Topics {
		all = append(all, t.WrongSettings...)
	}
	return all
}

// Err names every missing topic; if there is none, every wrong setting and how to correct it. nil: all is right.
func (a TopicsReport) Err() error {
	var missing []string
	for _, t := range a.Topics {
		if t.Missing {
			missing = append(missing, t.Topic)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %s", errTopicsMissing, strings.Join(missing, ", "))
	}
	wrong := a.WrongSettings()
	if len(wrong) == 0 {
		return nil
	}
	lines := make([]string, len(wrong))
	for i, s := range wrong {
		lines[i] = s.String()
	}
	advice := "`relay migrate --fix` sets them"
	if i := slices.IndexFunc(wrong, func(s WrongSetting) bool { return s.Fix == "" }); i >= 0 {
		advice = "change " + wrong[i].Name + " with Kafka's own tools (kafka-reassign-partitions, or recreate the topics); " +
			"`relay migrate --fix` sets the rest"
		if wrong[i].Name == SettingReplicationFactor {
			advice = "set RELAY_REPLICATION_FACTOR for every node too, if fewer replicas are meant; else " + advice
		}
	}
	return fmt.Errorf("%w; %s:\n%s", ErrTopicSettings, advice, strings.Join(lines, "\n"))
}

// Brokers learn of changed topics with a delay, on a busy machine of seconds. createTimeout bounds how long migrate
// waits for topics that it created, settleTimeout how long AwaitTopics waits for changes by another node.
const (
	createTimeout   = time.Minute
	settleTimeout   = 5 * time.Second
	recheckInterval = 200 * time.Millisecond
)

// CheckTopics reads the partitions, replicas and settings of every topic once. A topic with fewer replicas than
// replicationFactor has a wrong setting.
func CheckTopics(ctx context.Context, c Config, replicationFactor int) (TopicsReport, error) {
	return c.checkTopicsUntil(ctx, replicationFactor, 0, func(TopicsReport) bool { return true })
}

// AwaitTopics repeats CheckTopics until no topic is missing and holds returns true, for at most 5 s. It returns the
// last report.
func AwaitTopics(ctx context.Context, c Config, replicationFactor int, holds func(TopicsReport) bool) (
	TopicsReport, error) {
	return c.checkTopicsUntil(ctx, replicationFactor, settleTimeout, func(a TopicsReport) bool {
		return !errors.Is(a.Err(), errTopicsMissing) && holds(a)
	})
}

func (c Config) checkTopicsUntil(
	ctx context.Context, replicationFactor int, timeout time.Duration, holds func(TopicsReport) bool) (
	TopicsReport, error) {
	adm, err := c.newAdmin("audit")
	if err != nil {
		return TopicsReport{}, err
	}
	defer adm.close()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		a, err := c.checkTopics(ctx, adm, replicationFactor)
		err = explainSecurity(err)
		if err != nil || holds(a) {
			return a, err
		}
		if wait.For(limited, recheckInterval) != nil {
			return a, ctx.Err()
		}
	}
}

func (c Config) checkTopics(ctx context.Context, adm admin, replicationFactor int) (TopicsReport, error) {
	all := specs()
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = c.Prefix + s.name
	}
	found, err := adm.describe(ctx, names)
	if err != nil {
		return TopicsReport{}, err
	}
	return validateTopics(all, c.Prefix, replicationFactor, found), nil
}

// validateTopics compares the topics with their specifications. It skips settings that are not reported: the log in
// this process has only some of them.
func validateTopics(all []topicSpec, prefix string, replicationFactor int, found map[string]foundTopic) TopicsReport {
	keyed := 0
	for _, s := range all {
		if s.keyed {
			keyed = max(keyed, found[prefix+s.name].partitions)
		}
	}
	var a TopicsReport
	for _, s := range all {
		d, ok := found[prefix+s.name]
		t := TopicReport{Topic: prefix + s.name, Missing: !ok, keyed: s.keyed}
		if !ok {
			a.Topics = append(a.Topics, t)
			continue
		}
		t.Partitions, t.MinReplicas = d.partitions, d.minReplicas
		wrong := func(name, found, want, fix string) {
			t.WrongSettings = append(t.WrongSettings, WrongSetting{t.Topic, name, found, want, fix})
		}
		switch {
		case s.keyed && t.Partitions != keyed:
			wrong(SettingPartitions, strconv.Itoa(t.Partitions), strconv.Itoa(keyed)+", as many as the others",
				strconv.Itoa(keyed))
		case !s.keyed && t.Partitions != 1:
			wrong(SettingPartitions, strconv.Itoa(t.Partitions), "1", "")
		}
		if t.MinReplicas < replicationFactor {
			wrong(SettingReplicationFactor, strconv.Itoa(t.MinReplicas),
				fmt.Sprintf("at least %d (RELAY_REPLICATION_FACTOR)", replicationFactor), "")
		}
		for _, r := range append(s.rules, minInsyncFor(t.MinReplicas)) {
			value, known := d.settings[r.name]
			if known && !r.satisfiedBy(value) {
				wrong(r.name, value, r.describe(), r.want)
			}
		}
		// With more required in-sync replicas than replicas every produce request fails.
		if n, err := strconv.Atoi(d.settings[minInsync]); err == nil && n > t.MinReplicas {
			wrong(minInsync, strconv.Itoa(n), fmt.Sprintf("at most %d, its number of replicas", t.MinReplicas),
				minInsyncFor(t.MinReplicas).want)
		}
		a.Topics = append(a.Topics, t)
	}
	return a
}
