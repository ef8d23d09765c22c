package api_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
)

// The first call counts, the event shows its time, and a replay is refused.
func TestErasePayload(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	ev, other := c.send(ep), c.send(ep)
	path := "/v1/events/" + ev
	if at, there := c.do("GET", path, nil).want(200).Body["payload_erased_at"]; at != nil || !there {
		t.Errorf("before: %v", at)
	}
	first := c.do("DELETE", path+"/payload", nil).want(200)
	if len(first.Body) != 3 || first.text("id") != ev || first.text("object") != "event" {
		t.Errorf("%s", first.raw)
	}
	at := first.text("payload_erased_at")
	if moment, err := time.Parse(time.RFC3339, at); err != nil || time.Since(moment) > time.Hour {
		t.Errorf("erased at %q", at)
	}
	if again := c.do("DELETE", path+"/payload", nil).want(200).text("payload_erased_at"); again != at {
		t.Errorf("a repeat says %s, the first call said %s", again, at)
	}
	is.Equal(t, c.do("GET", path, nil).want(200).text("payload_erased_at"), at, "the event says")
	for _, query := range []string{"", "&q=order"} {
		for _, row := range c.do("GET", "/v1/events?endpoint_id="+ep+query, nil).want(200).Body["data"].([]any) {
			row := row.(map[string]any)
			if want := map[any]any{ev: at, other: nil}[row["id"]]; row["payload_erased_at"] != want {
				t.Errorf("%s lists %v as erased at %v, want %v", query, row["id"], row["payload_erased_at"], want)
			}
		}
	}
	c.do("POST", path+"/replay", nil).wantError(400, "invalid_state", "")
	c.do("POST", "/v1/events/"+other+"/replay", nil).want(200)

	c.as(readKey).do("DELETE", path+"/payload", nil).wantError(403, "insufficient_scope", "")
	for _, unknown := range []string{"evt_nope", id.ID{1}.Text(id.Event), "ep_1"} {
		c.do("DELETE", "/v1/events/"+unknown+"/payload", nil).want(404)
	}
	c.do("GET", path+"/payload", nil).want(404)
}

// failingErasures is a configuration log that refuses erasures.
type failingErasures struct{ err error }

func (f failingErasures) ErasePayload(context.Context, id.ID) (time.Time, error) {
	return time.Time{}, f.err
}
func (f failingErasures) ErasedAt(id.ID) time.Time { return time.Time{} }

func TestErasePayloadFails(t *testing.T) {
	for err, status := range map[error]int{
		config.ErrUnavailable: 503, config.ErrLevel: 503, config.ErrTooManyErasures: 429, config.ErrStateFull: 400,
		config.ErrRecoveryHistoryFull: 429, config.ErrTooManyEndpoints: 400,
		config.ErrEntityTooLarge: 400, event.ErrUnavailable: 503, errors.New("other"): 500,
	} {
		c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Erasures = failingErasures{err} })
		c.do("DELETE", "/v1/events/"+c.send(c.endpoint(nil).text("id"))+"/payload", nil).want(status)
	}
}
