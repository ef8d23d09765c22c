package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Migrate creates the topics that do not exist, waits up to a minute until the brokers know them and returns the names
// of those it created. It changes no existing topic. With a replication factor of 3 or more it sets min.insync.replicas
// to 2.
func Migrate(ctx context.Context, c Config, partitions int32, replicationFactor int16) ([]string, error) {
	cl, err := c.newClient("migrate")
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	var created []string
	for _, s := range specs() {
		config := make(map[string]*string, len(s.rules)+1)
		for _, r := range append(s.rules, minInsyncFor(int(replicationFactor))) {
			config[r.name] = &r.want
		}
		n := int32(1)
		if s.keyed {
			n = partitions
		}
		_, err := adm.CreateTopic(ctx, n, replicationFactor, config, c.Prefix+s.name)
		switch {
		case errors.Is(err, kerr.TopicAlreadyExists):
		case errors.Is(err, kerr.InvalidReplicationFactor):
			return created, fmt.Errorf(
				"create topic %s: the cluster has fewer brokers than RELAY_REPLICATION_FACTOR (%d); start more or lower it: %w",
				c.Prefix+s.name,
				replicationFactor, err)
		case err != nil:
			return created, fmt.Errorf("create topic %s: %w", c.Prefix+s.name, err)
		default:
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
	cl, err := c.newClient("migrate")
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	// One request for all topics: the next rebalance assigns partition p of all of them to one node.
	resp, err := kadm.NewClient(cl).UpdatePartitions(ctx, int(partitions), fewer...)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("add partitions: %w", err)
	}
	return fewer, nil
}

// FixSettings sets the wrong settings that have a Fix, and skips the others.
func FixSettings(ctx context.Context, c Config, wrong []WrongSetting) error {
	cl, err := c.newClient("migrate")
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
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

func fixTopic(ctx context.Context, adm *kadm.Client, topic string, wrong []WrongSetting) error {
	var alter []kadm.AlterConfig
	for _, s := range wrong {
		switch {
		case s.Fix == "":
		case s.Name == SettingPartitions:
			n, err := strconv.Atoi(s.Fix)
			if err != nil {
				return fmt.Errorf("read partitions of %s: %w", topic, err)
			}
			resp, err := adm.UpdatePartitions(ctx, n, topic)
			if err == nil {
				err = resp.Error()
			}
			if err != nil {
				return fmt.Errorf("add partitions to topic %s: %w", topic, err)
			}
		default:
			alter = append(alter, kadm.AlterConfig{Op: kadm.SetConfig, Name: s.Name, Value: &s.Fix})
		}
	}
	if len(alter) == 0 {
		return nil
	}
	resp, err := adm.AlterTopicConfigs(ctx, alter, topic)
	for _, r := range resp {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		return fmt.Errorf("set the settings of topic %s: %w", topic, err)
	}
	return nil
}
