package nodeconfig

import (
	"context"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/crash"
)

// InspectTime bounds how long commands that ask the engines themselves read the configuration log.
const InspectTime = 15 * time.Second

// Inspect reads the configuration log within InspectTime. Without RELAY_MASTER_KEYS it can neither open secrets nor
// authenticate records; it still shows which entities there are and which master keys sealed them.
func (s Config) Inspect(ctx context.Context) (*config.Control, *seal.Keyring, error) {
	cfg, deps, err := s.Inspection()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, InspectTime)
	defer cancel()
	c, err := config.Inspect(ctx, cfg, deps)
	if s.MasterKeys == "" {
		return c, nil, err
	}
	return c, deps.Keyring, err
}

// Inspection returns what [config.Inspect] needs to read the configuration log without a node.
func (s Config) Inspection() (config.Config, config.Deps, error) {
	spec := s.MasterKeys
	if spec == "" {
		spec = seal.GenerateKey("doctor")
	}
	keyring, err := seal.NewKeyring(spec)
	if err != nil {
		return config.Config{}, config.Deps{}, fmt.Errorf("RELAY_MASTER_KEYS: %w", err)
	}
	return config.Config{Node: "doctor", Partitions: 1, Unverified: s.MasterKeys == ""},
		config.Deps{Stream: s.Stream(), Keyring: keyring, Now: crash.Clock()}, nil
}
