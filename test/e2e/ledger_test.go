package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/ledger"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/stream"
)

// topics is where the log of a relay is: of a node of a cluster where it was told, of `relay dev` behind a socket in
// its data directory.
func (p *process) topics() stream.Config {
	p.t.Helper()
	c := stream.Config{Prefix: "relay."}
	for _, setting := range p.env {
		switch name, value, _ := strings.Cut(setting, "="); name {
		case "RELAY_KAFKA_BROKERS":
			c.Brokers = strings.Split(value, ",")
		case "RELAY_TOPIC_PREFIX":
			c.Prefix = value
		}
	}
	if c.Brokers == nil { // `relay dev` tells its broker's address to nobody; its socket is enough
		c.Brokers = []string{"embedded"}
		c.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return private.Dial(ctx, filepath.Join(p.dir, "run", "kafka.sock"))
		}
	}
	return c
}

// nothingLost audits the log of a relay at this moment, whatever is on its way: there must be no residue.
func nothingLost(t *testing.T, c stream.Config) ledger.Report {
	t.Helper()
	r, err := ledger.Audit(t.Context(), c, ledger.Span{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Residue > 0 || r.UndecodableOutcomes > 0 || r.UnidentifiedDead > 0 {
		t.Errorf("residue of the ledger: %v; %d outcomes cannot be read, %d dead letters name no event", r.Counts,
			r.UndecodableOutcomes, r.UnidentifiedDead)
		for _, l := range r.Lost[:min(len(r.Lost), 20)] {
			t.Errorf("lost: %v", l)
		}
		t.FailNow()
	}
	return r
}

// settledLedger waits until nothing is in flight any more, prints the ledger of the case and asserts that it
// is whole: what was accepted is what became of it.
func settledLedger(t *testing.T, c stream.Config) ledger.Report {
	t.Helper()
	var r ledger.Report
	eventually(t, time.Minute, func() string {
		if r = nothingLost(t, c); r.InFlight > 0 {
			return fmt.Sprintf("work is still in flight: %v", r.Counts)
		}
		return ""
	})
	if r.Accepted != r.Delivered+r.Failed+r.Skipped+r.Rejected+r.Dead {
		t.Errorf("the ledger does not add up: %v", r.Counts)
	}
	t.Logf("ledger: %v", r.Counts)
	return r
}

// settledDeliveries is settledLedger where every event has one destination, one of these, that took it in the
// end. What the log says is compared with how many events clients were told are accepted, and with what
// arrived: a client may not have heard that its event was accepted, but nothing that was accepted is
// missing, and nothing is called delivered that did not arrive.
func settledDeliveries(t *testing.T, c stream.Config, accepted int, dests ...*sink) ledger.Report {
	t.Helper()
	r := settledLedger(t, c)
	events, taken := map[string]bool{}, 0
	for _, dest := range dests {
		for _, x := range dest.received() {
			if x.status == http.StatusOK {
				taken++
				events[x.event()] = true
			}
		}
	}
	switch {
	case r.Delivered != r.Accepted:
		t.Errorf("the ledger says that %d of %d were not delivered", r.Accepted-r.Delivered, r.Accepted)
	case r.Accepted < accepted:
		t.Errorf("%d events were answered 2xx, the ledger knows of %d", accepted, r.Accepted)
	case r.Delivered != len(events):
		t.Errorf("the ledger says that %d were delivered, %d arrived", r.Delivered, len(events))
	case r.Duplicates > taken-len(events):
		t.Errorf("the ledger says %d duplicates, only %d arrived", r.Duplicates, taken-len(events))
	}
	return r
}

// metric is the value of a metric without labels.
func (p *process) metric(name string) float64 {
	p.t.Helper()
	for line := range strings.Lines(p.admin("/metrics")) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return n
		}
	}
	p.t.Fatalf("no metric %s", name)
	return 0
}

// shownLedger waits until a node that dispatches everything shows the counts of a ledger that has settled.
func (p *process) shownLedger(t *testing.T, want ledger.Report) {
	t.Helper()
	eventually(t, time.Minute, func() string {
		accepted, residue, inFlight := p.metric("relay_ledger_accepted"), p.metric("relay_ledger_residue"),
			p.metric("relay_ledger_in_flight")
		if residue > 0 {
			t.Fatalf("the node's own ledger shows a residue of %v\n%s", residue, p.logs)
		}
		if p.metric("relay_ledger_unaudited_total") > 0 { // there was more than it may read: it counts what came later
			want.Accepted = int(accepted)
		}
		if p.metric("relay_ledger_last_run_duration_seconds") == 0 || int(accepted) != want.Accepted || inFlight > 0 {
			return fmt.Sprintf("the node's own ledger shows %v accepted and %v in flight, want %d and 0", accepted, inFlight,
				want.Accepted)
		}
		return ""
	})
}
