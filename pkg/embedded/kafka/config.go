package kafka

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Config is the configuration of an embedded broker.
type Config struct {
	// Listen is the address to serve on. The broker returns it to clients, so its host is an IP address of this machine
	// and not the unspecified one. Port 0 chooses a free port. unix:/path is a unix socket in a directory that only this
	// user may enter; clients dial the socket and ignore the address that the broker returns.
	Listen string
	// Secret is the password of User for SASL (PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512). It is required unless Listen is a
	// loopback address or a socket. Empty: no client needs to authenticate.
	Secret string
	// DataDir is the directory of the log; the broker creates it. One process at a time may use it.
	DataDir string
	// Fsync delays acknowledgements on durable topics until the records are synced to disk. Without it acknowledged
	// records survive the death of the process but not a power failure.
	Fsync bool
	// MaxMessageBytes bounds a record batch on topics that do not set max.message.bytes.
	MaxMessageBytes int
	// Durable reports whether produce requests to a topic are acknowledged only after a sync. nil = stream.DurableTopic.
	Durable func(topic string) bool
}

// DefaultConfig returns a configuration that listens on a free loopback port, with Fsync. It lacks the data directory.
func DefaultConfig() Config {
	return Config{
		Listen:          "127.0.0.1:0",
		Fsync:           true,
		MaxMessageBytes: 2 << 20, // 1 MiB of body, the default of RELAY_MAX_BODY, and 1 MiB for keys and headers
	}
}

// Validate reports all faults at once.
func (c Config) Validate() error {
	errs := []error{c.validateListen()}
	if n := len(c.Secret); n > 0 && n < MinSecret {
		errs = append(errs, fmt.Errorf(
			"the key of --key-file or RELAY_ENGINE_KEY has %d characters; give at least %d", n, MinSecret))
	}
	if c.DataDir == "" {
		errs = append(errs, errors.New("no data directory is set"))
	}
	if c.MaxMessageBytes < 1<<10 || c.MaxMessageBytes > maxFrame {
		errs = append(errs, fmt.Errorf("max message bytes %d: must be between 1 KiB and 100 MiB", c.MaxMessageBytes))
	}
	return errors.Join(errs...)
}

// User is the SASL user name that belongs to Config.Secret.
const User = "relay"

// MinSecret is the minimum length of Config.Secret, in characters.
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
			"set a key with --key-file or RELAY_ENGINE_KEY", c.Listen)
	}
	return nil
}
