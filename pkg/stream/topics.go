package stream

import (
	"slices"
	"strconv"
	"strings"
	"time"
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
	AuditLog         = "audit"
)

// Consumer groups that do something with every record of the topics that they read, without the prefix. What one of
// them has committed says what it has still to do.
const (
	DispatchGroup = "dispatch" // delivers
	StoreGroup    = "store"    // copies the log into the store
	AlertGroup    = "alerts"   // evaluates the rules of alerts
)

// Fence names topics that a read of the store waits for together, so that it finds what was acknowledged before.
type Fence string

// The fences. A topic of a fence is read by StoreGroup.
const (
	FenceEvents Fence = "events" // lists and details of events
	FenceAudit  Fence = "audit"  // the audit log
)

// Topic is everything that the service relies on of one topic.
type Topic struct {
	Name string // without the prefix
	// Keyed topics have the number of partitions that the service was set up with; the others have one.
	Keyed bool
	// Durable: the embedded broker acknowledges a record when it is on disk. Records of the other topics can be made again
	// from those of durable ones until the offset that they belong to is committed: they are on disk before that.
	Durable bool
	// Authenticated: its records carry a MAC, and those without a valid one count for nothing.
	Authenticated bool
	// Linger is how long the producer lets records of the topic gather.
	Linger time.Duration
	// Times says who sets the time of a record: createTime, appendTime, or "" where it does not matter.
	TimestampType string
	// Retention is how long a topic without readers keeps a record at least; 0: until whoever writes it deletes it. A
	// topic that has readers is trimmed by what all of them have committed, and never by time: a store that is away loses
	// nothing.
	Retention time.Duration
	// Readers are the groups that read it.
	Readers []string
	// KeepRecords is how many records of a partition trimming leaves at least, KeepAge the age that done records reach at
	// most, whatever is set for the other topics; 0: no such bound.
	KeepRecords int64
	KeepAge     time.Duration
	// Fence is the one that waits for it, Guard whether new events are answered 503 while a reader leaves its records for
	// so long that they will be lost by their age.
	Fence   Fence
	Guarded bool
	// Delay is how long every record of a retry topic waits; 0: it is none.
	Delay time.Duration
}

// Values of Topic.Times, as Kafka calls them.
const (
	createTime = "CreateTime"
	appendTime = "LogAppendTime"
)

// topics is the one list of topics and of what is so of each. From it come the subscriptions of groups, what relay
// migrate creates and what migrate, serve and doctor check, durability in the embedded broker, the fences of the store,
// the guard of ingest, trimming, and which dead letters can be retried.
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
	// The outbox of the configuration log forgets an entry when this topic has acknowledged it.
	{Name: AuditLog, Durable: true, Readers: []string{StoreGroup}, Fence: FenceAudit, Guarded: true},
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

// Topics returns what is so of every topic.
func Topics() []Topic { return slices.Clone(topics) }

// topicByName is the zero Topic when there is none of the name.
func topicByName(name string) Topic {
	for i := range topics {
		if topics[i].Name == name {
			return topics[i]
		}
	}
	return Topic{}
}

// named returns the names of the topics that fit.
func topicNames(fits func(Topic) bool) (names []string) {
	for _, t := range topics {
		if fits(t) {
			names = append(names, t.Name)
		}
	}
	return names
}

// Groups returns the consumer groups. What one of them has not done is never deleted.
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

// ReadBy returns the topics that a group reads. Groups subscribe by it, and trimming waits for them by it.
func ReadBy(group string) []string {
	names := topicNames(func(t Topic) bool { return slices.Contains(t.Readers, group) })
	if len(names) == 0 {
		panic("BUG: no group " + group)
	}
	return names
}

// ReadTopics returns the topics that any group reads: those that are trimmed, and whose records can become dead
// letters.
func ReadTopics() []string { return topicNames(func(t Topic) bool { return len(t.Readers) > 0 }) }

// AuthenticatedTopics returns the topics whose records carry a MAC.
func AuthenticatedTopics() []string { return topicNames(func(t Topic) bool { return t.Authenticated }) }

// Has reports whether the fence waits for a topic.
func (f Fence) Has(topic string) bool { return topicByName(topic).Fence == f }

// DurableTopic reports whether a topic, with any prefix, is one whose records the embedded broker acknowledges when
// they are on disk. So is every one that the service does not know.
func DurableTopic(name string) bool {
	for _, t := range topics {
		if prefix, ok := strings.CutSuffix(name, t.Name); ok && (prefix == "" || strings.HasSuffix(prefix, ".")) {
			return t.Durable
		}
	}
	return true
}

// Tier is a retry topic. A record stays in it until it is due, Delay at most: the order in which they arrive is not
// that in which they are due.
type Tier struct {
	Topic string
	Delay time.Duration
}

// Tiers are the retry topics, shortest first. A longer wait is several hops of the last.
func Tiers() (tiers []Tier) {
	for _, t := range topics {
		if t.Delay > 0 {
			tiers = append(tiers, Tier{t.Name, t.Delay})
		}
	}
	return tiers
}

// IsTier reports whether a topic is one of Tiers.
func IsTier(topic string) bool { return topicByName(topic).Delay > 0 }

// topicSpec is one topic as it is created, and judged afterwards.
type topicSpec struct {
	name  string
	keyed bool
	rules []rule
}

// rule is a setting of a topic that serving depends on.
type rule struct {
	name    string // as Kafka calls it
	want    string
	atLeast bool // of a number: more is right as well, and so is -1, no limit
}

// Settings of Kafka that rules speak of in more than one place.
const (
	retentionMS   = "retention.ms"
	timestampType = "message.timestamp.type"
	minInsync     = "min.insync.replicas"
)

// Names by which a Setting calls what Kafka keeps beside the settings of a topic.
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
			// A replica that was behind must not become the leader: what the others acknowledged would be gone.
			rule{name: "unclean.leader.election.enable", want: "false"},
		)})
	}
	return all
}

func minRetention(d time.Duration) rule {
	return rule{name: retentionMS, want: strconv.FormatInt(d.Milliseconds(), 10), atLeast: true}
}

// minInsyncFor is how many copies acknowledge a write: two where one of three may be away.
func minInsyncFor(copies int) rule {
	if copies >= 3 {
		return rule{name: minInsync, want: "2", atLeast: true}
	}
	return rule{name: minInsync, want: "1", atLeast: true}
}

// right reports whether the value of a setting is what the rule wants.
func (r rule) satisfiedBy(found string) bool {
	if found == r.want {
		return true
	}
	if !r.atLeast {
		return false
	}
	n, err := strconv.ParseInt(found, 10, 64)
	want, _ := strconv.ParseInt(r.want, 10, 64) // ours
	return err == nil && (n >= want || n == -1)
}

// text is what the rule wants in words.
func (r rule) describe() string {
	if r.atLeast {
		return "at least " + r.want
	}
	return r.want
}
