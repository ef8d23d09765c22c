package node

import (
	"context"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/usage"
	"github.com/eventrelay/relay/usage/alert"
)

// newNotifier creates the sender of mail, Slack messages and webhooks to people. Alerts and POST /v1/alerts/test use
// it.
func newNotifier(n *Node) (runFunc, error) {
	transport, err := egress.NewTransport(n.outbound())
	if err != nil {
		return nil, err
	}
	operator, err := egress.NewOperatorDialer(n.Settings.EgressCAFile, n.Settings.DNSServer)
	if err != nil {
		return nil, err
	}
	domains, err := notify.ParseDomains(n.Settings.AlertDomains)
	if err != nil {
		return nil, err
	}
	n.notifier, err = notify.New(notify.Config{SMTPURL: n.Settings.SMTPURL, Domains: domains, Version: n.Settings.Version},
		notify.Deps{Transport: transport, Dial: operator.Dial, TLS: operator.TLS(), Now: n.Now})
	return nil, err
}

// newAlerts creates the evaluation of alert rules for the partitions that this node dispatches.
func newAlerts(n *Node) (runFunc, error) {
	var err error
	n.Alerts, err = alert.New(
		alert.Config{Node: n.Settings.NodeName, InstanceID: n.InstanceID, BaseURL: n.DashboardURL},
		alert.Deps{
			Log: n.Log, Stream: n.Stream, Config: n.Control,
			Failures: n.CountFailures, Keyring: n.Keyring, Sender: n.notifier, Now: n.Control.Now, Metrics: n.registry,
			Usage: allowance{n.usage, n.Control}, Events: n.Reader, Sources: n.sources,
		})
	if err != nil {
		return nil, err
	}
	return n.Alerts.Run, nil
}

// allowance compares the events of the one account with its allowance.
type allowance struct {
	usage  *usage.Usage
	config *config.Control
}

// Used returns the events of this month, and the monthly allowance; 0 = none.
func (a allowance) Used(ctx context.Context) (events, agreed int64, err error) {
	return a.usage.Current(ctx, a.config.Account().ID)
}
