package command

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// The unit of the packages waits for READY=1, and confines the node to its data directory.
func TestUnitConfinesTheNode(t *testing.T) {
	unit := strings.Split(string(must.Get(os.ReadFile("../deploy/linux/relay.service"))(t)), "\n")
	for _, line := range []string{
		"Type=notify", "User=relay", "WatchdogSec=60", "TimeoutStopSec=60", "Restart=always", "LimitNOFILE=65536",
		"ExecStart=/usr/bin/relay serve", "EnvironmentFile=/etc/relay/relay.env", "Environment=RELAY_DATA_DIR=/var/lib/relay",
		"StateDirectory=relay", "StateDirectoryMode=0700", "ReadWritePaths=/var/lib/relay", "ProtectSystem=strict",
		"NoNewPrivileges=yes", "PrivateTmp=yes", "PrivateDevices=yes", "ProtectHome=yes",
		"AmbientCapabilities=CAP_NET_BIND_SERVICE", "SystemCallFilter=@system-service",
	} {
		if !slices.Contains(unit, line) {
			t.Errorf("relay.service has no %s", line)
		}
	}
}
