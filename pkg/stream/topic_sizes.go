package stream

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TopicSizes returns the bytes that each topic takes on the disks of the brokers, all partitions and replicas together,
// by the topic's name without the prefix. The embedded broker does not answer it.
func TopicSizes(ctx context.Context, c Config) (map[string]int64, error) {
	cl, err := c.newClient("sizes")
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	dirs, err := kadm.NewClient(cl).DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("read the sizes of topics: %w", explainSecurity(err))
	}
	sizes := map[string]int64{}
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if topic, own := strings.CutPrefix(p.Topic, c.Prefix); own && !p.IsFuture {
				sizes[topic] += p.Size
			}
		})
	})
	return sizes, nil
}
