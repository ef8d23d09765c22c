package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
)

// awaitInSync waits until all replicas of all partitions are in sync, so that the next broker may stop.
func awaitInSync(t *testing.T, c *cluster, b *kit.Brokers) {
	t.Helper()
	eventually(t, 2*time.Minute, func() string {
		behind, err := b.OutOfSync(t.Context(), c.prefix)
		switch {
		case err != nil:
			return err.Error()
		case len(behind) > 0:
			return fmt.Sprintf("%d partitions lack an in-sync replica: %s", len(behind), behind[0])
		}
		return ""
	})
}

// leaderKilled kills the broker that leads a partition of the events topic. The other two take over; the killed one
// restarts and catches up.
func leaderKilled(t *testing.T, c *cluster, nodes []*process, brokers *kit.Brokers, seed uint64) {
	f := putUnderLoad(t, seed, nodes, newTally(t, nil), rounds(50, 50, 400), nil)
	for range rounds(1, 1, 8) {
		f.runFor(time.Second)
		leader := brokers.Leader(t, c.prefix+"events", int32(f.rand.IntN(4)))
		from := time.Now()
		leader.Kill(t)
		f.awaitAccepted(100) // without the killed broker
		led := time.Since(from)
		leader.Start(t)
		awaitInSync(t, c, brokers)
		f.addOutage(from)
		t.Logf("%s was killed, 100 more events were accepted after %v, its replicas were in sync again after %v",
			leader.Description, led.Round(time.Millisecond), time.Since(from).Round(time.Millisecond))
	}
	f.awaitAccepted(100)
	f.finishAndCheck()
}

// brokersRestarted kills all brokers at once, then restarts them one after the other. The nodes stay up.
func brokersRestarted(t *testing.T, c *cluster, nodes []*process, brokers *kit.Brokers, seed uint64) {
	f := putUnderLoad(t, seed, nodes, newTally(t, nil), 400, nil)
	for range 4 {
		f.runFor(time.Second)
		from := time.Now()
		for _, b := range brokers.Engines {
			b.Kill(t)
		}
		if len(brokers.Engines) == 0 {
			kit.SkipMissing(t, "a test cannot stop the brokers at RELAY_TEST_KAFKA_BROKERS")
		}
		brokers.Start(t)
		up := time.Since(from)
		f.awaitAccepted(100)
		f.addOutage(from)
		t.Logf("all brokers were killed and started in %v, 100 more events were accepted after %v",
			up.Round(time.Millisecond),
			time.Since(from).Round(time.Millisecond))
		awaitInSync(t, c, brokers)
		for _, b := range brokers.Engines {
			from := time.Now()
			b.Stop(t)
			f.awaitAccepted(100)
			b.Start(t)
			awaitInSync(t, c, brokers)
			f.addOutage(from)
		}
	}
	f.awaitAccepted(100)
	f.finishAndCheck()
}
