package event

import (
	"net/netip"
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// Produce is the method of an attempt that is a record of a Kafka topic.
const Produce = "PRODUCE"

// Attempt is one HTTP request of a delivery, with its answer. The tags are field numbers, as in [Outcome]; 14 and 15
// were the headers as lists of name and value.
type Attempt struct {
	ID             id.ID         `wire:"1"`
	StartedAt      time.Time     `wire:"2"`
	Trigger        Trigger       `wire:"3,intern"`
	OK             bool          `wire:"4"`
	Code           int           `wire:"5"` // HTTP status, 0 = none
	ErrorCode      ErrorCode     `wire:"6"`
	ErrorMessage   string        `wire:"7"` // ≤ 500 bytes
	Duration       time.Duration `wire:"8,us"`
	TTFB           time.Duration `wire:"9,us"`
	RetryAfter     time.Duration `wire:"10,s"`
	RemoteIP       netip.Addr    `wire:"11"`
	URL            string        `wire:"12"` // without credentials
	Method         string        `wire:"13"`
	ResponseBody   []byte        `wire:"16"` // ≤ 16 KiB
	Truncated      bool          `wire:"17"`
	RequestHeader  Lines         `wire:"18"` // credentials masked
	ResponseHeader Lines         `wire:"19"`
	// TransformationVersion is the version of the transformation that made the body; 0: it was sent as it is stored.
	TransformationVersion int    `wire:"20"`
	Trace                 string `wire:"21"` // traceparent of its span, which the request carried; empty: it is not traced
}
