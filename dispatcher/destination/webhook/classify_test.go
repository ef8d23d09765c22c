package webhook

import (
	"testing"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

func TestClassify(t *testing.T) {
	both := []string{"3xx", "4xx"}
	f := func(status int, failure event.ErrorCode, retryOn []string, want destination.Classification) {
		t.Helper()
		is.Equal(t, Classify(status, failure, retryOn), want, "%d %s with retry_on %v", status, failure, retryOn)
	}
	again := func(code event.ErrorCode) destination.Classification {
		return destination.Classification{Class: destination.Retryable, Code: code}
	}
	final := func(code event.ErrorCode, r event.Reason) destination.Classification {
		return destination.Classification{Class: destination.Final, Code: code, Reason: r}
	}
	for _, status := range []int{200, 201, 202, 204, 206, 299} {
		f(status, "", nil, destination.Classification{})
	}
	for _, status := range []int{408, 409, 425, 429, 500, 502, 503, 504, 599, 101, 600, 999} {
		f(status, "", nil, again(event.CodeHTTPStatus))
	}
	f(410, "", both, final(event.CodeHTTPStatus, event.Gone410))
	f(410, "", []string{"410"}, final(event.CodeHTTPStatus, event.Gone410))
	f(400, "", both, again(event.CodeHTTPStatus))
	f(404, "", nil, final(event.CodeHTTPStatus, event.NotRetryable))
	f(404, "", []string{"404"}, again(event.CodeHTTPStatus))
	f(401, "", []string{"404", "3xx"}, final(event.CodeHTTPStatus, event.NotRetryable))
	for _, status := range []int{301, 302, 303, 307, 308} {
		f(status, "", both, again(event.CodeRedirectBlocked))
		f(status, "", []string{"4xx"}, final(event.CodeRedirectBlocked, event.NotRetryable))
	}
	f(304, "", both, again(event.CodeHTTPStatus))
	f(302, "", []string{"302"}, again(event.CodeRedirectBlocked))
	for _, code := range []event.ErrorCode{
		event.CodeTimeout, event.CodeDNS, event.CodeConnectionRefused, event.CodeConnectionReset,
		event.CodeNetworkUnreachable,
		event.CodeNetwork, event.CodeTLS, event.CodeAddressBlocked, event.CodeResponseTooLarge, event.CodeInternal,
	} {
		f(0, code, nil, again(code))
	}
}
