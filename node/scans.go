package node

import (
	"github.com/eventrelay/relay/leaks/intake"
	"github.com/eventrelay/relay/leaks/scan"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/secrets"
)

// newScans creates the runner of leak scans.
func newScans(n *Node) (runFunc, error) {
	rules, err := intake.NewScanner(n.control)
	if err != nil {
		return nil, err
	}
	transport, err := egress.NewTransport(n.outbound())
	if err != nil {
		return nil, err
	}
	scanner := scan.New(scan.Deps{
		Metrics: n.registry, Transport: transport, Budget: n.settings.scanBudget(), Now: n.control.Now,
		UserAgent: "RelayLeakScan/1 (+" + n.url + scan.AboutPath + ")",
	})
	runner := scan.NewRunner(scan.RunnerDeps{
		Log: n.log, Node: n.settings.NodeName, Config: leakConfig{n.control}, Proofs: n.domains, Scanner: scanner,
		Rules:      secrets.NewScanners(rules),
		Producer:   n.producer,
		Findings:   n.limiter.NewDistinct("scan-findings", intake.NewFindingsSpan),
		Partitions: n.partitions, Now: n.control.Now, IsOwner: n.ownsFirstPartition.Load,
		MayScan: func(hostname string) bool {
			_, err := n.policy.CheckHostname(hostname)
			return err == nil
		},
	})
	return runner.Run, nil
}
