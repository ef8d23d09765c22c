package stream

import (
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

// DispatchGroup is the consumer group that delivers, without the prefix. What it has committed says what is
// still to be done.
const DispatchGroup = "dispatch"

// StoreGroup is the consumer group that copies the log into the store, without the prefix.
const StoreGroup = "store"

// AlertGroup is the consumer group that judges what alerts are about, without the prefix.
const AlertGroup = "alerts"

// Groups returns the consumer groups that do something with every record of the topics that they read. What one of
// them has not done is never deleted.
func Groups() []string { return []string{DispatchGroup, StoreGroup, AlertGroup} }

// ReadBy returns the topics that a group reads. Groups subscribe by it, and trimming waits for them by it.
func ReadBy(group string) []string {
	switch group {
	case DispatchGroup:
		topics := []string{Events, Commands}
		for _, t := range Tiers() {
			topics = append(topics, t.Topic)
		}
		return topics
	case StoreGroup:
		return []string{Events, Commands, Outcomes, Receipts, AuditLog}
	case AlertGroup:
		return []string{Outcomes, Events}
	}
	panic("BUG: no group " + group)
}

// Tier is a retry topic: every record in it waits the same time, so its order of arrival is its
// order of falling due.
type Tier struct {
	Topic string
	Delay time.Duration
}

// Tiers are the retry topics, shortest first. A longer wait is several hops of the last.
func Tiers() []Tier {
	return []Tier{
		{"retry.1s", time.Second}, {"retry.2s", 2 * time.Second}, {"retry.5s", 5 * time.Second},
		{"retry.10s", 10 * time.Second}, {"retry.30s", 30 * time.Second}, {"retry.1m", time.Minute},
		{"retry.2m", 2 * time.Minute}, {"retry.5m", 5 * time.Minute}, {"retry.10m", 10 * time.Minute},
		{"retry.30m", 30 * time.Minute}, {"retry.1h", time.Hour},
	}
}

// isTier reports whether the topic is one of Tiers.
func isTier(topic string) bool { return strings.HasPrefix(topic, "retry.") }

// topicSpec is one topic as it is created, and judged afterwards.
type topicSpec struct {
	name  string
	keyed bool // by endpoint: it has as many partitions as all that are; else it has one
	rules []rule
}

// rule is a setting of a topic that serving depends on.
type rule struct {
	name  string // as Kafka calls it
	want  string
	least bool // of a number: more is right as well, and so is -1, no limit
}

// Settings of Kafka that rules speak of in more than one place.
const (
	retentionMS   = "retention.ms"
	timestampType = "message.timestamp.type"
	minInsync     = "min.insync.replicas"
)

// Names by which a Setting calls what Kafka keeps beside the settings of a topic.
const (
	SettingPartitions = "partitions"
	SettingCopies     = "replication.factor"
)

func specs() []topicSpec {
	createTime, appendTime := rule{name: timestampType, want: "CreateTime"}, rule{name: timestampType, want: "LogAppendTime"}
	for30d, for1h := keptFor(30*24*time.Hour), keptFor(time.Hour)
	// The rest is trimmed by committed offsets, never by time: a store that is away for long loses nothing.
	forEver := rule{name: retentionMS, want: "-1"}
	topic := func(name string, keyed bool, more ...rule) topicSpec {
		return topicSpec{name, keyed, append(more,
			rule{name: "cleanup.policy", want: "delete"},
			rule{name: "retention.bytes", want: "-1"},
			rule{name: "max.message.bytes", want: strconv.Itoa(MaxMessageBytes), least: true},
			// A replica that was behind must not become the leader: what the others acknowledged would be gone.
			rule{name: "unclean.leader.election.enable", want: "false"},
		)}
	}
	all := []topicSpec{
		topic(Events, true, forEver, createTime),
		topic(Commands, true, forEver),
		topic(Outcomes, true, forEver),
		topic(Receipts, true, forEver),
		topic(Dead, true, for30d),
		topic(Control, false, forEver),
		topic(ControlSnapshots, false, forEver),
		topic(Nodes, false, for1h, appendTime),
		topic(AuditLog, false, forEver),
	}
	for _, t := range Tiers() {
		all = append(all, topic(t.Topic, true, forEver, appendTime))
	}
	return all
}

func keptFor(d time.Duration) rule {
	return rule{name: retentionMS, want: strconv.FormatInt(d.Milliseconds(), 10), least: true}
}

// insyncFor is how many copies acknowledge a write: two where one of three may be away.
func insyncFor(copies int) rule {
	if copies >= 3 {
		return rule{name: minInsync, want: "2", least: true}
	}
	return rule{name: minInsync, want: "1", least: true}
}

// right reports whether the value of a setting is what the rule wants.
func (r rule) right(found string) bool {
	if found == r.want {
		return true
	}
	if !r.least {
		return false
	}
	n, err := strconv.ParseInt(found, 10, 64)
	want, _ := strconv.ParseInt(r.want, 10, 64) // ours
	return err == nil && (n >= want || n == -1)
}

// text is what the rule wants in words.
func (r rule) text() string {
	if r.least {
		return "at least " + r.want
	}
	return r.want
}
