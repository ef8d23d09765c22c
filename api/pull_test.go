package api_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/pull"
	"github.com/eventrelay/relay/test/must"
)

// fakePulls answers pulls, and remembers what it was asked.
type fakePulls struct {
	asked  pull.Request
	events []pull.Event
	states []pull.State
	err    error
}

func (f *fakePulls) Pull(_ context.Context, _ []int32, r pull.Request) ([]pull.Event, error) {
	f.asked = r
	return f.events, f.err
}

func (f *fakePulls) Acknowledge(_ context.Context, r pull.Request) ([]pull.State, error) {
	f.asked = r
	return f.states, f.err
}

func (f *fakePulls) Consumers(context.Context, []int32, string) ([]pull.Consumer, error) {
	return []pull.Consumer{{Name: "w", LastPull: time.Unix(1, 0), Pulling: true, Leases: 3}}, f.err
}

// A consumer gets the bytes of a body, and each attempt that it acknowledges its own answer. A key that may only read
// pulls nothing.
func TestPullAndAcknowledge(t *testing.T) {
	pulls := &fakePulls{}
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Pulls = pulls })
	ep := c.do("POST", "/v1/endpoints", `{"destinations":[{"pull":{}},{"url":"https://a.example/h"}]}`).want(201)
	if ep.get("destinations.0.pull.lease_seconds") != 60.0 || ep.text("destinations.0.url") != "pull://consumers" {
		t.Errorf("created %s", ep.raw)
	}
	path := "/v1/endpoints/" + ep.text("id") + "/destinations/" + ep.text("destinations.0.id")
	stored, _ := configuration.Endpoint(ep.text("id"))
	now := must.Get(id.NewGenerator(nil).New(stored.Partition))(t)
	pulls.events = []pull.Event{{ID: now, Attempt: now, Number: 2, Type: "a", Endpoint: ep.text("id"),
		Header: map[string]string{"webhook-id": "x"}, LeasedUntil: time.Now(), Body: []byte("{\"a\": 1 }\n")},
		{ID: now, Attempt: now, Number: 1,
			Endpoint: ep.text("id"), Header: map[string]string{}, LeasedUntil: time.Now(), Body: []byte{0xff}}}
	got := c.do("GET", path+"/pull?consumer=w-1&max=1000&wait=30", nil).want(200)
	if got.text("data.0.body") != "{\"a\": 1 }\n" || got.text("data.1.body") != "/w==" ||
		got.text("data.1.body_encoding") != "base64" || got.text("data.0.attempt_id") != now.Text(id.Attempt) {
		t.Errorf("pulled %s", got.raw)
	}
	if pulls.asked.Consumer != "w-1" || pulls.asked.Max != 1000 || pulls.asked.Wait != 30*time.Second {
		t.Errorf("asked %+v", pulls.asked)
	}
	for query, param := range map[string]string{"": "consumer", "consumer=a%2Fb": "consumer", "consumer=w&max=0": "max",
		"consumer=w&max=1001": "max", "consumer=w&wait=31": "wait", "consumer=w&wait=x": "wait",
		"consumer=w&limit=1": "limit"} {
		c.do("GET", path+"/pull?"+query, nil).wantError(400, "invalid_request", param)
	}
	c.as(readKey).do("GET", path+"/pull?consumer=w", nil).wantError(403, "insufficient_scope", "")
	c.as(readKey).do("POST", path+"/ack", nil).wantError(403, "insufficient_scope", "")
	c.as(readKey).do("GET", path+"/consumers", nil).want(200)
	webhook := "/v1/endpoints/" + ep.text("id") + "/destinations/" + ep.text("destinations.1.id")
	c.do("GET", webhook+"/pull?consumer=w", nil).wantError(400, "invalid_state", "")
	if got := c.do("GET", path+"/consumers", nil).want(200); got.get("data.0.leases") != 3.0 {
		t.Errorf("consumers %s", got.raw)
	}

	old := must.Get(id.NewGenerator(func() time.Time { return time.Now().Add(-2 * time.Minute) }).New(stored.Partition))(t)
	pulls.states = []pull.State{pull.Acknowledged, pull.Unknown, pull.Unknown}
	got = c.do("POST", path+"/ack", fmt.Sprintf(`{"attempt_ids":[%q,"att_x",%q,%q]}`, now.Text(id.Attempt),
		now.Text(id.Attempt), old.Text(id.Attempt))).want(200)
	if !slices.Equal(pulls.asked.Attempts, []id.ID{now, now, old}) || got.text("data.0.status") != "acknowledged" ||
		got.text("data.1.status") != "unknown" || got.text("data.2.status") != "unknown" ||
		got.text("data.3.status") != "expired" {
		t.Errorf("acknowledged %s", got.raw)
	}
	for _, body := range []string{`{}`, `{"attempt_ids":[]}`, `{"attempt_ids":"x"}`} {
		c.do("POST", path+"/ack", body).wantError(400, "invalid_request", "attempt_ids")
	}
	c.do("POST", path+"/ack", `{"attempt_ids":[1]}`).wantError(400, "invalid_request", "attempt_ids[0]")
	pulls.states = nil
	elsewhere := must.Get(id.NewGenerator(nil).New(4095))(t) // an invented id: nobody has this partition
	got = c.do("POST", path+"/ack", fmt.Sprintf(`{"attempt_ids":[%q]}`, elsewhere.Text(id.Attempt))).want(200)
	if len(pulls.asked.Attempts) > 0 || got.text("data.0.status") != "unknown" {
		t.Errorf("another partition: asked %v, answered %s", pulls.asked.Attempts, got.raw)
	}
	pulls.err = pull.ErrBusy
	c.do("GET", path+"/pull?consumer=w", nil).wantError(400, "conflict", "consumer")
	pulls.err = pull.ErrTooMany
	c.do("GET", path+"/pull?consumer=w", nil).wantError(429, "rate_limited", "")
	pulls.err = errors.Join(pull.ErrUnavailable)
	c.do("POST", path+"/ack", `{"attempt_ids":["att_x"]}`).wantError(503, "unavailable", "")
}
