package event

import (
	"net/netip"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

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

// Field numbers of an attempt within an outcome. As in [Outcome], a number is never reused.
const (
	aID = iota + 1
	aStartedAt
	aTrigger
	aOK
	aCode
	aErrorCode
	aErrorMessage
	aDurationUS
	aTTFBUS
	aRetryAfterS
	aRemoteIP
	aURL
	aMethod
	_ // 14 and 15 were the headers as lists of name and value
	_
	aResponseBody
	aTruncated
	aRequestHeader
	aResponseHeader
	aTransformationVersion
	aTrace
)

func (a *Attempt) append(b []byte) []byte {
	b = appendBytes(b, aID, a.ID[:])
	b = appendInt(b, aStartedAt, unixMilli(a.StartedAt))
	b = appendString(b, aTrigger, string(a.Trigger))
	b = appendInt(b, aOK, int64(protowire.EncodeBool(a.OK)))
	b = appendInt(b, aCode, int64(a.Code))
	b = appendString(b, aErrorCode, string(a.ErrorCode))
	b = appendString(b, aErrorMessage, a.ErrorMessage)
	b = appendInt(b, aDurationUS, a.Duration.Microseconds())
	b = appendInt(b, aTTFBUS, a.TTFB.Microseconds())
	b = appendInt(b, aRetryAfterS, int64(a.RetryAfter/time.Second))
	if a.RemoteIP.IsValid() {
		b = appendBytes(b, aRemoteIP, a.RemoteIP.AsSlice())
	}
	b = appendString(b, aURL, a.URL)
	b = appendString(b, aMethod, a.Method)
	b = appendBytes(b, aResponseBody, a.ResponseBody)
	b = appendInt(b, aTruncated, int64(protowire.EncodeBool(a.Truncated)))
	b = appendString(b, aRequestHeader, string(a.RequestHeader))
	b = appendString(b, aResponseHeader, string(a.ResponseHeader))
	b = appendInt(b, aTransformationVersion, int64(a.TransformationVersion))
	return appendString(b, aTrace, a.Trace)
}

func (a *Attempt) decode(v []byte) error {
	return eachField(v, func(num protowire.Number, b []byte, n int64) error {
		switch num {
		case aID:
			return readID(&a.ID, b)
		case aStartedAt:
			a.StartedAt = fromMilli(n)
		case aTrigger:
			a.Trigger = triggerOf(b)
		case aOK:
			a.OK = n != 0
		case aCode:
			a.Code = int(n)
		case aErrorCode:
			a.ErrorCode = ErrorCode(b)
		case aErrorMessage:
			a.ErrorMessage = string(b)
		case aDurationUS:
			a.Duration = time.Duration(n) * time.Microsecond
		case aTTFBUS:
			a.TTFB = time.Duration(n) * time.Microsecond
		case aRetryAfterS:
			a.RetryAfter = time.Duration(n) * time.Second
		case aRemoteIP:
			a.RemoteIP, _ = netip.AddrFromSlice(b)
		case aURL:
			a.URL = string(b)
		case aMethod:
			a.Method = string(b)
		case aRequestHeader:
			a.RequestHeader = Lines(b)
		case aResponseHeader:
			a.ResponseHeader = Lines(b)
		case aResponseBody:
			a.ResponseBody = b
		case aTruncated:
			a.Truncated = n != 0
		case aTransformationVersion:
			a.TransformationVersion = int(n)
		case aTrace:
			a.Trace = string(b)
		}
		return nil
	})
}
