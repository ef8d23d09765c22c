package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// admin manages topics, which are named with the prefix. It is what the log in this process and Kafka do differently.
type admin interface {
	// create creates a topic unless it exists.
	create(ctx context.Context, topic string, rules []rule, partitions int32, replicas int16) (isNew bool, err error)
	addPartitions(ctx context.Context, partitions int32, topics ...string) error
	// describe returns those of the topics that exist. It may omit settings.
	describe(ctx context.Context, topics []string) (map[string]foundTopic, error)
	set(ctx context.Context, topic string, settings map[string]string) error
	close()
}

// foundTopic is what was found of a topic.
type foundTopic struct {
	partitions  int
	minReplicas int // the smallest number of replicas of its partitions
	settings    map[string]string
}

func (c Config) newAdmin(clientID string) (admin, error) {
	if c.Embedded != nil {
		return localAdmin{c.Embedded}, nil
	}
	cl, err := c.newClient(clientID)
	if err != nil {
		return nil, err
	}
	return kafkaAdmin{cl, kadm.NewClient(cl)}, nil
}

// Migrate creates the topics that do not exist, waits up to a minute until the brokers know them and returns the names
// of those it created. It changes no existing topic. With a replication factor of 3 or more it sets min.insync.replicas
// to 2.
func Migrate(ctx context.Context, c Config, partitions int32, replicationFactor int16) ([]string, error) {
	adm, err := c.newAdmin("migrate")
	if err != nil {
		return nil, err
	}
	defer adm.close()
	var created []string
	for _, s := range specs() {
		n := int32(1)
		if s.keyed {
			n = partitions
		}
		isNew, err := adm.create(ctx, c.Prefix+s.name, s.rules, n, replicationFactor)
		if err != nil {
			return created, fmt.Errorf("create topic %s: %w", c.Prefix+s.name, err)
		}
		if isNew {
			created = append(created, c.Prefix+s.name)
		}
	}
	a, err := c.checkTopicsUntil(ctx, 0, createTimeout, func(a TopicsReport) bool {
		return !errors.Is(a.Err(), errTopicsMissing)
	})
	if err == nil && errors.Is(a.Err(), errTopicsMissing) {
		err = a.Err()
	}
	return created, err
}

// ErrFewerPartitions means that a topic has more partitions than RELAY_PARTITIONS says: Kafka cannot remove
// partitions, and endpoints are assigned to them.
var ErrFewerPartitions = errors.New("partitions cannot be removed")

// AddPartitions raises the number of partitions of all topics that are keyed by endpoint, and returns the
// names of those that had fewer. Existing endpoints keep their partitions; only endpoints that are created later, by
// nodes that are started later, use the new ones.
func AddPartitions(ctx context.Context, c Config, a TopicsReport, partitions int32) ([]string, error) {
	var fewer []string
	for _, t := range a.Topics {
		switch {
		case !t.keyed || t.Missing || t.Partitions == int(partitions):
		case t.Partitions > int(partitions):
			return nil, fmt.Errorf("topic %s: partitions is %d, want %d: %w; leave RELAY_PARTITIONS at %d or more", t.Topic,
				t.Partitions, partitions, ErrFewerPartitions, t.Partitions)
		default:
			fewer = append(fewer, t.Topic)
		}
	}
	if len(fewer) == 0 {
		return nil, nil
	}
	adm, err := c.newAdmin("migrate")
	if err != nil {
		return nil, err
	}
	defer adm.close()
	// One request for all topics: the next rebalance assigns partition p of all of them to one node.
	if err := adm.addPartitions(ctx, partitions, fewer...); err != nil {
		return nil, fmt.Errorf("add partitions: %w", err)
	}
	return fewer, nil
}

// FixSettings sets the wrong settings that have a Fix, and skips the others.
func FixSettings(ctx context.Context, c Config, wrong []WrongSetting) error {
	adm, err := c.newAdmin("migrate")
	if err != nil {
		return err
	}
	defer adm.close()
	for len(wrong) > 0 {
		topic := wrong[0].Topic
		next := slices.IndexFunc(wrong, func(s WrongSetting) bool { return s.Topic != topic })
		if next < 0 {
			next = len(wrong)
		}
		if err := fixTopic(ctx, adm, topic, wrong[:next]); err != nil {
			return err
		}
		wrong = wrong[next:]
	}
	return nil
}

