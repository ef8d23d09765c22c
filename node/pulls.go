package node

import "github.com/eventrelay/relay/pkg/pull"

// newRouter creates what passes pulls to the nodes that own the partitions. local is nil without the role dispatch.
func (n *Node) newRouter(local pull.Owner) *pull.Router {
	deps := pull.RouterDeps{Local: local, Key: n.Control.PullKey, Owned: n.Owned}
	if bus := n.settings.Limit().NewBus(); bus != nil && !n.settings.Embedded {
		deps.Bus = bus
	}
	return pull.NewRouter(deps)
}

// newPulls runs the router that newDispatcher has created, or one of a node that only asks.
func newPulls(n *Node) (runFunc, error) {
	if n.pulls == nil {
		n.pulls = n.newRouter(nil)
	}
	return n.pulls.Run, nil
}
