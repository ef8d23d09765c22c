package api_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// The store gets the API key of each read, and a key with too many concurrent reads gets 429.
func TestReadsOfAKeyAreBounded(t *testing.T) {
	c := newClient(t)
	var caller string
	c.fake.EventFunc = func(ctx context.Context, _ string, _ id.ID) (*event.Detail, error) {
		caller = event.Caller(ctx)
		return nil, fmt.Errorf("%w: 8 reads are running", event.ErrOverloaded)
	}
	a := c.do("GET", "/v1/events/"+id.NewGenerator(nil).NewUnbounded(1).Text(id.Event), nil).want(429)
	if a.text("error.type") != "rate_limited" || a.Header.Get("Retry-After") != "1" {
		t.Errorf("%s %v", a.raw, a.Header)
	}
	if me := c.do("GET", "/v1/me", nil).want(200).text("key_id"); caller != me {
		t.Errorf("the store was asked for %q, the key is %q", caller, me)
	}
}
