package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

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
