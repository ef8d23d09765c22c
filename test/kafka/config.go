package kafka

import "errors"

// Config is the configuration of a broker.
type Config struct {
	// Listen is the loopback address to serve on. Port 0 chooses a free port.
	Listen string
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
	return Config{Listen: "127.0.0.1:0", Fsync: true, MaxMessageBytes: 2 << 20}
}

// Validate reports a missing data directory.
func (c Config) Validate() error {
	if c.DataDir == "" {
		return errors.New("no data directory is set")
	}
	return nil
}
