package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/pkg/certfile"
)

func (r *kafkaReader) TopicID(ctx context.Context, topic string) (cluster, id string, err error) {
	m, err := r.adm.Metadata(ctx, r.cfg.Prefix+topic)
	if err != nil {
		return "", "", fmt.Errorf("read the id of topic %s: %w", topic, err)
	}
	t := m.Topics[r.cfg.Prefix+topic]
	if t.Err != nil {
		return "", "", fmt.Errorf("read the id of topic %s: %w", topic, t.Err)
	}
	if t.ID != (kadm.TopicID{}) {
		id = t.ID.String()
	}
	return m.Cluster, id, nil
}

func (r *kafkaReader) MemberCount(ctx context.Context, group string) (int, error) {
	described, err := r.adm.DescribeGroups(ctx, r.cfg.Prefix+group)
	if err == nil {
		err = described.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("describe group %s: %w", group, err)
	}
	return len(described[r.cfg.Prefix+group].Members), nil
}

func (r *kafkaReader) BrokerCount(ctx context.Context) (int, error) {
	brokers, err := r.adm.ListBrokers(ctx)
	if err != nil {
		return 0, explainSecurity(fmt.Errorf("list brokers: %w", err))
	}
	return len(brokers), nil
}

func (r *kafkaReader) Endpoints(ctx context.Context) []certfile.Endpoint {
	if r.cfg.TLS == "" {
		return nil
	}
	conf, err := r.cfg.tlsConfig()
	if err != nil {
		return nil // NewReader has reported it
	}
	addrs := slices.Clone(r.cfg.Brokers)
	brokers, err := r.adm.ListBrokers(ctx)
	if err == nil {
		for _, b := range brokers {
			addrs = append(addrs, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
		}
	}
	slices.Sort(addrs)
	var all []certfile.Endpoint
	for _, addr := range slices.Compact(addrs) {
		all = append(all, certfile.Endpoint{Addr: addr, TLS: conf})
	}
	return all
}

// UnderReplicatedPartition is a partition that lacks a leader, or replicas that are in sync.
type UnderReplicatedPartition struct {
	Partition
	Leaderless       bool
	InSync, Replicas int
	BrokersOutOfSync []int32 // their ids
}

func (p UnderReplicatedPartition) String() string {
	if p.Leaderless {
		return fmt.Sprintf("%s-%d has no leader; its replicas are on brokers %v", p.Topic, p.Index,
			p.BrokersOutOfSync)
	}
	return fmt.Sprintf("%s-%d has %d of %d replicas in sync; out of sync: brokers %v", p.Topic, p.Index,
		p.InSync, p.Replicas, p.BrokersOutOfSync)
}

func (r *kafkaReader) UnderReplicatedPartitions(ctx context.Context) ([]UnderReplicatedPartition, error) {
	var names []string
	for _, t := range Topics() {
		names = append(names, r.cfg.Prefix+t.Name)
	}
	found, err := r.adm.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	var all []UnderReplicatedPartition
	for _, t := range Topics() {
		for _, p := range found[r.cfg.Prefix+t.Name].Partitions.Sorted() {
			s := UnderReplicatedPartition{Partition: Partition{Topic: t.Name, Index: p.Partition}, InSync: len(p.ISR),
				Replicas: len(p.Replicas), Leaderless: p.Leader < 0}
			for _, id := range p.Replicas {
				if s.Leaderless || !slices.Contains(p.ISR, id) {
					s.BrokersOutOfSync = append(s.BrokersOutOfSync, id)
				}
			}
			if s.Leaderless || s.InSync < s.Replicas {
				all = append(all, s)
			}
		}
	}
	return all, nil
}
