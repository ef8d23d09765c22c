package dispatcher

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/eventrelay/relay/pkg/event"
)

// fate is what an attempt means for its delivery.
type fate int

const (
	delivered fate = iota
	retry
	fail
)

// classification is the judgement of one attempt. It is shared by the recorded row, the metric and the log.
type classification struct {
	fate   fate
	code   event.ErrorCode // empty when delivered
	reason event.Reason    // of a failure for good
}

// classify judges what a receiver did: a status, or the error code of a request that got none.
//
// Errors of the network, of names, of TLS, of the egress guard and of our own side are retried: each
// can pass by itself or be mended by the receiver. So are 408, 409, 425, 429 and every 5xx; 410 ends
// the delivery; other 3xx and 4xx are retried when retryOn names their class or the code itself.
func classify(status int, failure event.ErrorCode, retryOn []string) classification {
	if status == 0 {
		return classification{fate: retry, code: failure}
	}
	if status >= 200 && status < 300 {
		return classification{fate: delivered}
	}
	v := classification{fate: retry, code: event.CodeHTTPStatus}
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		v.code = event.CodeRedirectBlocked
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return v
	case http.StatusGone:
		return classification{fate: fail, code: event.CodeHTTPStatus, reason: event.Gone410}
	}
	class := status / 100
	if (class == 3 || class == 4) &&
		!slices.Contains(retryOn, strconv.Itoa(class)+"xx") && !slices.Contains(retryOn, strconv.Itoa(status)) {
		v.fate, v.reason = fail, event.NotRetryable
	}
	return v
}
