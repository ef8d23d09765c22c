package dispatcher

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

// Thousands of records finish out of order while the first hangs and every third is unfinished. Whether the partition
// is released in order or its owner dies, the next owner repeats no finished record and skips no unfinished one. Where
// more gaps exist than fit into a commit, it repeats exactly as many as the metric has counted.
func TestNextOwnerRepeatsNothing(t *testing.T) {
	stop := func(_ *Dispatcher, stop func()) { stop() }
	crash := func(d *Dispatcher, stop func()) {
		time.Sleep(2 * time.Second)  // until a commit
		d.onLost(d.assignment.all()) // and none after it
		stop()
	}
	for name, c := range map[string]struct {
		records, most int64 // and how many finished ones may not fit into a commit
		leave         func(*Dispatcher, func())
	}{
		"given up":           {20_000, 0, stop},
		"crash":              {20_000, 0, crash},
		"given up, too many": {40_000, 12_000, stop},
		"crash, too many":    {40_000, 12_000, crash},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				events := stream.Partition{Topic: stream.Events}
				start := func() (*Dispatcher, *partition, func()) {
					d, stop := w.start(testConfig())
					time.Sleep(10 * time.Second) // until the group has formed
					p := d.assignment.partition(events)
					if p == nil {
						t.Fatal("the partition was not assigned")
					}
					return d, p, stop
				}
				d, p, stop := start()
				var done []*slot
				for o := range c.records {
					if slot := p.beginRecord(o, 0); o%3 != 0 {
						done = append(done, slot)
					}
				}
				for _, i := range kit.Rand(t).Perm(len(done)) {
					done[i].deliveryDone()
				}
				c.leave(d, stop)
				omitted := int64(w.metric("relay_dispatch_commit_omitted_records", ""))
				if omitted > c.most || c.most > 0 && omitted == 0 {
					t.Errorf("the metric counts %d of %d as omitted, want at most %d", omitted, len(done), c.most)
				}

				_, p, _ = start()
				repeated := int64(0)
				for o := range c.records {
					switch again := p.beginRecord(o, 0) != nil; {
					case o%3 == 0 && !again:
						t.Fatalf("offset %d was not done and is skipped", o)
					case o%3 != 0 && again:
						repeated++
					}
				}
				is.Equal(t, repeated, omitted, "of %d are repeated, the metric counted %d", len(done), omitted)
				is.Equal(t, w.committed(events), 0, "committed … the first record hangs")
			})
		})
	}
}
