package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

// After any power cut the relay starts, and every event that was answered 2xx is delivered, listed and counted.
func TestPowerCuts(t *testing.T) {
	skipShort(t)
	t.Parallel()
	dest := newSink(t, nil)
	d := newPowerDisk(t)
	p := startDevProcess(t, filepath.Join(d.dir, "data"))
	endpoint, in, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	random := rand.New(rand.NewPCG(kit.Seed(t), 0))
	cuts, all := rounds(1, 2, 200), make(map[int64]bool)
	numbers := int64(0)
	for range cuts {
		accepted := d.cutUnderTraffic(p, in, &numbers, random)
		maps.Copy(all, accepted)
		awaitArrivals(t, p, dest, accepted)
	}
	duplicates := awaitDelivered(t, p.client, dest, "&endpoint_id="+endpoint, all, 2*time.Minute)
	// Events that were delivered but not answered before a cut may be missing in all.
	if r := awaitSettledLedger(t, p.streamConfig); r.Delivered < len(all) {
		t.Errorf("%d events were answered 2xx, but the ledger counts %v", len(all), r.Counts)
	}
	t.Logf("%d power cuts, %d events accepted, 0 lost, %d duplicates", cuts, len(all), duplicates)
}

// awaitArrivals waits until every accepted event has arrived.
func awaitArrivals(t *testing.T, p *process, dest *sink, accepted map[int64]bool) {
	t.Helper()
	eventually(t, time.Minute, func() string {
		arrived, missing := arrivals(dest), 0
		for n := range accepted {
			if arrived[n] == 0 {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Sprintf("%d of %d accepted events have not arrived\n%s", missing, len(accepted), p.logs)
		}
		return ""
	})
}

// cutUnderTraffic sends events, turns the power off and on, and starts the relay again. It returns the events that were
// accepted.
func (d *powerDisk) cutUnderTraffic(p *process, in string, numbers *int64, random *rand.Rand) map[int64]bool {
	d.t.Helper()
	tr := startTraffic(4, 10*time.Millisecond, in)
	tr.next.Store(*numbers)
	time.Sleep(time.Duration(random.IntN(2500)) * time.Millisecond)
	d.cut(random)
	// Its next sync fails, and nothing can be saved.
	if err := p.awaitExit(busy * 10 * time.Second); err == nil {
		d.t.Error("the relay ended without an error although its disk has failed")
	}
	is.Has(d.t, p.logs.String(), "the log cannot be written to disk")
	p.kill()
	accepted := tr.finish()
	*numbers = tr.next.Load()
	d.restore()
	p.start()
	return accepted
}
