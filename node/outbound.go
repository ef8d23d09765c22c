package node

import (
	"log/slog"
	"syscall"

	"github.com/eventrelay/relay/dispatcher"
	"github.com/eventrelay/relay/pkg/egress"
)

// deliveryTransport makes the way to destinations, and bounds the requests of the dispatcher by the open files.
func (n *Node) deliveryTransport(cfg *dispatcher.Config) (*egress.Transport, error) {
	files := openFiles()
	sending, idle := outbound(files, cfg.MaxSending)
	cfg.MaxSending = sending
	if files < fewFiles {
		n.log.LogAttrs(n.st.Context(), slog.LevelWarn,
			"few open files are allowed, which bounds requests to destinations: raise ulimit -n",
			slog.Int("files", files), slog.Int("requests", sending))
	}
	return egress.NewTransport(egress.Config{
		Policy: n.policy, CAFile: n.s.EgressCAFile, DNSServer: n.s.DNSServer, MaxIdle: min(idle, egress.MaxIdle),
	})
}

// Shares of the node's open files. What is left is for incoming connections, the engines, the command socket and
// connections to Kafka, ClickHouse and Redis.
const (
	sendingShare = 3.0 / 8 // for requests to destinations
	idleShare    = 1.0 / 8 // for connections to destinations that are kept idle
	// fewFiles is a limit that a busy node may reach: a destination that hangs holds up to 1,000 files.
	fewFiles = 8192
	// maxFiles stands for any number above it, and for no limit.
	maxFiles = 1 << 20
)

// openFiles returns how many files this process may have open. The package os has raised the soft limit to the hard
// one before main.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fewFiles
	}
	return int(min(uint64(limit.Cur), maxFiles))
}

// outbound divides a limit of open files: how many requests there may be at the same time, most at most, and how many
// idle connections.
func outbound(files, most int) (sending, idle int) {
	sending = max(int(float64(files)*sendingShare), 1)
	return min(sending, most), max(int(float64(files)*idleShare), 1)
}
