package stream

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// withTopic has one more topic in the table until the test ends. Tests that run in parallel run after those that do
// not.
func withTopic(t *testing.T, more Topic) {
	t.Helper()
	before := topics
	t.Cleanup(func() { topics = before })
	topics = append(slices.Clone(topics), more)
}

// The properties of each topic are consistent.
func TestTopicTable(t *testing.T) {
	seen := map[string]bool{}
	for _, topic := range Topics() {
		if topic.Name == "" || seen[topic.Name] {
			t.Errorf("topic %q is listed twice or has no name", topic.Name)
		}
		seen[topic.Name] = true
		read := len(topic.Readers) > 0
		if read && topic.Retention != 0 {
			t.Errorf("%s has readers and retention", topic.Name)
		}
		if !read && (topic.Guarded || topic.Fence != "" || topic.KeepRecords != 0 || topic.KeepAge != 0) {
			t.Errorf("%s has no readers, but a property for readers", topic.Name)
		}
		stored := slices.Contains(topic.Readers, StoreGroup) || slices.Contains(topic.Readers, StoreFindingsGroup)
		if topic.Fence != "" && !stored {
			t.Errorf("fence %s waits for %s, which the store does not read", topic.Fence, topic.Name)
		}
		if stored && topic.Fence == "" {
			t.Errorf("the store reads %s, and no fence waits for it", topic.Name)
		}
		if DurableTopic(topic.Name) != topic.Durable || DurableTopic("some.prefix."+topic.Name) != topic.Durable {
			t.Errorf("the log in this process does not recognise %s", topic.Name)
		}
	}
	for _, name := range []string{"nonoutcomes", "relay.outcomes.old", ""} {
		if !DurableTopic(name) {
			t.Errorf("%q, which the service does not know, is not durable", name)
		}
	}
	if tiers := Tiers(); !slices.IsSortedFunc(tiers, func(a, b Tier) int { return int(a.Delay - b.Delay) }) ||
		len(tiers) == 0 {
		t.Errorf("tiers are %v, want the shortest first", tiers)
	}
}

// A topic that is added to the table is created, checked, read, trimmed, guarded and waited for without further code.
func TestTopicIsAddedInOnePlace(t *testing.T) {
	const name, group = "more", "more"
	withTopic(t, Topic{Name: name, Keyed: true, Linger: time.Millisecond, Readers: []string{group, StoreGroup},
		Fence: name})
	if !slices.Contains(Groups(), group) || !slices.Equal(ReadBy(group), []string{name}) ||
		!slices.Contains(ReadBy(StoreGroup), name) {
		t.Errorf("groups %v; %s reads %v, the store %v", Groups(), group, ReadBy(group), ReadBy(StoreGroup))
	}
	if DurableTopic("relay." + name) {
		t.Error("the log in this process treats it as durable, contrary to the table")
	}
	if !Fence(name).Has(name) || FenceEvents.Has(name) || FenceAudit.Has(name) {
		t.Error("a fence other than its own waits for it")
	}
	onEachLog(t, 1, func(t *testing.T, c Config, p *Producer) { addedTopicWorks(t, c, p, name, group) })
}

func addedTopicWorks(t *testing.T, c Config, p *Producer, name, group string) {
	a, err := CheckTopics(t.Context(), c, 1)
	if err != nil || a.Err() != nil {
		t.Fatal(err, a.Err())
	}
	if i := slices.IndexFunc(a.Topics, func(x TopicReport) bool { return x.Topic == c.Prefix+name }); i < 0 ||
		a.Topics[i].Missing {
		t.Fatalf("it was not created, or is not checked: %+v", a.Topics)
	}
	for range 3 {
		must.Do(t, p.ProduceSync(t.Context(), name, 0, &Record{Value: []byte("x")}))
	}
	r := reader(t, c)
	commitAs(t, c, StoreGroup, name, 3)
	if done, err := r.committedByAll(t.Context()); err != nil || done[Partition{Topic: name}] != 0 {
		t.Errorf("trimming does not wait for group %s: %v, %v", group, done, err)
	}
	commitAs(t, c, group, name, 2)
	if done, err := r.committedByAll(t.Context()); err != nil || done[Partition{Topic: name}] != 2 {
		t.Errorf("both groups have committed 2 records: %v, %v", done, err)
	}

	const day = 24 * time.Hour
	g := must.Get(NewRetentionGuard(RetentionGuardDeps{
		Log: slog.New(slog.DiscardHandler), Stream: c, Metrics: prometheus.NewRegistry(), Retention: 10 * day,
		Now: func() time.Time { return time.Now().Add(20 * day) },
	}))(t)
	all, _, err := r.ExpiringBacklogs(t.Context(), g.deps.Now(), 10*day)
	if err != nil || len(all) != 1 || all[0].Topic != name || all[0].Group != group {
		t.Errorf("expiring backlogs: %v, %v", all, err)
	}
	if err := g.check(t.Context(), r); err != nil || g.Refusal() != nil {
		t.Errorf("%v; events are refused although the topic is not guarded: %v", err, g.Refusal())
	}
	topics[len(topics)-1].Guarded = true
	defer func() { topics[len(topics)-1].Guarded = false }()
	if err := g.check(t.Context(), r); err != nil || g.Refusal() == nil {
		t.Errorf("%v; events are accepted although the topic is guarded", err)
	}
}

