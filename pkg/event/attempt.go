package event

import (
	"net/netip"
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// Attempt is one HTTP request of a delivery, with its answer.
type Attempt struct {
	ID             id.ID
	StartedAt      time.Time
	Trigger        Trigger
	OK             bool
	Code           int // HTTP status, 0 = none
	ErrorCode      ErrorCode
	ErrorMessage   string // ≤ 500 bytes
	Duration       time.Duration
	TTFB           time.Duration
	RetryAfter     time.Duration
	RemoteIP       netip.Addr
	URL            string // without credentials
	Method         string
	RequestHeader  Lines // credentials masked
	ResponseHeader Lines
	ResponseBody   []byte // ≤ 16 KiB
	Truncated      bool
	// TransformationVersion is the version of the transformation that made the body; 0: it was sent as it is stored.
	TransformationVersion int
	Trace                 string // traceparent of its span, which the request carried; empty: it is not traced
}

func (a *Attempt) fields(c *codec) {
	c.id(1, &a.ID)
	c.time(2, &a.StartedAt)
	c.trigger(3, &a.Trigger)
	c.bool(4, &a.OK)
	c.int(5, &a.Code)
	text(c, 6, &a.ErrorCode)
	text(c, 7, &a.ErrorMessage)
	c.duration(8, &a.Duration, time.Microsecond)
	c.duration(9, &a.TTFB, time.Microsecond)
	c.duration(10, &a.RetryAfter, time.Second)
	c.address(11, &a.RemoteIP)
	text(c, 12, &a.URL)
	text(c, 13, &a.Method)
	// 14 and 15 were the headers as lists of name and value
	c.data(16, &a.ResponseBody)
	c.bool(17, &a.Truncated)
	text(c, 18, &a.RequestHeader)
	text(c, 19, &a.ResponseHeader)
	c.int(20, &a.TransformationVersion)
	text(c, 21, &a.Trace)
}
