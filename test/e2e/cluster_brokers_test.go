package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
)

// copied waits until every copy of every partition keeps up, so that the next broker may be away.
func copied(t *testing.T, c *cluster, b *kit.Brokers) {
	t.Helper()
	eventually(t, 2*time.Minute, func() string {
		behind, err := b.OutOfSync(t.Context(), c.prefix)
		switch {
		case err != nil:
			return err.Error()
		case len(behind) > 0:
			return fmt.Sprintf("%d partitions lack a copy: %s", len(behind), behind[0])
		}
		return ""
	})
}

// leaderKilled: the broker that leads a partition of events is killed. The other two go on with all of it;
// it comes back and catches up.
func leaderKilled(t *testing.T, c *cluster, brokers *kit.Brokers, seed uint64) {
	nodes := c.start("a", "b", "c")
	f := fire(t, seed, nodes, newTally(t, nil), rounds(150, 150, 400), nil)
	for range rounds(1, 1, 8) {
		f.calm(time.Second)
		leader := brokers.Leader(t, c.prefix+"events", int32(f.rand.IntN(4)))
		from := time.Now()
		leader.Kill(t)
		f.accepts(150) // without it
		led := time.Since(from)
		leader.Start(t)
		copied(t, c, brokers)
		f.broke(from)
		t.Logf("%s was killed, 150 more events were accepted after %v, its copies kept up again after %v",
			leader.Description, led.Round(time.Millisecond), time.Since(from).Round(time.Millisecond))
	}
	f.accepts(100)
	f.account()
}

// brokersRestarted: all brokers are killed at once, then stopped one after the other; nodes stay up.
func brokersRestarted(t *testing.T, c *cluster, brokers *kit.Brokers, seed uint64) {
	nodes := c.start("a", "b", "c")
	f := fire(t, seed, nodes, newTally(t, nil), rounds(150, 150, 400), nil)
	for range rounds(1, 1, 4) {
		f.calm(time.Second)
		from := time.Now()
		for _, b := range brokers.Engines {
			b.Kill(t)
		}
		if len(brokers.Engines) == 0 {
			kit.SkipMissing(t, "brokers that were found cannot be stopped by a test")
		}
		brokers.Start(t)
		up := time.Since(from)
		f.accepts(100)
		f.broke(from)
		t.Logf("all brokers were killed and started in %v, 100 more events were accepted after %v",
			up.Round(time.Millisecond),
			time.Since(from).Round(time.Millisecond))
		copied(t, c, brokers)
		for _, b := range brokers.Engines[:rounds(1, 1, 3)] {
			from := time.Now()
			b.Stop(t)
			f.accepts(100)
			b.Start(t)
			copied(t, c, brokers)
			f.broke(from)
		}
	}
	f.accepts(100)
	f.account()
}
