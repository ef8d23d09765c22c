package webhook

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/event"
)

// headerSteer is the header of an answer by which a receiver steers its deliveries: abort-message ends one that it has
// not accepted, disable also disables the destination.
const (
	headerSteer  = "Webhook-Delivery"
	steerAbort   = "abort-message"
	steerDisable = "disable"
)

// steer applies what a receiver asks for to the classification of its answer.
func steer(c destination.Classification, asked string) destination.Classification {
	switch {
	case c.Class == destination.Delivered:
	case strings.EqualFold(asked, steerAbort):
		c.Class, c.Reason = destination.Final, event.ReceiverAborted
	case strings.EqualFold(asked, steerDisable):
		c.Class, c.Reason = destination.Final, event.ReceiverDisabled
	}
	return c
}

// Classify classifies the answer of a receiver: a status, or the error code of a request that got none.
//
// Errors of the network, DNS, TLS, the egress guard and the relay itself are retryable: each may pass or be repaired.
// So are 408, 409, 425, 429 and every 5xx. 410 ends the delivery. Other 3xx and 4xx are retryable if retryOn names
// their class ("4xx") or the code itself.
func Classify(status int, failure event.ErrorCode, retryOn []string) destination.Classification {
	if status == 0 {
		return destination.Classification{Class: destination.Retryable, Code: failure}
	}
	if status >= 200 && status < 300 {
		return destination.Classification{Class: destination.Delivered}
	}
	classified := destination.Classification{Class: destination.Retryable, Code: event.CodeHTTPStatus}
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		classified.Code = event.CodeRedirectBlocked
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return classified
	case http.StatusGone:
		return destination.Classification{Class: destination.Final, Code: event.CodeHTTPStatus, Reason: event.Gone410}
	}
	class := status / 100
	if (class == 3 || class == 4) &&
		!slices.Contains(retryOn, strconv.Itoa(class)+"xx") && !slices.Contains(retryOn, strconv.Itoa(status)) {
		classified.Class, classified.Reason = destination.Final, event.NotRetryable
	}
	return classified
}

// laneResult is what an attempt says of the destination. A status 4xx is about the request: the destination works.
// Three of them are not: it was not ready (408, 425) or has too much to do (429).
func laneResult(status int, c destination.Classification) lane.ResultKind {
	switch {
	case c.Class == destination.Delivered:
		return lane.Succeeded
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return lane.Failed
	case status/100 == 4:
		return lane.Rejected
	case c.Code == event.CodeTimeout:
		return lane.TimedOut
	}
	return lane.Failed
}

// ParseRetryAfter reads the Retry-After header (RFC 9110, 10.2.3): seconds or a date. Malformed values and past dates
// are 0.
func ParseRetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		s, err := strconv.ParseUint(value, 10, 63)
		if err != nil {
			return destination.MaxRetryAfter // more digits than an integer holds
		}
		return time.Duration(min(s, uint64(destination.MaxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), destination.MaxRetryAfter)
}
