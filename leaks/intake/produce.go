package intake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
)

// ProduceTimeout limits the wait for the log. The producer continues to retry after it.
const ProduceTimeout = 10 * time.Second

// errUnconfirmed means that some hits may not be in the log.
var errUnconfirmed = errors.New("the log did not confirm the hits")

// Produce appends hits to the topic findings and waits until the log has acknowledged all of them, for 10 s at most.
func Produce(ctx context.Context, to Producer, partitions int32, hits []*finding.Hit) error {
	answers := make(chan error, len(hits)) // buffered for all: a late acknowledgement must not block the producer
	for _, h := range hits {
		record := &stream.Record{Key: []byte(h.Finding), Value: h.Encode()}
		to.ProduceUnordered(stream.Findings, finding.PartitionOf(h.Finding, partitions), record,
			func(_ *stream.Record, err error) { answers <- err })
	}
	ctx, cancel := context.WithTimeout(ctx, ProduceTimeout)
	defer cancel()
	for range hits {
		select {
		case err := <-answers:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("%w within %v", errUnconfirmed, ProduceTimeout)
		}
	}
	return nil
}
