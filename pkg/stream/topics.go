package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
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
)

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

// unknown stands for the number of partitions of the topics that are keyed by endpoint.
const unknown = 0

// topicSpec is one topic as `relay migrate` creates it.
type topicSpec struct {
	name       string
	partitions int32
	config     map[string]string
}

func (c Config) specs(partitions int32) []topicSpec {
	base := map[string]string{
		"cleanup.policy":    "delete",
		"retention.ms":      "-1", // trimmed by committed offsets, never by time
		"retention.bytes":   "-1",
		"max.message.bytes": strconv.Itoa(MaxMessageBytes),
	}
	with := func(pairs ...string) map[string]string {
		m := make(map[string]string, len(base)+1)
		for k, v := range base {
			m[k] = v
		}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	specs := []topicSpec{
		{Events, partitions, with("message.timestamp.type", "CreateTime")},
		{Commands, partitions, with()},
		{Outcomes, partitions, with()},
		{Receipts, partitions, with()},
		{Dead, partitions, with("retention.ms", strconv.FormatInt((30*24*time.Hour).Milliseconds(), 10))},
		{Control, 1, with()},
		{ControlSnapshots, 1, with()},
		{Nodes, 1, with("retention.ms", strconv.FormatInt(time.Hour.Milliseconds(), 10), "message.timestamp.type", "LogAppendTime")},
	}
	for _, t := range Tiers() {
		specs = append(specs, topicSpec{t.Topic, partitions, with("message.timestamp.type", "LogAppendTime")})
	}
	return specs
}

// A broker learns of new topics a moment after they were created, on a busy machine seconds: how long
// migrate waits for its own, and a start for those that another broker may have just created.
const (
	createdWait = time.Minute
	missingWait = 5 * time.Second
	lookEvery   = 200 * time.Millisecond
)

// Migrate creates the topics that do not exist yet, waits until they can be used and returns the names
// of those it created. It changes none that exist. With a replication factor of 3 or more, two copies
// acknowledge a write.
func Migrate(ctx context.Context, c Config, partitions int32, replicationFactor int16) ([]string, error) {
	cl, err := c.newClient("migrate")
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	var created []string
	for _, s := range c.specs(partitions) {
		config := make(map[string]*string, len(s.config)+1)
		for k, v := range s.config {
			config[k] = &v
		}
		if replicationFactor >= 3 {
			config["min.insync.replicas"] = kadm.StringPtr("2")
		}
		_, err := adm.CreateTopic(ctx, s.partitions, replicationFactor, config, c.Prefix+s.name)
		switch {
		case errors.Is(err, kerr.TopicAlreadyExists):
		case err != nil:
			return created, fmt.Errorf("create topic %s: %w", c.Prefix+s.name, err)
		default:
			created = append(created, c.Prefix+s.name)
		}
	}
	_, err = c.countPartitions(ctx, adm, createdWait)
	return created, err
}

// Partitions returns the number of partitions that the topics have: the P that new endpoints are
// spread over. It is an error when a topic is missing, or has another number than the others that are
// keyed by endpoint: partition p of all of them must belong to one node.
func Partitions(ctx context.Context, c Config) (int32, error) {
	cl, err := c.newClient("partitions")
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	return c.countPartitions(ctx, kadm.NewClient(cl), missingWait)
}

// countPartitions looks again for topics that are missing until the time is over.
func (c Config) countPartitions(ctx context.Context, adm *kadm.Client, patience time.Duration) (int32, error) {
	specs := c.specs(unknown)
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = c.Prefix + s.name
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		found, err := adm.ListTopics(ctx, names...)
		if err != nil {
			return 0, fmt.Errorf("list topics: %w", err)
		}
		n, err := judgePartitions(specs, c.Prefix, found)
		if !errors.Is(err, errMissing) {
			return n, err
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return 0, err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// errMissing means that topics are not there, or not yet.
var errMissing = errors.New("run `relay migrate` first: topics are missing")

// judgePartitions judges what was found of the topics; the specs were made for unknown.
func judgePartitions(specs []topicSpec, prefix string, found kadm.TopicDetails) (int32, error) {
	var missing []string
	for _, s := range specs {
		d, ok := found[prefix+s.name]
		switch {
		case !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			missing = append(missing, prefix+s.name)
		case d.Err != nil:
			return 0, fmt.Errorf("look at topic %s: %w", prefix+s.name, d.Err)
		}
	}
	if len(missing) > 0 {
		return 0, fmt.Errorf("%w: %s", errMissing, strings.Join(missing, ", "))
	}
	want := len(found[prefix+Events].Partitions)
	for _, s := range specs {
		if n := len(found[prefix+s.name].Partitions); s.partitions == unknown && n != want {
			return 0, fmt.Errorf("topic %s has %d partitions and %s has %d: they must have the same number", prefix+s.name, n, prefix+Events, want)
		}
	}
	return int32(want), nil
}

func (c Config) newClient(clientID string, more ...kgo.Opt) (*kgo.Client, error) {
	opts, err := c.options(clientID)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w", err)
	}
	return cl, nil
}
