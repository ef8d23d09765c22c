package kafka

import (
	"errors"
	"fmt"
	"net/netip"
)

// Config is how an embedded broker is set up.
type Config struct {
	// Listen is the address to serve on. Clients are told to connect to it, so its host is an IP
	// address of this machine and not the unspecified one. Port 0 takes a free port.
	Listen string
	// DataDir is the directory of the log, made when it is absent. One process at a time holds it.
	DataDir string
	// Fsync makes acknowledgements of durable topics wait for the disk. Without it they survive the
	// death of the process but not the loss of power.
	Fsync bool
	// MaxMessageBytes bounds a batch, in bytes, on topics that do not set max.message.bytes.
	MaxMessageBytes int
	// Durable says of a topic whether a produce request is answered only after its records are on
	// disk. Nil means stream.DurableTopic.
	Durable func(topic string) bool
}

// DefaultConfig returns the settings of `relay dev`, without a data directory.
func DefaultConfig() Config {
	return Config{
		Listen:          "127.0.0.1:0",
		Fsync:           true,
		MaxMessageBytes: 2 << 20, // 1 MiB of body, the default of RELAY_MAX_BODY, and 1 MiB for the rest
	}
}

// Validate reports all faults at once.
func (c Config) Validate() error {
	var errs []error
	if addr, err := netip.ParseAddrPort(c.Listen); err != nil {
		errs = append(errs, fmt.Errorf("parse listen address %q: %w", c.Listen, err))
	} else if addr.Addr().IsUnspecified() {
		errs = append(errs, fmt.Errorf("listen address %q names no host that clients could connect to", c.Listen))
	}
	if c.DataDir == "" {
		errs = append(errs, errors.New("no data directory"))
	}
	if c.MaxMessageBytes < 1<<10 || c.MaxMessageBytes > maxFrame {
		errs = append(errs, fmt.Errorf("max message bytes %d: must be between 1 KiB and 100 MiB", c.MaxMessageBytes))
	}
	return errors.Join(errs...)
}
