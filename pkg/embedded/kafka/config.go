package kafka

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Config is how an embedded broker is set up.
type Config struct {
	// Listen is the address to serve on. Clients are told to connect to it, so its host is an IP
	// address of this machine and not the unspecified one. Port 0 takes a free port. With unix:/path it is a unix
	// socket in a directory that only this user can enter; clients then ignore the address that they are told.
	Listen string
	// Secret is the password of the user User, by SASL (PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512). Beyond loopback it is
	// required. Empty: every client is let in.
	Secret string
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
	errs := []error{c.validateListen()}
	if n := len(c.Secret); n > 0 && n < MinSecret {
		errs = append(errs, fmt.Errorf("the key has %d characters, at least %d are needed", n, MinSecret))
	}
	if c.DataDir == "" {
		errs = append(errs, errors.New("no data directory"))
	}
	if c.MaxMessageBytes < 1<<10 || c.MaxMessageBytes > maxFrame {
		errs = append(errs, fmt.Errorf("max message bytes %d: must be between 1 KiB and 100 MiB", c.MaxMessageBytes))
	}
	return errors.Join(errs...)
}

// User is the name that goes with Config.Secret.
const User = "relay"

// MinSecret is how many characters a secret has at least.
const MinSecret = 16

const unixPrefix = "unix:"

func (c Config) validateListen() error {
	if path, unix := strings.CutPrefix(c.Listen, unixPrefix); unix && path != "" {
		return nil
	}
	addr, err := netip.ParseAddrPort(c.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("parse listen address %q: %w", c.Listen, err)
	case addr.Addr().IsUnspecified():
		return fmt.Errorf("listen address %q names no host that clients could connect to; "+
			"give an address of this machine, such as 10.0.0.5:9092", c.Listen)
	case !addr.Addr().Unmap().IsLoopback() && c.Secret == "":
		return fmt.Errorf("listen address %s is not loopback: whoever reaches it could read and write every topic; "+
			"give a key with --key-file or RELAY_ENGINE_KEY", c.Listen)
	}
	return nil
}
