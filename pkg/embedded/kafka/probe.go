package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// probeTimeout bounds the self-check, which takes about 10 ms.
const probeTimeout = 10 * time.Second

// probeLayout checks that kfake writes records to the files that the barriers sync. It starts a temporary broker, which
// is not reachable from outside, and produces two records to a topic with one record a segment.
func probeLayout(ctx context.Context, root string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	dir, err := os.MkdirTemp(root, "probe-")
	if err != nil {
		return fmt.Errorf("make scratch directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	const topic = "probe.topic"
	var network kfake.VirtualNetwork
	cluster, err := kfake.NewCluster(kfake.Ports(9092), kfake.ListenFn(network.Listen), kfake.DataDir(dir),
		kfake.SeedTopics(1, topic), kfake.BrokerConfigs(map[string]string{"log.segment.bytes": "1"}))
	if err != nil {
		return fmt.Errorf("start scratch broker: %w", err)
	}
	defer cluster.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers("localhost:9092"), kgo.Dialer(network.DialContext),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return fmt.Errorf("make scratch client: %w", err)
	}
	defer client.Close()
	for i := range 2 {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: probeValue(i)}).FirstErr(); err != nil {
			return fmt.Errorf("produce to scratch broker: %w", err)
		}
	}
	return checkLayout(newDisk(dir).partitionDir(topic, 0))
}

func probeValue(i int) []byte { return fmt.Appendf(nil, "value of probe %d", i) }

func checkLayout(dir string) error {
	bases, err := segments(dir)
	if err != nil {
		return fmt.Errorf("list segments: %w", err)
	}
	if !slices.Equal(bases, []int64{0, 1}) {
		return fmt.Errorf("segments in %s start at %v, not at 0 and 1", filepath.Base(dir), bases)
	}
	for i, base := range bases {
		data, err := os.ReadFile(segmentPath(dir, base))
		if err != nil {
			return fmt.Errorf("read segment: %w", err)
		}
		if !bytes.Contains(data, probeValue(i)) {
			return fmt.Errorf("segment %d does not hold its record", base)
		}
	}
	return nil
}
