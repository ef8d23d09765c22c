package node

import (
	"context"
	"time"

	"github.com/eventrelay/relay/leaks/decider"
	"github.com/eventrelay/relay/leaks/drain"
	"github.com/eventrelay/relay/leaks/intake"
	"github.com/eventrelay/relay/leaks/payload"
	"github.com/eventrelay/relay/leaks/report"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/write"
)

// stageDeps returns what a stage needs that takes hits. findings is the name of its counts of new findings.
func (n *Node) stageDeps(findings string) intake.Deps {
	return intake.Deps{
		Node: n.settings.NodeName, Partitions: n.partitions, Metrics: n.registry, Producer: n.producer,
		Findings: n.limiter.NewDistinct(findings, intake.NewFindingsSpan), Now: n.now, Front: n.front,
	}
}

// newDrain creates the stage behind the URLs of log drains, whose handler newServer serves.
func newDrain(n *Node) (runFunc, error) {
	scanner, err := intake.NewScanner(n.control)
	if err != nil {
		return nil, err
	}
	n.drains = drain.New(drain.Deps{
		Deps: n.stageDeps("drain-findings"), Config: leakConfig{n.control}, Scanner: scanner, Tokens: n.limiter,
		Records: n.limiter.NewWindow("drain-records", time.Minute),
	})
	return n.drains.Run, nil
}

// newReports creates the stage behind the URLs of DSNs, whose handler newServer serves.
func newReports(n *Node) (runFunc, error) {
	scanner, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return nil, err
	}
	n.reports = report.New(report.Deps{
		Deps: n.stageDeps("report-findings"), Config: leakConfig{n.control}, Scanner: scanner,
		Minutes: n.limiter.NewWindow("report-requests", time.Minute),
		Days:    n.limiter.NewWindow("report-quota", report.DaySpan),
	})
	return n.reports.Run, nil
}

// newPayloadScanner creates the stage that finds secrets in stored events.
func newPayloadScanner(n *Node) (*payload.Scanner, error) {
	return payload.New(payload.Deps{
		Log: n.log, Metrics: n.registry, Config: leakConfig{n.control}, Producer: n.producer,
		Findings: n.limiter.NewDistinct("payload-findings", intake.NewFindingsSpan), Partitions: n.partitions,
	})
}

// leakConfig answers what the stages that find secrets ask of the configuration.
type leakConfig struct{ *config.Control }

func (c leakConfig) HasFinding(id string) bool {
	_, presence := c.Finding(id)
	return presence == config.Present
}

func (c leakConfig) LeakedKey(fingerprint string) (key *config.Key, accepted bool) {
	key = c.KeyByFingerprint(fingerprint)
	return key, key != nil && c.KeyWorks(key)
}

func (c leakConfig) ScansPayloads(endpoint string) (name string, scans bool) {
	e, _ := c.Endpoint(endpoint)
	if e == nil { // it was deleted, and what it received before is still stored
		return endpoint, true
	}
	return e.Name, !e.PayloadsUnscanned
}

// newDecider creates the decider of findings, for the partitions of findings that this node owns.
func newDecider(n *Node) (runFunc, error) {
	caughtUp := func(ctx context.Context) error { return read.FindingsCaughtUp(ctx, n.reader) }
	d, err := decider.New(decider.Config{InstanceID: n.instanceID(), Partitions: n.partitions}, decider.Deps{
		Log: n.log, Stream: n.stream, Config: n.control, History: n.control,
		Store:    findingTable{write.NewFindingTable(n.reader, caughtUp), n.control},
		Notifier: n.alerts, Now: n.control.Now, Metrics: n.registry,
	})
	if err != nil {
		return nil, err
	}
	n.droppedHits = d.DroppedHits
	return d.Run, nil
}

// findingTable gives the decider the findings of the one account in the store.
type findingTable struct {
	table  *write.FindingTable
	config *config.Control
}

func (f findingTable) LastHits(ctx context.Context, ids []string) (map[string]time.Time, error) {
	return f.table.LastHits(ctx, f.config.Account().ID, ids)
}

func (f findingTable) DeleteFindings(ctx context.Context, ids []string) error {
	return f.table.DeleteFindings(ctx, f.config.Account().ID, ids)
}
