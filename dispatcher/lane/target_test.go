package lane

import (
	"errors"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The opened destination is kept until the endpoint changes, and then the lane follows its limit.
func TestTargetFollowsTheEndpoint(t *testing.T) {
	lt := newLaneTest(t, 100)
	lt.open = func(_ *config.Endpoint, d *config.Destination) (Target, error) {
		if d.URL == "https://[" {
			return nil, errors.New("broken")
		}
		return d, nil
	}
	lt.fill("d", 1)
	l := lt.byDest["d"]
	open := func(rev int64, url string, maxInFlight int) Target {
		t.Helper()
		target, err := l.Target(Eligibility{Endpoint: &config.Endpoint{Rev: rev},
			Destination: &config.Destination{ID: "d", URL: url, MaxInFlight: maxInFlight}})
		must.Equal(t, err != nil, url == "https://[", err)
		return target
	}
	first := open(1, "https://a", 3)
	if l.window.limit != 3 || open(1, "https://a", 3) != first {
		t.Errorf("it is opened again; the window is %+v", l.window)
	}
	if second := open(2, "https://b", 2); second.(*config.Destination).URL != "https://b" || l.window.limit != 2 {
		t.Errorf("after a change: %s, window %+v", second, l.window)
	}
	if broken := open(3, "https://[", 2); broken != nil {
		t.Errorf("a broken URL gives %+v", broken)
	}
}

// A transformed body counts from the moment its length is known, and memory that it does not need is released.
func TestReserve(t *testing.T) {
	lt := newLaneTest(t, 100)
	delivery := lt.delivery("d", "")
	delivery.Size, delivery.Reserved = 1500, 500
	lt.enqueue(delivery)
	l := lt.byDest["d"]
	for _, c := range []struct {
		reserved, size int
		freed          bool
	}{{700, 1700, false}, {700, 1700, false}, {100, 1100, true}} {
		l.Reserve(delivery, c.reserved)
		if _, bytes := lt.InMemory(); delivery.Reserved != c.reserved || delivery.Size != c.size || l.bytes != c.size ||
			bytes != c.size {
			t.Errorf("%d bytes reserved: %d in all, %d in the lane, %d on the node", c.reserved, delivery.Size, l.bytes, bytes)
		}
		select {
		case <-lt.Freed():
			if !c.freed {
				t.Errorf("%d bytes reserved: memory is reported as freed", c.reserved)
			}
		default:
			if c.freed {
				t.Errorf("%d bytes reserved: the reader is not woken", c.reserved)
			}
		}
	}
}

// A delivery that is larger than a lane may hold is sent all the same, alone.
func TestLargeDeliveryIsQueuedInAnEmptyLane(t *testing.T) {
	lt := newLaneTest(t, 100)
	lt.maxBytes = 1000
	large := lt.delivery("d", "")
	large.Size = 5000
	lt.part.streak, lt.part.lastDest = 0, "d"
	lt.laneOf(large, lt.now).pace.budget = -time.Hour
	is.Equal(t, lt.enqueue(large), "", "it is parked")
	is.Equal(t, lt.enqueue(lt.delivery("d", "")), event.LaneFull, "another one beside it")
}
