package webhook

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/test/is"
)

// A date in Retry-After means that time, however long the request before it has taken.
func TestRetryAfterDateOfASlowRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(80 * time.Second).UTC().Truncate(time.Second)
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			time.Sleep(50 * time.Second)
			return &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {at.Format(http.TimeFormat)}},
				Body: http.NoBody, Request: r}, nil
		})
		work := testWork(t, []byte("x"))
		attempt := newTestClient(transport).send(
			t.Context(), work.Event.ID, testTarget(t, "http://receiver.test"), work, destination.Stored(work))
		if due := time.Now().Add(attempt.RetryAfter); !due.Equal(at) {
			t.Errorf("the next attempt is due %v after the date", due.Sub(at))
		}
	})
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	f := func(value string, want time.Duration) {
		t.Helper()
		is.Equal(t, ParseRetryAfter(value, now), want, value)
	}
	f("", 0)
	f("0", 0)
	f("120", 2*time.Minute)
	f(" 120 ", 2*time.Minute)
	f("-5", 0)
	f("1.5", 0)
	f("soon", 0)
	f("99999999999999", destination.MaxRetryAfter)
	f("99999999999999999999999999999999999999", destination.MaxRetryAfter)
	f("Fri, 21 Aug 2026 12:00:30 GMT", 30*time.Second)
	f("Friday, 21-Aug-26 12:00:30 GMT", 30*time.Second) // the two obsolete forms of RFC 9110, 5.6.7
	f("Fri Aug 21 12:00:30 2026", 30*time.Second)
	f("Fri, 21 Aug 2026 11:59:30 GMT", 0)
	f("Fri, 21 Aug 9999 12:00:00 GMT", destination.MaxRetryAfter)
}
