package main

import (
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// embeddedKept is how much of the embedded log is kept although it was done, in bytes: the engine reads all of it
// when it starts, a gigabyte in 1.4 s.
const embeddedKept = 1 << 30

// startTrimmer deletes from the log what everybody has done. It waits to be told that this node is the one.
func (n *node) startTrimmer() error {
	cfg := stream.DefaultTrimConfig()
	cfg.Keep = time.Duration(n.s.LogKeepMinutes) * time.Minute
	if n.s.embedded {
		cfg.MaxBytes = embeddedKept
	}
	var err error
	if n.trimmer, err = stream.NewTrimmer(cfg, stream.TrimDeps{Log: n.log, Stream: n.stream, Metrics: n.registry, Now: n.control.Now}); err != nil {
		return err
	}
	n.st.start("trimming of the log", n.trimmer.Run)
	return nil
}
