package stream

import (
	"github.com/eventrelay/relay/test/must"
	"testing"
)

// The topics of other services count for nothing, not even one that has the name of an own topic without the prefix.
func TestSizesAreOfOwnTopics(t *testing.T) {
	_, c, p := broker(t)
	if _, err := reader(t, c).logReader.(*kafkaReader).adm.CreateTopic(t.Context(), 1, 1, nil, Events); err != nil {
		t.Fatal(err)
	}
	own := p.producer.(*kafkaProducer).prefix
	p.producer.(*kafkaProducer).prefix = ""
	must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: make([]byte, 5000)}))
	p.producer.(*kafkaProducer).prefix = own
	sizes, err := TopicSizes(t.Context(), c)
	if bytes, known := sizes[Events]; err != nil || !known || bytes != 0 {
		t.Errorf("sizes %v, error %v, want 0 B of %s", sizes, err, Events)
	}
	sizesFollowRecords(t, c, p)
}
