package node

import (
	"github.com/eventrelay/relay/dispatcher/recovery"
	"github.com/eventrelay/relay/pkg/id"
)

// newRecovery creates the runner of recovery jobs for the partitions that this node dispatches.
func newRecovery(n *Node) (runFunc, error) {
	r, err := recovery.New(recovery.Deps{
		Log: n.log, Jobs: n.control, Endpoints: n.control, Store: n.reader, Submitter: submitter{n.producer},
		Now:     n.control.Now,
		NewName: func() string { return id.Random("") },
	})
	if err != nil {
		return nil, err
	}
	n.recovery = r
	return r.Run, nil
}
