package alert

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// After a restart the state is rebuilt without announcing anything again, and outcomes from in between are evaluated.
// Rejected events are counted across the restart too.
func TestRunContinuesAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen)))(t)
		t.Cleanup(func() {
			cluster.Close()
			synctest.Wait()
		})
		conf := stream.Config{Brokers: cluster.ListenAddrs(), Prefix: "relay.", DialFunc: network.DialContext}
		must.Get(stream.Migrate(t.Context(), conf, 2, 1))(t)
		producer := must.Get(stream.NewProducer(conf, "test"))(t)
		t.Cleanup(producer.Close)
		k := testKeyring(t)
		m, o := newFakeConfig(k), &fakeSender{}
		m.endpoint.Partition = 1
		writer := rigOn(t, "writer", k, m, o)
		writer.enableOnly(func(rules *alerting.AlertRules) {
			rules.Recovery.Enabled = true
			rules.ConsecutiveFailures, rules.VerificationFailed = alerting.AlertThresholdRule{Enabled: true, Threshold: 6},
				alerting.AlertThresholdRule{Enabled: true, Threshold: 4}
		})
		m.jobs = []*jobs.Recovery{
			{Meta: entity.Meta{ID: "rec_1"}, Endpoint: testEndpoint, State: jobs.RecoveryCompleted, FinishedAt: time.Now()}}
		produceOutcome := func(ok bool) {
			t.Helper()
			e := must.Get(writer.ids.New(1))(t)
			out := event.Outcome{Event: e, Endpoint: testEndpoint, Dest: testDest, Status: event.Retrying, At: time.Now(),
				Attempt: writer.attempt(ok)}
			if ok {
				out.Status = event.Delivered
			}
			must.Do(t, producer.ProduceSync(t.Context(), stream.Outcomes, 1, out.Record()))
		}
		reject := func() {
			t.Helper()
			e := must.Get(writer.ids.New(1))(t)
			rejected := event.Event{ID: e, Endpoint: testEndpoint, Verdict: event.VerdictRejected}
			must.Do(t, producer.ProduceSync(t.Context(), stream.Events, 1, rejected.Record()))
		}
		run := func() (stop func()) {
			r := rigOn(t, "a", k, m, o)
			r.partitions = map[int32]*partitionState{}
			r.deps.Stream = conf
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				is.OK(t, r.Run(ctx))
			})
			return func() {
				cancel()
				all.Wait()
			}
		}
		reader := must.Get(stream.NewReader(conf, "test"))(t)
		t.Cleanup(reader.Close)
		committed := func(n int64) {
			t.Helper()
			until(t, func() bool {
				done, err := reader.Committed(t.Context(), stream.AlertGroup, stream.Outcomes)
				return err == nil && done[stream.Partition{Topic: stream.Outcomes, Index: 1}] == n
			})
		}
		const jobEnded = "alert.recovery.ended" // is sent whenever the account rules run
		wantSent := func(types ...string) {
			t.Helper()
			have := func() []string {
				return slices.DeleteFunc(o.types(notify.Webhook), func(kind string) bool { return kind == jobEnded })
			}
			until(t, func() bool { return len(have()) >= len(types) })
			must.List(t, have(), types, "sent")
		}
		for range 4 {
			produceOutcome(false)
		}
		for range 3 {
			reject()
		}
		stop := run()
		committed(4)
		stop()
		produceOutcome(false) // while no node evaluates
		stop = run()
		committed(5)
		wantSent()
		produceOutcome(false)
		wantSent("alert.destination.failing")
		reject()
		wantSent("alert.destination.failing", "alert.endpoint.verification_failed")
		committed(6)
		stop()
		stop = run()
		produceOutcome(false)
		committed(7)
		produceOutcome(true)
		wantSent("alert.destination.failing", "alert.endpoint.verification_failed", "alert.destination.failing.resolved")
		until(t, func() bool { return slices.Contains(o.types(notify.Webhook), jobEnded) })
		stop()
	})
}

func until(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not become true within two minutes")
		}
	}
}
