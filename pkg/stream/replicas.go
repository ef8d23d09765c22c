package stream

import (
	"context"
	"fmt"
	"slices"
)

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
