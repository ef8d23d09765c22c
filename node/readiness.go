package node

import (
	"context"
	"fmt"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/id"
)

// startReadiness checks what this node needs to serve, and returns when it has done so once.
func (n *Node) startReadiness() (*api.Readiness, error) {
	r := api.NewReadiness(n.log, n.checks())
	n.st.Start("readiness", r.Run)
	return r, n.st.Ready(r.Checked())
}

// checks are what a node with its roles needs to serve.
func (n *Node) checks() []api.Check {
	checks := []api.Check{{Name: "configuration", Func: func(context.Context) error {
		if age, ok := n.control.Lease(); !ok {
			return fmt.Errorf("%w: last confirmed %v ago", control.ErrLease, age.Round(time.Millisecond))
		}
		return nil
	}}}
	checks = append(checks, api.Check{Name: "clock", Func: func(context.Context) error {
		if skew := n.control.ClockSkew(); skew.Abs() > id.MaxAhead {
			return fmt.Errorf("the broker's clock is %v ahead of this node's", skew.Round(time.Millisecond))
		}
		return nil
	}}, idCheck(n.ids))
	if n.s.has("api") {
		checks = append(checks, api.Check{Name: "store", Func: n.reader.Ping})
	}
	return checks
}
