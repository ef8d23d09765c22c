package stream

import (
	"context"
)

// TopicSizes returns the bytes that each topic takes on the disks of the brokers, all partitions and replicas together,
// by the topic's name without the prefix.
func TopicSizes(ctx context.Context, c Config) (map[string]int64, error) {
	r, err := NewReader(c, "sizes")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	partitions, err := r.sizes(ctx)
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int64)
	for p, bytes := range partitions {
		sizes[p.Topic] += bytes
	}
	return sizes, nil
}
