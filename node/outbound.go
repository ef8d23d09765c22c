package node

import (
	"context"
	"log/slog"
	"slices"
	"syscall"

	"github.com/eventrelay/relay/dispatcher"
	"github.com/eventrelay/relay/pkg/egress"
)

// outbound returns the settings of all requests to URLs of customers: which addresses they may reach, which root
// certificates they trust, which DNS server they ask, and through which proxy they go.
func (n *Node) outbound() egress.Config {
	return egress.Config{Policy: n.Policy, CAFile: n.Settings.EgressCAFile, DNSServer: n.Settings.DNSServer,
		Proxy: n.Settings.EgressProxy, Inside: n.Inside}
}

// deliveryTransport creates the transport to destinations, and bounds the dispatcher's concurrent requests by the files
// that the process may open.
func (n *Node) deliveryTransport(cfg *dispatcher.Config) (*egress.Transport, error) {
	files := openFiles()
	sending, idle := outboundLimits(files, cfg.MaxSending)
	cfg.MaxSending = sending
	if files < fewFiles {
		n.Log.LogAttrs(n.stack.Context(), slog.LevelWarn,
			"the limit of open files bounds requests to destinations: raise ulimit -n",
			slog.Int("files", files), slog.Int("requests", sending))
	}
	out := n.outbound()
	out.MaxIdle = min(idle, egress.MaxIdle)
	return egress.NewTransport(out)
}

// Shares of the files that the process may open. The rest is for inbound connections, the engines, the command socket
// and connections to Kafka, ClickHouse and Redis.
const (
	sendingShare = 3.0 / 8 // for requests to destinations
	idleShare    = 1.0 / 8 // for connections to destinations that are kept idle
	// fewFiles is the number of files below which the node logs a warning when it starts: one hanging destination holds up
	// to 1,000 files.
	fewFiles = 8192
	// maxFiles counts for higher limits and for an unlimited number.
	maxFiles = 1 << 20
)

// openFiles returns how many files this process may open. Package os has raised the soft limit to the hard one at
// start.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fewFiles
	}
	return int(min(uint64(limit.Cur), maxFiles))
}

// outboundLimits returns how many requests to destinations may run at once, at most most, and how many connections may
// be kept idle, for a process that may open this many files.
func outboundLimits(files, most int) (sending, idle int) {
	sending = max(int(float64(files)*sendingShare), 1)
	return min(sending, most), max(int(float64(files)*idleShare), 1)
}

// newOwn creates the list of the addresses of this machine and of the engines, which no delivery may reach.
func newOwn(n *Node) (runFunc, error) {
	own, err := egress.NewOwnAddrs(n.stack.Context(), n.Log, func(ctx context.Context) []string {
		if n.Settings.Embedded {
			return nil
		}
		brokers, err := n.Producer.BrokerHosts(ctx)
		if err != nil {
			n.Log.LogAttrs(ctx, slog.LevelWarn, "cannot list the Kafka brokers: deliveries to some of them are not refused",
				slog.Any("error", err))
		}
		hosts := append(n.Settings.EngineHosts(), brokers...)
		slices.Sort(hosts)
		return slices.Compact(hosts)
	})
	if err != nil {
		return nil, err
	}
	n.Policy.OwnAddrs = own
	return own.Run, nil
}
