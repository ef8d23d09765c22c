package dispatcher

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/event"
)

// attemptClass is what the answer of an attempt means for its delivery.
type attemptClass int

const (
	classDelivered attemptClass = iota
	classRetryable              // another attempt may succeed
	classFinal                  // no other attempt is made
)

// headerSteer is the header of an answer by which a receiver steers its deliveries: abort-message ends one that it has
// not accepted, disable also disables the destination.
const (
	headerSteer  = "Webhook-Delivery"
	steerAbort   = "abort-message"
	steerDisable = "disable"
)

// steer applies what a receiver asks for to the classification of its answer.
func (c classification) steer(asked string) classification {
	switch {
	case c.class == classDelivered:
	case strings.EqualFold(asked, steerAbort):
		c.class, c.reason = classFinal, event.ReceiverAborted
	case strings.EqualFold(asked, steerDisable):
		c.class, c.reason = classFinal, event.ReceiverDisabled
	}
	return c
}

// classification is the result of classify. The recorded attempt, the metric and the log share it.
type classification struct {
	class  attemptClass
	code   event.ErrorCode // empty when delivered
	reason event.Reason    // of classFinal
}

// classify classifies the answer of a receiver: a status, or the error code of a request that got none.
//
// Errors of the network, DNS, TLS, the egress guard and the relay itself are retryable: each may pass or be repaired.
// So are 408, 409, 425, 429 and every 5xx. 410 ends the delivery. Other 3xx and 4xx are retryable if retryOn names
// their class ("4xx") or the code itself.
func classify(status int, failure event.ErrorCode, retryOn []string) classification {
	if status == 0 {
		return classification{class: classRetryable, code: failure}
	}
	if status >= 200 && status < 300 {
		return classification{class: classDelivered}
	}
	classified := classification{class: classRetryable, code: event.CodeHTTPStatus}
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		classified.code = event.CodeRedirectBlocked
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return classified
	case http.StatusGone:
		return classification{class: classFinal, code: event.CodeHTTPStatus, reason: event.Gone410}
	}
	class := status / 100
	if (class == 3 || class == 4) &&
		!slices.Contains(retryOn, strconv.Itoa(class)+"xx") && !slices.Contains(retryOn, strconv.Itoa(status)) {
		classified.class, classified.reason = classFinal, event.NotRetryable
	}
	return classified
}
