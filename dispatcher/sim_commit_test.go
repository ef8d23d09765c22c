package dispatcher

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// hang makes the log answer no request of one kind until the returned function is called.
func (w *bubbleWorld) hang(key kmsg.Key) (answer func()) {
	over := make(chan struct{})
	w.cluster.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		w.cluster.SleepControl(func() { <-over })
		return nil, nil, false
	})
	return func() { close(over) }
}

// While a request and the commits hang, releasing partitions takes a bounded time: the group expels a member after 30
// s. A loss waits for the running commit, which is bounded too.
func TestReleaseIsBounded(t *testing.T) {
	for name, f := range map[string]struct {
		limit time.Duration
		leave func(*Dispatcher)
	}{
		"revoked": {revokeTimeout + commitTimeout,
			func(d *Dispatcher) { d.releasePartitions(context.Background(), d.assignment.all(), revokeTimeout) }},
		"lost": {commitTimeout, func(d *Dispatcher) { d.onLost(d.assignment.all()) }},
	} {
		t.Run(name, func(t *testing.T) {
			kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				s := &sink{answer: func(_ int, r received) int {
					if string(r.body) == "slow" {
						time.Sleep(50 * time.Second)
					}
					return 200
				}}
				url, _ := w.serve(80, s)
				endpoint := w.endpoint(url)
				endpoint.Destinations[0].TimeoutSeconds = 60
				d, _ := w.start(testConfig())
				w.accept(w.newEvent("quick"))
				w.outcomes(count(1))
				answer := w.hang(kmsg.OffsetCommit)
				w.accept(w.newEvent("slow"), w.newEvent("quick"))
				w.outcomes(count(2))
				time.Sleep(2 * time.Second) // a commit is running, now and again when the wait for the request is over
				began := time.Now()
				f.leave(d)
				if took := time.Since(began); took > f.limit {
					t.Errorf("took %v, at most %v", took, f.limit)
				}
				is.Equal(t, len(d.assignment.all()), 0, "partitions are left")
				answer()
				time.Sleep(time.Minute) // until the handler has returned
			})
		})
	}
}

// When brokers accept less metadata than usual, the offset is committed alone, and a metric counts it.
func TestCommitWithoutGaps(t *testing.T) {
	for _, refusal := range []*kerr.Error{kerr.OffsetMetadataTooLarge, kerr.InvalidCommitOffsetSize} {
		t.Run(refusal.Message, func(t *testing.T) {
			kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				s := &sink{answer: func(n int, r received) int {
					if string(r.body) == "slow" {
						time.Sleep(10 * time.Second)
					}
					return 200
				}}
				url, _ := w.serve(80, s)
				w.endpoint(url)
				w.cluster.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "t." + stream.Events, Err: refusal, Count: -1,
					When: func(req kmsg.Request) bool {
						for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
							for _, p := range t.Partitions {
								if p.Metadata != nil && *p.Metadata != "" {
									return true
								}
							}
						}
						return false
					},
				})
				w.start(testConfig())
				w.accept(w.newEvent("1"), w.newEvent("slow"), w.newEvent("2"))
				w.outcomes(count(2, event.Delivered))
				time.Sleep(time.Second)
				is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), 1, "committed")
				if w.metric("relay_dispatch_commits_without_gaps_total", "") == 0 ||
					w.metric("relay_dispatch_commit_errors_total", "") != 0 {
					t.Error("the metrics do not count commits without gaps, or count failures")
				}
				time.Sleep(15 * time.Second)
				if n := w.committed(stream.Partition{Topic: stream.Events}); n != 3 || len(s.all()) != 3 {
					t.Errorf("committed %d, want 3; %d requests", n, len(s.all()))
				}
				counted := w.metric("relay_dispatch_commits_without_gaps_total", "")
				for i := range 20 {
					w.accept(w.newEvent(fmt.Sprint(i)))
					time.Sleep(200 * time.Millisecond)
				}
				if w.metric("relay_dispatch_commits_without_gaps_total", "") != counted {
					t.Error("commits that need no metadata are counted as well")
				}
			})
		})
	}
}
