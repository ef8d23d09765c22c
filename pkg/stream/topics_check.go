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
