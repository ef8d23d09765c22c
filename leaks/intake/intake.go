// Package intake has what the sources of hits share: what a hit says of untrusted text and our own API keys (hit.go),
// the bounds of new findings (bounds.go), the wait for the log (produce.go), and the counters of what a sender has sent
// (counters.go).
package intake

import (
	"context"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
)

// Configuration is the part of the configuration that the bounds need.
type Configuration interface {
	// HasFinding reports whether the configuration has a finding with that id.
	HasFinding(id string) bool
	// RemainingFindings returns how many new findings of a severity a sender may open; see config.Control.
	RemainingFindings(sender string, severity finding.Severity) int
}

// Producer appends a record and calls done once, when the record is durable or was given up.
type Producer interface {
	ProduceUnordered(topic string, partition int32, r *stream.Record, done func(*stream.Record, error))
}

// Distinct bounds how many different members a set gets; see limit.Distinct.
type Distinct interface {
	Admit(ctx context.Context, key string, members []string, most int) []bool
}
