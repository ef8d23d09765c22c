package stream

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
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

// sizes returns the bytes that the brokers store of each partition, all replicas together. It omits the copies that a
// broker makes while it moves a partition to another disk.
func (r *Reader) sizes(ctx context.Context) (map[Partition]int64, error) {
	dirs, err := r.adm.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("read the sizes of topics: %w", explainSecurity(err))
	}
	sizes := make(map[Partition]int64)
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if topic, own := strings.CutPrefix(p.Topic, r.cfg.Prefix); own && !p.IsFuture {
				sizes[Partition{topic, p.Partition}] += p.Size
			}
		})
	})
	return sizes, nil
}
