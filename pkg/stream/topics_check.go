package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/pkg/wait"
)

// Audit is what was found of the topics.
type TopicsReport struct {
	Topics []TopicReport // in the order in which they are created
}

// TopicReport is one topic.
type TopicReport struct {
	Topic         string // with the prefix
	Missing       bool
	Partitions    int
	MinReplicas   int // the least that any of its partitions has
	WrongSettings []WrongSetting

	keyed bool
}

// Setting is something about a topic that serving depends on and that is not as it must be.
type WrongSetting struct {
	Topic string // with the prefix
	Name  string // as Kafka calls it, or SettingPartitions, SettingReplicationFactor
	Found string
	Want  string // in words
	// Fix is the value that Migrate may set; empty when it takes an operator, who must move data for it.
	Fix string
}

func (s WrongSetting) String() string {
	return fmt.Sprintf("topic %s: %s is %s, want %s", s.Topic, s.Name, s.Found, s.Want)
}

// ErrTopicSettings means that topics are there but not as they must be.
var ErrTopicSettings = errors.New("topics have settings that would lose events or stop them")

// errTopicsMissing means that topics are not there, or not yet.
var errTopicsMissing = errors.New("run `relay migrate` first: topics are missing")

// Partitions is the number of partitions that new endpoints are spread over, 0 while there is no topic.
func (a TopicsReport) Partitions() (n int32) {
	for _, t := range a.Topics {
		if t.keyed {
			n = max(n, int32(t.Partitions))
		}
	}
	return n
}

// Level reports whether all topics that are keyed by endpoint have the same number of partitions: partition p
// of all of them must belong to one node.
func (a TopicsReport) SamePartitionCount() bool {
	p := int(a.Partitions())
	return !slices.ContainsFunc(a.Topics, func(t TopicReport) bool { return t.keyed && !t.Missing && t.Partitions != p })
}

// Wrong are all settings that are not as they must be.
func (a TopicsReport) WrongSettings() (all []WrongSetting) {
	for _, t := range a.Topics {
		all = append(all, t.WrongSettings...)
	}
	return all
}

// Err names every topic that is missing, or else every wrong setting and what to do about it.
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
		advice = wrong[i].Name + " takes Kafka's own tools (kafka-reassign-partitions, or topics made anew); `relay " +
			"migrate --fix` sets the rest"
	}
	return fmt.Errorf("%w; %s:\n%s", ErrTopicSettings, advice, strings.Join(lines, "\n"))
}

// A broker learns of what was changed a moment later, on a busy machine seconds: how long migrate waits for
// the topics that it made, and others for what another node may have just done.
const (
	createTimeout   = time.Minute
	settleTimeout   = 5 * time.Second
	recheckInterval = 200 * time.Millisecond
)

// CheckTopics looks at every topic. copies is the replication factor that they must have at least.
func CheckTopics(ctx context.Context, c Config, copies int) (TopicsReport, error) {
	return c.checkTopicsUntil(ctx, copies, 0, func(TopicsReport) bool { return true })
}

// AwaitTopics looks at every topic, again and again until none is missing and holds is satisfied, or a moment
// has passed.
func AwaitTopics(ctx context.Context, c Config, copies int, holds func(TopicsReport) bool) (TopicsReport, error) {
	return c.checkTopicsUntil(ctx, copies, settleTimeout, func(a TopicsReport) bool {
		return !errors.Is(a.Err(), errTopicsMissing) && holds(a)
	})
}

func (c Config) checkTopicsUntil(ctx context.Context, copies int, patience time.Duration, holds func(TopicsReport) bool) (
	TopicsReport, error) {
	cl, err := c.newClient("audit")
	if err != nil {
		return TopicsReport{}, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		a, err := c.checkTopics(ctx, adm, copies)
		err = explainLogin(err)
		if err != nil || holds(a) {
			return a, err
		}
		if wait.For(limited, recheckInterval) != nil {
			return a, ctx.Err()
		}
	}
}

func (c Config) checkTopics(ctx context.Context, adm *kadm.Client, copies int) (TopicsReport, error) {
	all := specs()
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = c.Prefix + s.name
	}
	found, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return TopicsReport{}, fmt.Errorf("list topics, which takes the right Describe on them: %w", err)
	}
	var there []string
	for _, name := range names {
		d, ok := found[name]
		switch {
		case !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			delete(found, name)
		case d.Err != nil:
			return TopicsReport{}, fmt.Errorf("look at topic %s: %w", name, d.Err)
		default:
			there = append(there, name)
		}
	}
	settings, err := describeConfigs(ctx, adm, there)
	if err != nil {
		return TopicsReport{}, err
	}
	return validateTopics(all, c.Prefix, copies, found, settings), nil
}

// describe returns the settings of the topics by topic and name, those that come from the broker's own
// settings included.
func describeConfigs(ctx context.Context, adm *kadm.Client, topics []string) (map[string]map[string]string, error) {
	described, err := adm.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("read the settings of topics, which takes the right DescribeConfigs on them: %w", err)
	}
	out := make(map[string]map[string]string, len(described))
	for _, d := range described {
		if d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			return nil, fmt.Errorf("read the settings of topic %s: %w", d.Name, d.Err)
		}
		out[d.Name] = make(map[string]string, len(d.Configs))
		for _, s := range d.Configs {
			out[d.Name][s.Key] = s.MaybeValue()
		}
	}
	return out, nil
}

// judge compares what was found with what must be. A setting that the broker does not know is not judged:
// the embedded engine has only some.
func validateTopics(all []topicSpec, prefix string, copies int, found kadm.TopicDetails,
	settings map[string]map[string]string) TopicsReport {
	keyed := 0
	for _, s := range all {
		if s.keyed {
			keyed = max(keyed, len(found[prefix+s.name].Partitions))
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
		t.Partitions, t.MinReplicas = len(d.Partitions), d.Partitions.NumReplicas()
		for _, p := range d.Partitions {
			t.MinReplicas = min(t.MinReplicas, len(p.Replicas))
		}
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
		if t.MinReplicas < copies {
			wrong(SettingReplicationFactor, strconv.Itoa(t.MinReplicas),
				fmt.Sprintf("at least %d (RELAY_REPLICATION_FACTOR)", copies), "")
		}
		for _, r := range append(s.rules, minInsyncFor(t.MinReplicas)) {
			value, known := settings[t.Topic][r.name]
			if known && !r.satisfiedBy(value) {
				wrong(r.name, value, r.describe(), r.want)
			}
		}
		// More than there are copies can never acknowledge: the topic takes nothing.
		if n, err := strconv.Atoi(settings[t.Topic][minInsync]); err == nil && n > t.MinReplicas {
			wrong(minInsync, strconv.Itoa(n), fmt.Sprintf("at most the %d copies", t.MinReplicas), minInsyncFor(t.MinReplicas).want)
		}
		a.Topics = append(a.Topics, t)
	}
	return a
}
