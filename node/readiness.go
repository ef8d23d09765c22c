package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/wait"
)

// newReadiness creates the checks of what this node needs to serve, which run once a second. Start waits for the first.
func newReadiness(n *Node) (runFunc, error) {
	n.readiness = api.NewReadiness(n.Log, n.checks())
	n.registry.MustRegister(n.readiness)
	return n.readiness.Run, nil
}

// Rounds returns how many rounds of the checks have ended: one a second in a node that is alive.
func (n *Node) Rounds() uint64 { return n.readiness.Rounds() }

// awaitLeaving makes the node not ready and returns when load balancers have had the time to notice. After the failure
// of a component it returns at once: others serve better. No context ends the wait: it begins when the context
// of the server has ended.
func (n *Node) awaitLeaving() {
	delay := n.Settings.StopDelay()
	if delay == 0 || n.stack.Failed() {
		return
	}
	n.readiness.Stop()
	n.Log.Info("stopping: /readyz answers 503, requests are taken for a while", "delay", delay)
	<-time.After(delay)
}

// storeCheckEvery is how often ClickHouse is asked while it answers: two statements each time, most of what the store
// of an idle node does. Reads report at once that it does not answer.
const storeCheckEvery = 5 * time.Second

// firstDamageSearch is when the store is first searched for damage, damageSearchEvery how often from then on.
const firstDamageSearch, damageSearchEvery = 30 * time.Second, 10 * time.Minute

// checkDamage returns an error if the store is damaged.
func (n *Node) checkDamage(context.Context) error {
	if found := n.damage.Load(); found != nil && len(*found) > 0 {
		return errors.New(strings.Join(*found, "; "))
	}
	return nil
}

// newDamage searches the store for damage from time to time.
func newDamage(n *Node) (runFunc, error) {
	return func(ctx context.Context) error {
		for pause := firstDamageSearch; wait.For(ctx, pause) == nil; pause = damageSearchEvery {
			if found, err := n.Reader.Damage(ctx); err == nil { // else the check of the store fails
				n.damage.Store(&found)
			}
		}
		return nil
	}, nil
}

// checks returns one check for each thing that a node with these roles uses. The store is optional: without it a node
// still takes events and changes of the configuration, and no other node could do more. If it were required, a pause of
// ClickHouse would take all nodes with the role api out of the load balancer at once.
func (n *Node) checks() []api.Check {
	checks := []api.Check{{Name: "configuration", Func: func(context.Context) error {
		if age, ok := n.Control.Lease(); !ok {
			return fmt.Errorf("%w: last confirmed %v ago", config.ErrLease, age.Round(time.Millisecond))
		}
		return nil
	}}, {Name: "clock", Func: func(context.Context) error {
		if skew := n.Control.ClockSkew(); skew.Abs() > id.MaxAhead {
			return fmt.Errorf("the broker's clock is %v ahead of this node's", skew.Round(time.Millisecond))
		}
		return nil
	}}, {Name: "ids", Func: func(context.Context) error {
		if ahead := n.ids.Ahead(); ahead > id.MaxAhead {
			return fmt.Errorf("issued ids are ahead of the clock by %v: no event is accepted for another %v", ahead,
				ahead-id.MaxAhead)
		}
		return nil
	}}}
	if n.Settings.HasRole(nodeconfig.RoleAPI) {
		checks = append(checks, api.Check{Name: "store", Func: n.Reader.Ping, Optional: true, Every: storeCheckEvery},
			api.Check{Name: "stored data", Func: n.checkDamage, Optional: true})
	}
	return checks
}
