package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/features/ledger"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// streamConfig returns how to reach the log of a relay: of a cluster's node from its settings, of `relay dev` a copy as
// it is now.
func (p *process) streamConfig() stream.Config {
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
	if c.Brokers == nil {
		c.Embedded = copyOfLog(p.t, filepath.Join(p.dir, "log"))
	}
	return c
}

// copyOfLog opens a copy of a log that a process may be writing. What it says of commits is copied first, so that all
// that came before these is there.
func copyOfLog(t *testing.T, from string) *stream.Log {
	t.Helper()
	to := t.TempDir()
	must.Do(t, os.Chmod(to, 0o700))
	eventually(t, time.Minute, func() string {
		names := []string{"state.log"}
		for _, e := range must.Get(os.ReadDir(from))(t) {
			if strings.HasSuffix(e.Name(), ".seg") {
				names = append(names, e.Name())
			}
		}
		for _, name := range names {
			b, err := os.ReadFile(filepath.Join(from, name))
			if err != nil { // trimmed meanwhile
				must.Do(t, os.RemoveAll(to))
				must.Do(t, os.Mkdir(to, 0o700))
				return err.Error()
			}
			must.Do(t, os.WriteFile(filepath.Join(to, name), b, 0o600))
		}
		return ""
	})
	log := must.Get(stream.OpenLog(stream.LogConfig{Dir: to}))(t)
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		must.Do(t, log.Run(ended)) // closes it
	})
	return log
}

// auditLimit is enough for the long forms at the speed of a fast machine: 400 MB.
const auditLimit = 4_000_000

// checkNothingLost reconciles the log of a relay now, with deliveries in flight. Nothing may be lost.
func checkNothingLost(t *testing.T, log func() stream.Config) ledger.Report {
	t.Helper()
	r := must.Get(ledger.Audit(t.Context(), log(), ledger.Span{Limit: auditLimit}))(t)
	if r.Lost > 0 || r.UndecodableOutcomes > 0 || r.UnidentifiedDead > 0 {
		t.Errorf("deliveries are lost: %v; %d outcomes cannot be decoded, %d dead letters name no event", r.Counts,
			r.UndecodableOutcomes, r.UnidentifiedDead)
		for _, l := range r.Losses[:min(len(r.Losses), 20)] {
			t.Errorf("lost: %v", l)
		}
		t.FailNow()
	}
	return r
}

// awaitSettledLedger waits until nothing is in flight, logs the counts of the ledger, and checks that they add up: each
// accepted event has an outcome.
func awaitSettledLedger(t *testing.T, log func() stream.Config) ledger.Report {
	t.Helper()
	var r ledger.Report
	eventually(t, time.Minute, func() string {
		if r = checkNothingLost(t, log); r.InFlight > 0 {
			return fmt.Sprintf("work is still in flight: %v", r.Counts)
		}
		return ""
	})
	is.Equal(t, r.Accepted, r.Delivered+r.Failed+r.Skipped+r.Rejected+r.Dead,
		"the ledger does not add up: %v", r.Counts)
	t.Logf("ledger: %v", r.Counts)
	return r
}

// awaitAllDelivered is awaitSettledLedger for events that each have one destination, one of dests, and were all
// delivered. It compares the ledger with the number of events that clients know to be accepted and with the requests
// that arrived. A client may have missed an answer, but no accepted event may be missing, and none may count as
// delivered that did not arrive.
func awaitAllDelivered(t *testing.T, log func() stream.Config, accepted int, dests ...*sink) ledger.Report {
	t.Helper()
	r := awaitSettledLedger(t, log)
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
		t.Errorf("the ledger counts %d of %d events as not delivered", r.Accepted-r.Delivered, r.Accepted)
	case r.Accepted < accepted:
		t.Errorf("%d events were answered 2xx, the ledger has only %d", accepted, r.Accepted)
	case r.Delivered != len(events):
		t.Errorf("the ledger counts %d delivered events, but %d arrived", r.Delivered, len(events))
	case r.Duplicates > taken-len(events):
		t.Errorf("the ledger counts %d duplicates, but only %d arrived", r.Duplicates, taken-len(events))
	}
	return r
}

// metric returns the value of a metric without labels.
func (p *process) metric(name string) float64 {
	p.t.Helper()
	for line := range strings.Lines(p.admin("/metrics")) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n := must.Get(strconv.ParseFloat(strings.TrimSpace(value), 64))(p.t)
			return n
		}
	}
	p.t.Fatalf("no metric %s", name)
	return 0
}

// awaitLedgerMetrics waits until the metrics of a node that owns all partitions show the counts of a settled ledger.
func (p *process) awaitLedgerMetrics(t *testing.T, want ledger.Report) {
	t.Helper()
	eventually(t, time.Minute, func() string {
		accepted, lost, inFlight := p.metric("relay_ledger_accepted"), p.metric("relay_ledger_lost"),
			p.metric("relay_ledger_in_flight")
		if lost > 0 {
			t.Fatalf("the node's own ledger shows %v lost deliveries\n%s", lost, p.logs)
		}
		// the node had more records than it may read, and counts only later ones
		if p.metric("relay_ledger_unaudited_total") > 0 {
			want.Accepted = int(accepted)
		}
		if p.metric("relay_ledger_last_run_duration_seconds") == 0 || int(accepted) != want.Accepted || inFlight > 0 {
			return fmt.Sprintf("the node's own ledger shows %v accepted and %v in flight, want %d and 0", accepted, inFlight,
				want.Accepted)
		}
		return ""
	})
}