// The hits of findings never stop events: no lag of their readers refuses one, and no read of events waits for them.
func TestFindingsStopNoEvents(t *testing.T) {
	findings := topicByName(Findings)
	if !findings.Durable || !findings.Keyed || findings.Guarded {
		t.Errorf("%+v: want a durable, keyed topic without a guard", findings)
	}
	if (ExpiringBacklog{Partition{Topic: Findings}, FindingsGroup, time.Hour, refuseShare}).RefusesEvents() {
		t.Error("events are refused because nobody reads findings")
	}
	want := []string{Events, Commands, Outcomes, Receipts}
	is.List(t, topicNames(func(t Topic) bool { return t.Fence == FenceEvents }), want, "reads of events wait for")
	for _, group := range []string{DispatchGroup, AlertGroup, StoreGroup} {
		if slices.Contains(ReadBy(group), Findings) {
			t.Errorf("group %s reads findings beside events", group)
		}
	}
}

// found is what brokers report of topics.
type found struct {
	topics   kadm.TopicDetails
	settings map[string]map[string]string
}

func asCreated(partitions, replicas int) found {
	f := found{kadm.TopicDetails{}, map[string]map[string]string{}}
	for _, s := range specs() {
		n := 1
		if s.keyed {
			n = partitions
		}
		d := kadm.TopicDetail{Topic: "r." + s.name, Partitions: kadm.PartitionDetails{}}
		for p := range n {
			d.Partitions[int32(p)] = kadm.PartitionDetail{Replicas: make([]int32, replicas)}
		}
		f.topics[d.Topic] = d
		f.settings[d.Topic] = map[string]string{}
		for _, r := range append(s.rules, minInsyncFor(replicas)) {
			f.settings[d.Topic][r.name] = r.want
		}
	}
	return f
}

