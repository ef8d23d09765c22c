package destination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
)

// Fault is why an attempt failed, in words that name what a person can change.
type Fault struct {
	Code    event.ErrorCode
	Message string
}

func (f *Fault) Error() string { return f.Message }

// Faultf makes a Fault.
func Faultf(code event.ErrorCode, format string, args ...any) *Fault {
	return &Fault{code, fmt.Sprintf(format, args...)}
}

// Failed completes an attempt that failed with a Fault or with an error of the network. What is too large is not
// retried.
func Failed(attempt *event.Attempt, err error, timeout time.Duration) Result {
	result := Result{Lane: lane.Failed, Classification: Classification{Class: Retryable}}
	var proxy *egress.ProxyError
	var fault *Fault
	switch {
	case errors.As(err, &proxy):
		result.Unsent = proxy
	case errors.As(err, &fault):
		result.Code, attempt.ErrorMessage = fault.Code, fault.Message
	case errors.Is(err, context.DeadlineExceeded):
		result.Lane, result.Code = lane.TimedOut, event.CodeTimeout
		attempt.ErrorMessage = fmt.Sprintf("no answer of the destination within %v", timeout)
	default:
		result.Code, attempt.ErrorMessage = egress.Classify(err), egress.Message(err)
	}
	if result.Code == event.CodeTooLarge {
		result.Class, result.Reason, result.Lane = Final, event.TooLarge, lane.Rejected
	}
	return result
}
