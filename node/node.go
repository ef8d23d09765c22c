// Package node wires and starts one relay process. Begin with [Node] and starts: one list of all components in
// the order in which they start; they stop in reverse, which drains the process.
//
// NewStack and [Start] run a node. Each file below node.go creates components from those that shared.go holds: of the
// engines, of deliveries, of alerts, of what answers requests. The rest serves the process itself: HTTP with TLS and a
// bound on connections, the reloading of certificate files, readiness, metrics and pprof, the command socket, and how
// often the garbage collector runs.
//
// Start returns when the node takes requests. A component that ends by itself ends the whole process, and no component
// stops before those that use it have ended.
package node

import (
	"fmt"
	"log/slog"

	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/nodeconfig"
)

// start is one component of a node.
type start struct {
	name string
	role string // only nodes with this role start it; "" = every node
	// new creates it from those above it, stores it in the node and returns its Run; a nil run = it has no goroutine of
	// its own.
	new func(*Node) (run runFunc, err error)
	// ready returns a channel that is closed when those below may use it; nil = at once.
	ready func(*Node) <-chan struct{}
}

// starts are the components of a node, each on those above it. They stop in reverse.
var starts = []start{
	{name: "heap", new: newHeap},
	{name: "listener", new: newListener},
	{
		name: "configuration", new: newControl,
		ready: func(n *Node) <-chan struct{} { return n.Control.Ready() },
	},
	{name: "check of the configuration", role: nodeconfig.RoleDispatch, new: checkConfiguration},
	{name: "traces", new: newTraces},
	{name: "limiter", new: newLimiter},
	{name: "producer", new: newProducer},
	{name: "own addresses", new: newOwn},
	{name: "uses of keys", new: newUses},
	{name: "store writer", role: nodeconfig.RoleWrite, new: newWriter},
	{name: "store reader", new: newReader},
	{name: "claims", new: newClaims},
	{name: "usage", new: newUsage},
	{name: "recovery", role: nodeconfig.RoleDispatch, new: newRecovery},
	{name: "trimming of the log", role: nodeconfig.RoleDispatch, new: newTrimmer},
	{name: "eraser of payloads", role: nodeconfig.RoleDispatch, new: newEraser},
	{name: "retention of the store", role: nodeconfig.RoleDispatch, new: newExpirer},
	{
		name: "clock", role: nodeconfig.RoleDispatch, new: func(*Node) (runFunc, error) { return nil, nil },
		ready: func(n *Node) <-chan struct{} { return n.Control.ClockKnown() },
	},
	{name: "hooks of features", new: startFeatures(func(p *features.Parts) []features.Start { return p.Hooks })},

	{name: "dispatcher", role: nodeconfig.RoleDispatch, new: newDispatcher},
	{name: "router of pulls", new: newPulls},
	{name: "notifier", new: newNotifier},
	{name: "alerts", role: nodeconfig.RoleDispatch, new: newAlerts},
	{name: "guard of the log", new: newGuard},
	{name: "ingest", new: newIngest},
	{name: "sources", role: nodeconfig.RoleDispatch, new: newSources},
	{name: "stages of features", new: startFeatures(func(p *features.Parts) []features.Start { return p.Stages })},
	{name: "event feed", new: newFeed},
	{name: "search for damage of the store", role: nodeconfig.RoleAPI, new: newDamage},
	{
		name: "readiness", new: newReadiness,
		ready: func(n *Node) <-chan struct{} { return n.readiness.Checked() },
	},
	{name: "api", new: newAPI},
	{name: "callers of features", new: startFeatures(func(p *features.Parts) []features.Start { return p.Callers })},
	{name: "dashboard", role: nodeconfig.RoleAPI, new: newDashboard},
	{name: "certificates", new: newCertificates},
	{name: "admin server", new: newAdminServer}, // if its address is in use, no request is answered
	{name: "http server", new: newServer},
	{name: "redirects to https", new: newRedirects},
	{name: "command socket", new: newSocket},
	{name: "export of metrics", new: newMetricsExport},
}

// Start starts the components that the roles ask for, in their order, and returns when the node takes requests. After
// an error the caller stops the stack.
func Start(stack *Stack, settings nodeconfig.Config, log *slog.Logger, registry Metrics) (*Node, error) {
	keyring, err := seal.NewKeyring(settings.MasterKeys)
	if err != nil {
		return nil, fmt.Errorf("RELAY_MASTER_KEYS: %w", err)
	}
	n := &Node{stack: stack, registry: registry, Host: features.Host{
		Settings: &settings, NodeName: settings.NodeName, InstanceID: settings.InstanceID(), Version: settings.Version,
		Keyring: keyring, DNSServer: settings.DNSServer, ScanInterval: settings.Waits.ScanInterval,
		Log: log, Metrics: registry, Stream: settings.Stream(), Now: crash.Clock(), Policy: settings.EgressPolicy(),
	}}
	n.Outbound, n.Owned = n.outbound, n.ownedPartitions
	n.OpenFiles = func() (most, want int) { return openFiles(), fewFiles }
	for _, f := range Features {
		if f.New != nil {
			n.features = append(n.features, f.New(&n.Host))
		}
	}
	n.ids = newIDs(n.Now, n.Log, n.registry)
	n.registry.MustRegister(processMetrics(settings.DataDir)...)
	n.registry.MustRegister(nodeMetrics(settings)...)
	n.Stream.Log = log
	for _, c := range starts {
		err := n.start(features.Start{Name: c.name, Role: c.role, New: func() (runFunc, error) { return c.new(n) }})
		if err == nil && c.ready != nil && n.plays(c.role) {
			err = stack.Ready(c.ready(n))
		}
		if err != nil {
			return nil, err
		}
	}
	return n, nil
}

// plays reports whether this node starts the components of a role.
func (n *Node) plays(role string) bool { return role == "" || n.Settings.HasRole(role) }

// start creates and runs a component, if its role is one of this node.
func (n *Node) start(c features.Start) error {
	if !n.plays(c.Role) {
		return nil
	}
	run, err := c.New()
	if err == nil && run != nil {
		n.stack.Start(c.Name, run)
	}
	return err
}

// startFeatures starts components of all features.
func startFeatures(of func(*features.Parts) []features.Start) func(*Node) (runFunc, error) {
	return func(n *Node) (runFunc, error) {
		for i := range n.features {
			for _, c := range of(&n.features[i]) {
				if err := n.start(c); err != nil {
					return nil, err
				}
			}
		}
		return nil, nil
	}
}
