package stream

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
