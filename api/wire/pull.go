package wire

import (
	"github.com/eventrelay/relay/pkg/web"
)

// PulledEvent is an event that a consumer has fetched, with the headers and the body of a delivery.
type PulledEvent struct {
	EventID string `json:"event_id" ref:"EventId"`
	// Names the lease. Acknowledge it.
	AttemptID  string   `json:"attempt_id" ref:"AttemptId"`
	EndpointID string   `json:"endpoint_id" ref:"EndpointId"`
	Type       *string  `json:"type"`
	ReceivedAt web.Time `json:"received_at"`
	// Number of the attempt, as the header `relay-attempt`.
	Attempt int `json:"attempt" minimum:"1"`
	// Until when to acknowledge it. Then it is delivered again.
	LeasedUntil web.Time `json:"leased_until"`
	// Those of a delivery, names in lower case. `webhook-signature` covers the bytes of the body.
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	// `base64` if the body is not UTF-8.
	BodyEncoding string `json:"body_encoding" ref:"BodyEncoding"`
}

// Pulled is the answer to a pull.
type Pulled struct {
	Data []PulledEvent `json:"data" maxItems:"1000"`
}

// Acknowledgement is what became of an attempt.
type Acknowledgement struct {
	AttemptID string `json:"attempt_id" example:"att_01m7w6h6kk00r00w2s1cbs4f8h"`
	// `acknowledged`: the event is delivered, now or before. `expired`: the lease had ended. `unknown`: the destination
	// has no such lease, or it ended when its node stopped. Expired and unknown ones are delivered again, unless
	// another attempt was acknowledged.
	Status string `json:"status" enum:"acknowledged,expired,unknown"`
}

// Acknowledged is the answer to acknowledgements, one for each, in their order.
type Acknowledged struct {
	Data []Acknowledgement `json:"data" maxItems:"1000"`
}

// Consumer is who pulls a destination.
type Consumer struct {
	Consumer   string   `json:"consumer" example:"worker-1"`
	LastPullAt web.Time `json:"last_pull_at"`
	// A pull waits for events.
	Pulling bool `json:"pulling"`
	// Number of events that it has and has not acknowledged.
	Leases int `json:"leases" minimum:"0"`
}

// Consumers are those of the last hour, up to 100 of each node that has events of the destination.
type Consumers struct {
	Data []Consumer `json:"data"`
}