func fixTopic(ctx context.Context, adm admin, topic string, wrong []WrongSetting) error {
	settings := make(map[string]string)
	for _, s := range wrong {
		switch {
		case s.Fix == "":
		case s.Name == SettingPartitions:
			n, err := strconv.ParseInt(s.Fix, 10, 32)
			if err != nil {
				return fmt.Errorf("read partitions of %s: %w", topic, err)
			}
			if err := adm.addPartitions(ctx, int32(n), topic); err != nil {
				return fmt.Errorf("add partitions to topic %s: %w", topic, err)
			}
		default:
			settings[s.Name] = s.Fix
		}
	}
	if len(settings) == 0 {
		return nil
	}
	if err := adm.set(ctx, topic, settings); err != nil {
		return fmt.Errorf("set the settings of topic %s: %w", topic, err)
	}
	return nil
}

// kafkaAdmin manages topics of Kafka.
type kafkaAdmin struct {
	cl  *kgo.Client
	adm *kadm.Client
}

func (a kafkaAdmin) close() { a.cl.Close() }

func (a kafkaAdmin) create(ctx context.Context, topic string, rules []rule, partitions int32, replicas int16) (
	isNew bool, err error) {
	config := make(map[string]*string, len(rules)+1)
	for _, r := range append(rules, minInsyncFor(int(replicas))) {
		config[r.name] = &r.want
	}
	_, err = a.adm.CreateTopic(ctx, partitions, replicas, config, topic)
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists):
		return false, nil
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return false, fmt.Errorf("the cluster has fewer brokers than RELAY_REPLICATION_FACTOR (%d); start more or lower "+
			"it: %w", replicas, err)
	}
	return err == nil, err
}

func (a kafkaAdmin) addPartitions(ctx context.Context, partitions int32, topics ...string) error {
	resp, err := a.adm.UpdatePartitions(ctx, int(partitions), topics...)
	if err == nil {
		err = resp.Error()
	}
	return err
}

func (a kafkaAdmin) set(ctx context.Context, topic string, settings map[string]string) error {
	var alter []kadm.AlterConfig
	for name, value := range settings {
		alter = append(alter, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	resp, err := a.adm.AlterTopicConfigs(ctx, alter, topic)
	for _, r := range resp {
		err = errors.Join(err, r.Err)
	}
	return err
}

func (a kafkaAdmin) describe(ctx context.Context, topics []string) (map[string]foundTopic, error) {
	listed, err := a.adm.ListTopics(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list topics (needs the ACL operation Describe on them): %w", err)
	}
	var existing []string
	for _, name := range topics {
		d, ok := listed[name]
		switch {
		case !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			delete(listed, name)
		case d.Err != nil:
			return nil, fmt.Errorf("describe topic %s: %w", name, d.Err)
		default:
			existing = append(existing, name)
		}
	}
	settings, err := describeConfigs(ctx, a.adm, existing)
	if err != nil {
		return nil, err
	}
	return foundTopics(listed, settings), nil
}

func foundTopics(listed kadm.TopicDetails, settings map[string]map[string]string) map[string]foundTopic {
	found := make(map[string]foundTopic)
	for name, d := range listed {
		replicas := d.Partitions.NumReplicas()
		for _, p := range d.Partitions {
			replicas = min(replicas, len(p.Replicas))
		}
		found[name] = foundTopic{len(d.Partitions), replicas, settings[name]}
	}
	return found
}

// describeConfigs returns the settings by topic and name, including values that a topic inherits from the brokers.
func describeConfigs(ctx context.Context, adm *kadm.Client, topics []string) (map[string]map[string]string, error) {
	described, err := adm.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("read the settings of topics (needs the ACL operation DescribeConfigs on them): %w", err)
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