// Topics as they were created are right. Every single difference is named with the topic, the value and what is
// required.
func TestValidateTopics(t *testing.T) {
	f := func(replicas int, change func(found), want ...string) {
		t.Helper()
		is := asCreated(3, replicas)
		change(is)
		a := validateTopics(specs(), "r.", min(replicas, 3), foundTopics(is.topics, is.settings))
		var got []string
		for _, s := range a.WrongSettings() {
			text := s.String()
			if s.Fix != "" {
				text += " → " + s.Fix
			}
			got = append(got, text)
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if err := a.Err(); len(want) == 0 && err != nil || len(want) > 0 && !errors.Is(err, ErrTopicSettings) {
			t.Errorf("%v", err)
		}
		if a.Partitions() != 3 {
			t.Errorf("%d partitions", a.Partitions())
		}
	}
	set := func(topic, name, value string) func(found) {
		return func(is found) { is.settings[topic][name] = value }
	}
	for _, replicas := range []int{1, 2, 3, 5} {
		f(replicas, func(found) {})
	}
	f(3, set("r.events", "retention.ms", "604800000"), "topic r.events: retention.ms is 604800000, want -1 → -1")
	f(3, set("r.control", "cleanup.policy", "compact"), "topic r.control: cleanup.policy is compact, want delete → delete")
	f(3, set("r.control", "cleanup.policy", "delete,compact"),
		"topic r.control: cleanup.policy is delete,compact, want delete → delete")
	f(3, set("r.outcomes", "retention.bytes", "1000"), "topic r.outcomes: retention.bytes is 1000, want -1 → -1")
	f(3, set("r.retry.1h", "max.message.bytes", "1048588"), "topic r.retry.1h: max.message.bytes is 1048588, want at "+
		"least 12582912 → 12582912")
	f(3, set("r.retry.1h", "max.message.bytes", "20000000"))
	f(3, set("r.events", "message.timestamp.type", "LogAppendTime"),
		"topic r.events: message.timestamp.type is LogAppendTime, want CreateTime → CreateTime")
	f(3, set("r.retry.5s", "message.timestamp.type", "CreateTime"),
		"topic r.retry.5s: message.timestamp.type is CreateTime, want LogAppendTime → LogAppendTime")
	f(3, set("r.commands", "unclean.leader.election.enable", "true"),
		"topic r.commands: unclean.leader.election.enable is true, want false → false")
	f(3, set("r.events", "min.insync.replicas", "1"), "topic r.events: min.insync.replicas is 1, want at least 2 → 2")
	f(3, set("r.events", "min.insync.replicas", "3"))
	f(3, set("r.events", "min.insync.replicas", "4"), "topic r.events: min.insync.replicas is 4, want at most 3, "+
		"its number of replicas → 2")
	f(1, set("r.events", "min.insync.replicas", "2"), "topic r.events: min.insync.replicas is 2, want at most 1, "+
		"its number of replicas → 1")
	f(3, set("r.dead", "retention.ms", "86400000"), "topic r.dead: retention.ms is 86400000, want at least 2592000000 "+
		"→ 2592000000")
	f(3, set("r.dead", "retention.ms", "-1"))
	f(3, set("r.events", "max.message.bytes", "much"), "topic r.events: max.message.bytes is much, want at least "+
		"12582912 → 12582912")
	// the broker does not know it
	f(3, func(is found) { delete(is.settings["r.events"], "unclean.leader.election.enable") })
	f(3, func(is found) { delete(is.topics["r.outcomes"].Partitions, 2) },
		"topic r.outcomes: partitions is 2, want 3, as many as the others → 3")
	f(3, func(is found) { is.topics["r.nodes"].Partitions[1] = is.topics["r.nodes"].Partitions[0] },
		"topic r.nodes: partitions is 2, want 1")
	f(3, func(is found) { is.topics["r.events"].Partitions[1] = kadm.PartitionDetail{Replicas: make([]int32, 2)} },
		"topic r.events: replication.factor is 2, want at least 3 (RELAY_REPLICATION_FACTOR)")
}

// Who has one broker has set the factor for relay migrate, and forgets it for a node.
func TestFewReplicasLeadToTheSetting(t *testing.T) {
	is := asCreated(3, 1)
	err := validateTopics(specs(), "r.", 3, foundTopics(is.topics, is.settings)).Err()
	if err == nil || !strings.Contains(err.Error(), "set RELAY_REPLICATION_FACTOR for every node too") {
		t.Error(err)
	}
}

func TestMissingTopicsAreReportedFirst(t *testing.T) {
	is := asCreated(3, 1)
	delete(is.topics, "r.retry.1h")
	delete(is.topics, "r.events")
	is.settings["r.control"]["retention.ms"] = "1"
	err := validateTopics(specs(), "r.", 1, foundTopics(is.topics, is.settings)).Err()
	if err == nil || err.Error() != "run `relay migrate` first: topics are missing: r.events, r.retry.1h" {
		t.Errorf("%v", err)
	}
}

// fixWrongSettings makes the settings of topics wrong on a broker and fixes them: those that can be set, and only
// those.
func fixWrongSettings(t *testing.T, c Config, alter map[string]map[string]string) {
	t.Helper()
	ctx := t.Context()
	must.Get(Migrate(ctx, c, 2, 1))(t)
	always := func(TopicsReport) bool { return true }
	a, err := AwaitTopics(ctx, c, 1, always)
	if err != nil || a.Err() != nil {
		t.Fatal(err, a.Err())
	}
	cl := must.Get(c.newClient("test"))(t)
	defer cl.Close()
	adm, n := kadm.NewClient(cl), 0
	for topic, settings := range alter {
		for name, value := range settings {
			n++
			resp, err := adm.AlterTopicConfigs(
				ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, c.Prefix+topic)
			for _, r := range resp {
				err = errors.Join(err, r.Err)
			}
			must.Do(t, err)
		}
	}
	a, err = AwaitTopics(ctx, c, 1, func(a TopicsReport) bool { return len(a.WrongSettings()) == n })
	if err != nil || len(a.WrongSettings()) != n || !errors.Is(a.Err(), ErrTopicSettings) {
		t.Fatalf("%v, wrong are %v, want %d", err, a.WrongSettings(), n)
	}
	// A missing replica cannot be added by a setting.
	more, err := CheckTopics(ctx, c, 2)
	if err != nil || len(more.WrongSettings()) != n+len(more.Topics) {
		t.Fatalf("%v, wrong are %v", err, more.WrongSettings())
	}
	must.Do(t, FixSettings(ctx, c, more.WrongSettings()))
	if a, err = AwaitTopics(ctx, c, 1, func(a TopicsReport) bool { return a.Err() == nil }); err != nil || a.Err() != nil {
		t.Fatal(err, a.Err())
	}
	// One topic has more partitions, as after an interrupted increase.
	resp, err := adm.UpdatePartitions(ctx, 3, c.Prefix+Commands)
	if err == nil {
		err = resp.Error()
	}
	must.Do(t, err)
	if a, err = AwaitTopics(ctx, c, 1, func(a TopicsReport) bool { return a.Partitions() == 3 }); err != nil ||
		a.SamePartitionCount() ||
		a.Err() == nil {
		t.Fatal(err, a)
	}
	grown, err := AddPartitions(ctx, c, a, 3)
	if err != nil || len(grown) != 5+len(Tiers()) {
		t.Fatalf("%v, partitions were added to %v", err, grown)
	}
	if a, err = AwaitTopics(ctx, c, 1, TopicsReport.SamePartitionCount); err != nil || !a.SamePartitionCount() ||
		a.Err() != nil || a.Partitions() != 3 {
		t.Fatal(err, a.Err(), a)
	}
	if grown, err = AddPartitions(ctx, c, a, 3); err != nil || len(grown) != 0 {
		t.Fatalf("%v, partitions were added again to %v", err, grown)
	}
	if _, err = AddPartitions(ctx, c, a, 2); !errors.Is(err, ErrFewerPartitions) ||
		!strings.Contains(err.Error(), "topic "+c.Prefix+"events: partitions is 3, want 2") {
		t.Fatal(err)
	}
}

func TestWrongSettingsAreFixed(t *testing.T) {
	_, c, _ := broker(t)
	c.Prefix = "mended."
	fixWrongSettings(t, c, map[string]map[string]string{
		Events:  {"retention.ms": "1000", "cleanup.policy": "compact", "max.message.bytes": "100"},
		Control: {"retention.bytes": "1"},
		Nodes:   {"message.timestamp.type": "CreateTime"},
	})
}

// Topics that may not be described are an error, never right.
func TestCheckTopicsWithoutPermission(t *testing.T) {
	cluster, c, _ := broker(t)
	cluster.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, r := range req.(*kmsg.DescribeConfigsRequest).Resources {
			denied := kmsg.NewDescribeConfigsResponseResource()
			denied.ResourceType, denied.ResourceName, denied.ErrorCode = r.ResourceType, r.ResourceName,
				kerr.TopicAuthorizationFailed.Code
			resp.Resources = append(resp.Resources, denied)
		}
		return resp, nil, true
	})
	if _, err := CheckTopics(t.Context(), c, 1); !errors.Is(err, kerr.TopicAuthorizationFailed) ||
		!strings.Contains(err.Error(), "operation DescribeConfigs") {
		t.Error(err)
	}
	cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		denied := kmsg.NewMetadataResponseTopic()
		denied.Topic, denied.ErrorCode = kmsg.StringPtr("t."+Events), kerr.TopicAuthorizationFailed.Code
		resp.Topics = append(resp.Topics, denied)
		return resp, nil, true
	})
	if _, err := CheckTopics(t.Context(), c, 1); !errors.Is(err, kerr.TopicAuthorizationFailed) ||
		!strings.Contains(err.Error(), "operation Describe on") {
		t.Error(err)
	}
}

func TestMoreReplicasThanBrokers(t *testing.T) {
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	defer cluster.Close()
	if _, err := Migrate(t.Context(), Config{Brokers: cluster.ListenAddrs()}, 1, 3); err == nil ||
		!strings.Contains(err.Error(), "fewer brokers than RELAY_REPLICATION_FACTOR (3)") {
		t.Error(err)
	}
}
