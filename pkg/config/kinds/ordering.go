package kinds

import (
	"cmp"
	"net/http"

	"github.com/eventrelay/relay/pkg/event"
)

// What follows a delivery of an ordered destination that has failed for good.
const (
	BlockAfterFailure = "block"
	SkipFailure       = "skip"
)

// byEndpoint orders all events of an endpoint.
const byEndpoint = "endpoint"

// Ordering is the order in which a destination gets its events.
type Ordering struct {
	By         string `json:"by" in:"" maxLength:"512" pattern:"^(endpoint|(body:[$]|header:)[^|]+)$" label:"By" description:"Which events are delivered one after the other: all of the endpoint, or those with the same value at a path of the JSON body or in a header. Events without a value have no order. Required." example:"body:$.data.id"`
	WhenFailed string `json:"when_failed,omitempty" in:"null" enum:"block,skip" label:"When a delivery has failed for good" description:"block: those behind it wait until a replay or a recovery job has delivered it, or until this is skip. skip: the next one is delivered. Default block."`
}

func (o *Ordering) trim()          { o.WhenFailed = cmp.Or(o.WhenFailed, BlockAfterFailure) }
func (o *Ordering) origin() string { return "" }

func (o *Ordering) validate(Checks) *Fault {
	if o.By == "" {
		return &Fault{"by", "is required"}
	}
	if _, err := o.KeyOf(); err != nil {
		return &Fault{"by", err.Error()}
	}
	return nil
}

// KeyOf returns a function for the key of an event; it returns false for an event without one.
func (o *Ordering) KeyOf() (func(header http.Header, body []byte) (string, bool), error) {
	if o.By == byEndpoint {
		return func(http.Header, []byte) (string, bool) { return "", true }, nil
	}
	key, err := event.ParseDedupKey(o.By)
	return key.Of, err
}
