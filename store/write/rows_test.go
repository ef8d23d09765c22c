package write

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
)

// TestEveryTopicIsDecoded: the writer can decode every topic that it reads.
func TestEveryTopicIsDecoded(t *testing.T) {
	for _, topic := range store.Topics() {
		s := source{&stream.Record{Value: []byte("not a record")}, &assignment{Partition: stream.Partition{Topic: topic}}}
		if err := newBatch(newSinks()).decode(s); err == nil || strings.Contains(err.Error(), "has no table") {
			t.Errorf("the store reads %s and cannot decode it: %v", topic, err)
		}
	}
}
