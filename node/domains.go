package node

import (
	"github.com/eventrelay/relay/leaks/domain"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/secrets"
)

// newDomains creates the checks of domains. The node that owns the first partition makes the daily ones.
func newDomains(n *Node) (runFunc, error) {
	scanner, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return nil, err
	}
	transport, err := egress.NewTransport(n.outbound())
	if err != nil {
		return nil, err
	}
	resolver, err := egress.NewResolver(n.settings.DNSServer)
	if err != nil {
		return nil, err
	}
	n.domains = domain.New(domain.Deps{
		Log: n.log, Config: n.control, Resolver: resolver, Transport: transport, Scanner: scanner,
		Attempts:  n.limiter.NewWindow("domain-attempts", domain.AttemptsSpan),
		UserAgent: "EventRelay/" + n.settings.Version, Now: n.control.Now, IsOwner: n.ownsFirstPartition.Load,
	})
	return n.domains.Run, nil
}
