package dispatcher

import (
	"github.com/eventrelay/relay/dispatcher/destination/webhook"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
)

// opener returns the function that opens destinations, with every kind.
func (d *Dispatcher) opener(deps Deps) func(*config.Endpoint, *config.Destination) (lane.Target, error) {
	webhooks := webhook.New(webhook.Deps{Transport: deps.Transport, Keyring: deps.Keyring, Now: deps.Now,
		Spans: deps.Spans, Version: d.cfg.Version})
	return func(e *config.Endpoint, dest *config.Destination) (lane.Target, error) { return webhooks.Open(e, dest) }
}
