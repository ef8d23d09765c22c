// Package pull is what the API and the dispatcher know of destinations that consumers pull: what is asked for and
// answered. The node that owns an event's partition answers (package dispatcher/destination/pull); [Router] asks it,
// whichever node got the request.
package pull

import (
	"context"
	"errors"
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// Bounds of a pull.
const (
	MaxEvents    = 1000
	MaxWait      = 30 * time.Second
	MaxConsumers = 100 // of a destination, on a node
	// MaxBytes bounds the bodies and headers of an answer, unless its only event is larger.
	MaxBytes = 1 << 20
)

var (
	// ErrBusy means that another pull of the consumer waits.
	ErrBusy = errors.New("the consumer already pulls")
	// ErrTooMany means that the destination has MaxConsumers, or the node as many requests of others as it takes.
	ErrTooMany = errors.New("too many consumers pull")
	// ErrUnavailable means that the owner of the events cannot be asked now.
	ErrUnavailable = errors.New("the node that has the events of the destination cannot be asked")
)

// Request asks for events of a destination, or acknowledges attempts.
type Request struct {
	Destination string
	Consumer    string        `json:",omitempty"` // of a pull
	Max         int           `json:",omitempty"`
	Wait        time.Duration `json:",omitempty"`
	Attempts    []id.ID       `json:",omitempty"` // to acknowledge
}

// Event is an event that a consumer has until LeasedUntil to acknowledge.
type Event struct {
	ID, Attempt    id.ID
	Number         int // of the attempt
	Endpoint, Type string
	Header         map[string]string // of the delivery, names in lower case
	Body           []byte
	LeasedUntil    time.Time
}

// State is what became of an acknowledgement.
type State string

// States of acknowledgements.
const (
	Acknowledged State = "acknowledged" // recorded, now or before
	Expired      State = "expired"      // its lease has ended: the event is delivered again
	Unknown      State = "unknown"      // no such lease, or it ended with its node: the event is delivered again
)

// Consumer is who pulls a destination.
type Consumer struct {
	Name     string
	LastPull time.Time
	Pulling  bool // a pull waits for events
	Leases   int
}

// Answer is the answer to a request, as far as it asks for it.
type Answer struct {
	Events    []Event    `json:",omitempty"`
	States    []State    `json:",omitempty"` // of Attempts, in their order
	Consumers []Consumer `json:",omitempty"`
}

// Owner answers for the events of partitions that it owns.
type Owner interface {
	Pull(context.Context, Request) ([]Event, error)
	// Acknowledge returns when what it says is durable.
	Acknowledge(context.Context, Request) ([]State, error)
	Consumers(destination string) []Consumer
	// TakeBack ends leases as if nobody had pulled: the answer has reached nobody.
	TakeBack(Request)
}
