package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TopicID returns the ids of the cluster and of the topic. They identify the log that offsets stored elsewhere belong
// to: a topic that was deleted and recreated has another id. id is empty with brokers before Kafka 3.1 (KIP-516).
func (r *Reader) TopicID(ctx context.Context, topic string) (cluster, id string, err error) {
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

// Trim deletes the records of a partition before an offset. Callers cannot rely on the records being gone: brokers
// delete whole segments, and the embedded broker forgets the new start of the log when it is killed.
func (r *Reader) Trim(ctx context.Context, p Partition, before int64) error {
	return r.trim(ctx, map[Partition]int64{p: before})
}

// trim is Trim for several partitions at once. It is no error if another node has deleted the records already.
func (r *Reader) trim(ctx context.Context, before map[Partition]int64) error {
	offsets := make(kadm.Offsets)
	for p, at := range before {
		offsets.AddOffset(r.cfg.Prefix+p.Topic, p.Index, at, -1)
	}
	resp, err := r.adm.DeleteRecords(ctx, offsets)
	if err != nil {
		return fmt.Errorf("delete records: %w", err)
	}
	var errs []error
	resp.Each(func(d kadm.DeleteRecordsResponse) {
		if d.Err != nil && !errors.Is(d.Err, kerr.OffsetOutOfRange) {
			errs = append(errs, fmt.Errorf(
				"delete records of %s[%d] (needs the ACL operation Delete on the topic): %w", d.Topic, d.Partition, d.Err))
		}
	})
	return errors.Join(errs...)
}
