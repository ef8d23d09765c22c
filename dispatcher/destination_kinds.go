package dispatcher

import (
	"fmt"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/destination/kafka"
	"github.com/eventrelay/relay/dispatcher/destination/pull"
	"github.com/eventrelay/relay/dispatcher/destination/s3"
	"github.com/eventrelay/relay/dispatcher/destination/sqs"
	"github.com/eventrelay/relay/dispatcher/destination/webhook"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/egress"
)

// destinationKinds are all kinds of destinations by the name of their settings; that of webhooks is empty.
type destinationKinds map[string]destination.Kind

// newKinds makes every kind of destination.
func newKinds(deps Deps, version string, pulls *pull.Kind) destinationKinds {
	all := destinationKinds{"pull": pulls, "": webhook.New(webhook.Deps{Transport: deps.Transport,
		Keyring: deps.Keyring, Now: deps.Now, Version: version})}
	if guard, ok := deps.Transport.(*egress.Transport); ok { // else a test has replaced it
		all["sqs"] = sqs.New(sqs.Deps{Transport: guard, Keyring: deps.Keyring, Now: deps.Now})
		all["s3"] = s3.New(s3.Deps{Transport: guard, Keyring: deps.Keyring, Now: deps.Now})
		all["kafka"] = kafka.New(kafka.Deps{Dial: guard.Dial, Keyring: deps.Keyring, Now: deps.Now, Version: version})
	}
	return all
}

// open opens a destination of any kind.
func (k destinationKinds) open(e *config.Endpoint, dest *config.Destination) (lane.Target, error) {
	name, _ := dest.Kind()
	kind := k[name]
	if kind == nil {
		return nil, fmt.Errorf("destination %s has the kind %s, which this node does not know", dest.ID, name)
	}
	return kind.Open(e, dest)
}
