package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
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
