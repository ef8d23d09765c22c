package api_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
)

// The ingest limit is merged member by member; null removes one member or the whole limit.
func TestIngestLimitIsMerged(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil)
	target := "/v1/endpoints/" + ep.text("id")
	if ep.get("ingest_limit") != nil {
		t.Errorf("at first: %s", ep.raw)
	}
	for _, step := range []struct{ patch, events, bytes string }{
		{`{"events_per_second":5}`, "5", "<nil>"},
		{`{"bytes_per_second":2048}`, "5", "2048"},
		{`{"events_per_second":null}`, "<nil>", "2048"},
		{`{}`, "<nil>", "2048"},
	} {
		c.do("PATCH", target, `{"ingest_limit":`+step.patch+`}`).want(200)
		got := c.do("GET", target, nil).want(200)
		events := fmt.Sprint(got.get("ingest_limit.events_per_second"))
		bytes := fmt.Sprint(got.get("ingest_limit.bytes_per_second"))
		if events != step.events || bytes != step.bytes {
			t.Errorf("after %s: %s events, %s bytes", step.patch, events, bytes)
		}
	}
	c.do("PATCH", target, `{"ingest_limit":{"bytes_per_second":null}}`).wantError(400, "invalid_request", "ingest_limit")
	if got := c.do("PATCH", target, `{"ingest_limit":null}`).want(200); got.get("ingest_limit") != nil {
		t.Errorf("%s", got.raw)
	}
}

// Above the endpoint's limit a send gets 429, and each event of a batch gets its own result. The Idempotency-Key of
// a refused event is released.
func TestSendingOverTheIngestLimit(t *testing.T) {
	c := newClient(t)
	target, room := "/v1/endpoints/"+c.endpoint(nil).text("id")+"/events", 1
	c.fake.AcceptFunc = func(context.Context, *event.Event) error {
		if room--; room >= 0 {
			return nil
		}
		return &web.Error{
			Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: 2 * time.Second, Message: "over the limit",
			Err: stream.ErrBufferFull,
		}
	}
	body := `{"type":"a.b","data":{}}`
	c.do("POST", target, body).want(202)
	refused := c.do("POST", target, body, "Idempotency-Key", "k1").wantError(429, "rate_limited", "")
	is.Equal(t, refused.Header.Get("Retry-After"), "2", refused.Header)
	room = 1
	c.do("POST", target, body, "Idempotency-Key", "k1").want(202)
	room = 2
	keyed := `{"type":"a.b","data":{},"idempotency_key":"k2"}`
	batch := c.do("POST", target+"/batch", `{"events":[`+body+`,`+body+`,`+body+`,`+keyed+`]}`).want(202)
	for i, want := range []any{nil, nil, "rate_limited", "rate_limited"} {
		is.Equal(t, batch.get(fmt.Sprintf("data.%d.error.type", i)), want, "event %d: %s", i, batch.raw)
	}
	room = 1
	again := c.do("POST", target+"/batch", `{"events":[`+keyed+`]}`).want(202)
	if again.get("data.0.id") == nil {
		t.Errorf("%s", again.raw)
	}
}
