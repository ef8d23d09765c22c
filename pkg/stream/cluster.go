package stream

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

// ClusterID names the cluster, so that offsets kept elsewhere can be told from another cluster's.
func (r *Reader) ClusterID(ctx context.Context) (string, error) {
	m, err := r.adm.BrokerMetadata(ctx)
	if err != nil {
		return "", fmt.Errorf("read the cluster's id: %w", err)
	}
	return m.Cluster, nil
}

// Trim deletes the records of a partition before an offset. The brokers keep the last of them for a
// while, and the embedded engine forgets the new start when it is killed: nothing may rely on it.
func (r *Reader) Trim(ctx context.Context, p Partition, before int64) error {
	offsets := make(kadm.Offsets)
	offsets.AddOffset(r.cfg.Prefix+p.Topic, p.Index, before, -1)
	resp, err := r.adm.DeleteRecords(ctx, offsets)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return fmt.Errorf("delete records of %s before %d: %w", p.Topic, before, err)
	}
	return nil
}
