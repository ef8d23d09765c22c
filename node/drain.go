package node

import (
	"context"
	"time"

	"github.com/eventrelay/relay/leaks/drain"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/secrets"
)

// newDrain creates the stage behind the URLs of log drains, whose handler newServer serves.
func newDrain(n *Node) (func(context.Context) error, error) {
	scanner, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return nil, err
	}
	n.drains = drain.New(drain.Config{Node: n.s.NodeName, Partitions: n.partitions}, drain.Deps{
		Metrics: n.registry, Config: drainConfig{n.control}, Scanner: scanner, Producer: n.producer, Tokens: n.limiter,
		Records:  n.limiter.NewWindow("drain-records", time.Minute),
		Findings: n.limiter.NewDistinct("drain-findings", drain.NewFindingsSpan),
		Now:      n.now, Front: n.front,
	})
	return n.drains.Run, nil
}

// drainConfig answers what a drain asks of the configuration.
type drainConfig struct{ *config.Control }

func (c drainConfig) HasFinding(id string) bool {
	_, presence := c.Finding(id)
	return presence == config.Present
}

func (c drainConfig) LeakedKey(fingerprint string) (key *config.Key, accepted bool) {
	key = c.KeyByFingerprint(fingerprint)
	return key, key != nil && c.KeyWorks(key)
}
