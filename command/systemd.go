package command

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"time"
)

// systemd tells the service manager what this process does (sd_notify): that it is ready, that it stops, and in
// between that it is alive.
type systemd struct {
	socket   string        // NOTIFY_SOCKET
	watchdog time.Duration // without a sign of life for so long the process is ended; 0 = never
	rounds   func() uint64 // a node that is alive counts on
	log      *slog.Logger
}

// newSystemd returns nil if no service manager waits for messages.
func newSystemd(getenv func(string) string, rounds func() uint64, log *slog.Logger) *systemd {
	if getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	usec, _ := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64) // unset: without a watchdog
	return &systemd{getenv("NOTIFY_SOCKET"), time.Duration(usec) * time.Microsecond, rounds, log}
}

// Run begins when the node is ready. It is the last component that starts, and so the first that stops.
func (m *systemd) Run(ctx context.Context) error {
	m.notify(ctx, "READY=1")
	var ticks <-chan time.Time
	if m.watchdog > 0 {
		ticker := time.NewTicker(m.watchdog / 3)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for last := uint64(0); ; {
		select {
		case <-ctx.Done():
			m.notify(context.WithoutCancel(ctx), "STOPPING=1")
			return nil
		case <-ticks:
			if now := m.rounds(); now != last {
				last = now
				m.notify(ctx, "WATCHDOG=1")
			}
		}
	}
}

// notify sends one message. Without it the service manager decides what to do; the node serves on.
func (m *systemd) notify(ctx context.Context, message string) {
	conn, err := new(net.Dialer).DialContext(ctx, "unixgram", m.socket) // a name with @ is abstract
	if err == nil {
		defer conn.Close()
		_, err = conn.Write([]byte(message))
	}
	if err != nil {
		m.log.WarnContext(ctx, "cannot notify systemd", "message", message, "error", err)
	}
}
