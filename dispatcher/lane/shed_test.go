package lane

import (
	"testing"
	"time"
)

// What a stuck lane gives back no longer counts as its bytes, or the lane would be full for ever.
func TestShedDeliveriesFreeTheirBytes(t *testing.T) {
	lt := newLaneTest(t, 100)
	if n := lt.fill("d", 60); n != 60 {
		t.Fatalf("%d of 60 are queued", n)
	}
	lt.now = lt.now.Add(time.Minute)
	shed, _ := lt.EnforceLimits()
	l := lt.byDest["d"]
	if kept := l.queued(); len(shed) == 0 || kept != 60-len(shed) || l.bytes != kept*1000 {
		t.Errorf("%d are given back, %d of %d bytes are kept", len(shed), kept, l.bytes)
	}
}
