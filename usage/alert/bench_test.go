package alert

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

// BenchmarkOutcome measures an outcome of a healthy destination that carries an attempt of usual size.
func BenchmarkOutcome(b *testing.B) {
	ids := id.NewGenerator(nil)
	records := make([]*stream.Record, 1000)
	for i := range records {
		e := must.Get(ids.New(0))(b)
		o := event.Outcome{Event: e, Endpoint: testEndpoint, Dest: fmt.Sprint("dst_", i%50), Status: event.Delivered,
			At: time.Now(),
			Attempt: &event.Attempt{ID: ids.NewUnbounded(0), Trigger: event.TriggerInitial, OK: true, Code: 200,
				ResponseBody: make([]byte, 500), RequestHeader: event.Lines(make([]byte, 600))}}
		records[i] = o.Record()
	}
	k := newPartitionState(0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, _, _, err := k.addOutcome(records[i%len(records)], 5*time.Minute); err != nil {
			b.Fatal(err)
		}
	}
}
