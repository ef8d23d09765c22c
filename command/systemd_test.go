package command

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// systemd hears that the node is ready, a sign of life in each third of the watchdog's time while the node's checks go
// on, none while they hang, and that the node stops.
func TestSystemdIsNotified(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket}))(t)
	defer conn.Close()
	env := map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "60000000"}
	getenv := func(name string) string { return env[name] }
	var got []string
	synctest.Test(t, func(t *testing.T) {
		var rounds atomic.Uint64
		m := newSystemd(getenv, rounds.Load, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		for _, now := range []uint64{1, 2, 2, 2, 3} {
			rounds.Store(now)
			time.Sleep(20 * time.Second)
			synctest.Wait()
		}
		stop()
		must.Do(t, <-ended)
	})
	for b := make([]byte, 64); !slices.Contains(got, "STOPPING=1"); {
		n := must.Get(conn.Read(b))(t)
		got = append(got, string(b[:n]))
	}
	is.Equal(t, strings.Join(got, " "), "READY=1 WATCHDOG=1 WATCHDOG=1 WATCHDOG=1 STOPPING=1", "systemd heard")
	if env["NOTIFY_SOCKET"] = ""; newSystemd(getenv, nil, nil) != nil {
		t.Error("without NOTIFY_SOCKET somebody is notified")
	}
}

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
