package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// resources answers reads of one finding, event and recovery job.
func resources(path string, _ url.Values) (int, http.Header, string) {
	switch path {
	case "/v1/findings/fnd_1":
		return 200, http.Header{}, `{"object":"finding","id":"fnd_1","name":"Stripe live secret key",` +
			`"masked":"sk_live_***abcd","severity":"critical","status":"open","version":3,"kind":"secret","fingerprint":null}`
	case "/v1/events/evt_1":
		return 200, http.Header{}, `{"object":"event","id":"evt_1","type":"![x](https://evil.example)","status":"failed",` +
			`"endpoint_id":"ep_1","last_attempt_at":"2026-01-01T00:00:00Z"}`
	case "/v1/events/evt_2":
		return 200, http.Header{}, `{"object":"event","id":"evt_2","type":null,"status":"failed","endpoint_id":"ep_1"}`
	case "/v1/events/evt_3":
		return 200, http.Header{"Relay-Data-As-Of": {"2026-01-01T00:00:00.000Z"}}, `{"object":"event","id":"evt_3",` +
			`"status":"pending","endpoint_id":"ep_1"}`
	case "/v1/endpoints/ep_1":
		return 200, http.Header{}, `{"object":"endpoint","id":"ep_1","name":"orders",` +
			`"updated_at":"2026-01-01T00:00:00Z","destinations":[` +
			`{"id":"dst_1","name":"led\u202eger","enabled":true,"url":"https://a.example.com/****"},` +
			`{"id":"dst_2","enabled":false,"url":"https://b.example.com/"},` +
			`{"id":"dst_3","enabled":true,"url":"https://c.example.com/"}]}`
	case "/v1/recoveries/rec_1":
		return 200, http.Header{}, `{"object":"recovery","id":"rec_1","endpoint_id":"ep_1","total":1234567,` +
			`"pending":1234562,"state":"ready"}`
	case "/v1/domains":
		return 200, http.Header{}, `{"data":[{"object":"domain","id":"dom_1","hostname":"shop.example.com",` +
			`"status":"verified"},{"object":"domain","id":"dom_2","hostname":"new.example.com","status":"pending"}]}`
	case "/v1/domains/dom_1":
		return 200, http.Header{}, `{"object":"domain","id":"dom_1","hostname":"shop.example.com","status":"verified"}`
	case "/v1/domains/dom_2":
		return 200, http.Header{}, `{"object":"domain","id":"dom_2","hostname":"new.example.com","status":"pending"}`
	}
	return 404, http.Header{}, `{"error":{"type":"not_found","message":"there is nothing with this id"}}`
}

func TestChangesAreOnlyAskedFor(t *testing.T) {
	f := &fake{answer: resources}
	endpoint, _ := start(t, f)
	session := connectWith(t, endpoint, "rly_live_write")
	for tool, x := range map[string]struct {
		arguments                     map[string]any
		path, body, summary, revision string
	}{
		"finding_update": {map[string]any{"id": "fnd_1", "status": "resolved", "resolution": "revoked", "note": "x\u202ey"},
			"/v1/findings/update",
			`{"ids":["fnd_1"],"resolution":"revoked","status":"resolved","version":3}`,
			`Change the finding "Stripe live secret key" (fnd_1, critical, sk_live_***abcd) from open to resolved, ` +
				"because: revoked",
			"finding 3  open  "},
		"event_replay": {map[string]any{"id": "evt_1", "destination_id": "dst_1", "note": "x\u202ey"},
			"/v1/events/evt_1/replay", `{"destination_id":"dst_1"}`,
			`Deliver an event of the endpoint "orders" (ep_1) again, to "led\u202eger" (dst_1) at "a.example.com": ` +
				`evt_1, now failed, type "![x] (https[:]//evil[.]example)"`,
			"event 0  failed 2026-01-01T00:00:00Z , endpoint 0    2026-01-01T00:00:00Z"},
		"recovery_action": {map[string]any{"recovery_id": "rec_1", "action": "canary", "note": "x\u202ey"},
			"/v1/recoveries/rec_1", `{"action":"canary","state":"ready"}`,
			"Send the canary, at most five deliveries, of the recovery job rec_1 of the endpoint ep_1. It is ready; " +
				"1234562 of 1234567 deliveries are not sent", "recovery 0 ready   "},
		"scan_start": {map[string]any{"domain": "Shop.example.com", "note": "x\u202ey"}, "/v1/scans",
			`{"domain_id":"dom_1"}`, "Scan the website of shop.example.com (dom_1) for leaked keys and exposed files: GET " +
				"requests for at most 50 pages and 300 other paths, in at most two minutes", "domain 0  verified  "},
	} {
		text, failed := call(t, session, tool, x.arguments)
		var v struct {
			ActionID, Status, State, Summary string
			ConfirmURL                       string `json:"confirm_url"`
			ID                               string `json:"action_id"`
			ExpiresAt                        string `json:"expires_at"`
		}
		if err := json.Unmarshal([]byte(text), &v); err != nil || failed {
			t.Fatalf("%s: %v %s", tool, err, text)
		}
		a := f.actions[v.ID]
		if a == nil || v.Status != "confirmation_required" || v.State != "pending" || v.Summary != x.summary ||
			v.ConfirmURL != "https://desk.example.com/app/confirm/"+v.ID || v.ExpiresAt != "2026-01-02T03:14:05.000Z" {
			t.Fatalf("%s: %s", tool, text)
		}
		if a.Key != "key_2" || a.KeyName != "agent" || a.Tool != tool || a.Path != x.path || a.Body != x.body ||
			a.Revision != x.revision || a.Note != "xy" || a.RemoteIP != "127.0.0.1" || a.Account != "acc_1" {
			t.Errorf("%s: %+v", tool, a)
		}
		if text, _ := call(t, session, "action_status", map[string]any{"action_id": v.ID}); !strings.Contains(
			text, "pending") {
			t.Errorf("%s: %s", tool, text)
		}
		a.State, a.Result = config.ActionDone, "run_1"
		text, _ = call(t, session, "action_status", map[string]any{"action_id": v.ID})
		if !strings.Contains(text, `"state":"done"`) || !strings.Contains(text, "run_1") ||
			!strings.Contains(text, `"next":"`) || strings.Contains(text, "confirm_url") {
			t.Errorf("%s: %s", tool, text)
		}
		other := connect(t, endpoint)
		if text, failed := call(t, other, "action_status", map[string]any{"action_id": v.ID}); !failed {
			t.Errorf("another key reads it: %s", text)
		}
	}
	for _, asked := range f.asked {
		if !strings.HasPrefix(asked, "key_2 GET ") {
			t.Errorf("asked %s", asked)
		}
	}
}

func TestReplayOfAnEventWithoutAType(t *testing.T) {
	endpoint, _ := start(t, &fake{answer: resources})
	text, failed := call(t, connectWith(t, endpoint, "rly_live_write"), "event_replay", map[string]any{"id": "evt_2"})
	if failed || !strings.Contains(text, ": evt_2, now failed, without a type") {
		t.Error(text)
	}
}

func TestChangesThatAreRefused(t *testing.T) {
	f := &fake{answer: resources}
	endpoint, _ := start(t, f)
	session := connectWith(t, endpoint, "rly_live_write")
	for _, x := range []struct {
		tool      string
		arguments map[string]any
		says      string
	}{
		{"finding_update", map[string]any{"id": "fnd_1", "status": "closed"}, "status: must be one of open, acknowledged"},
		{"finding_update", map[string]any{"id": "fnd_2", "status": "open"}, "not_found"},
		{"recovery_action", map[string]any{"recovery_id": "rec_1", "action": "approve"},
			"action: must be one of canary, continue, cancel"},
		{"finding_update", map[string]any{"id": "fnd_1", "status": "resolved", "resolution": "a routine check"},
			"must be one of revoked"},
		{"finding_update", map[string]any{"id": "fnd_1", "status": "ignored", "ignore_until": "soon"}, "must be a time"},
		{"finding_update", map[string]any{"id": "fnd_1", "status": "resolved"}, "resolution: must be one of revoked"},
		{"finding_update", map[string]any{"id": "fnd_1", "status": "ignored"}, "ignore_reason: must be one of"},
		{"finding_update", map[string]any{"id": "fnd_1", "status": "acknowledged", "resolution": "removed"},
			"resolution: can be set only together with the status resolved"},
		{"finding_update", map[string]any{"id": "fnd_1", "status": "ignored", "ignore_reason": "accepted_risk",
			"ignore_until": "2001-01-01T00:00:00Z"}, "ignore_until: must be in the future"},
		{"finding_update", map[string]any{"id": "fnd_1", "status": "ignored", "ignore_reason": "accepted_risk",
			"ignore_until": "2030-01-01T00:00:00Z"}, "ignore_until: must be within a day"},
		{"event_replay", map[string]any{"id": "evt_1", "destination_id": "dst_2"}, "no enabled destination"},
		{"event_replay", map[string]any{"id": "evt_3"}, "newest attempts of the event cannot be read"},
		{"scan_start", map[string]any{"domain": "other.example.com"}, "verified are: shop.example.com"},
		{"scan_start", map[string]any{"domain": "new.example.com"}, "is pending"},
		{"scan_start", map[string]any{"domain": "dom_3"}, "not_found"},
		{"event_replay", map[string]any{"id": "evt_1", "note": strings.Repeat("d", 9000)},
			"note: must be a string of at most 500 characters"},
	} {
		if text, failed := call(t, session, x.tool, x.arguments); !failed || !strings.Contains(text, x.says) {
			t.Errorf("%s %v: %s", x.tool, x.arguments, text)
		}
	}
	replay := map[string]any{"id": "evt_1"}
	f.actErr = config.ErrTooManyActions
	if text, failed := call(t, session, "event_replay", replay); !failed || !strings.Contains(text, "rate_limited") {
		t.Errorf("too many: %s", text)
	}
	f.actErr = errors.New("no log")
	if text, failed := call(t, session, "event_replay", replay); !failed || !strings.Contains(text, "unavailable") {
		t.Errorf("without a log: %s", text)
	}
	f.actErr, f.writes.most = nil, 1
	if text, failed := call(t, session, "event_replay", replay); !failed || !strings.Contains(text, "after 40 s") {
		t.Errorf("too fast: %s", text)
	}
	is.Equal(t, len(f.actions), 0, "acts %v", f.actions)
}

// A key that may only read does not see the tools that ask for changes, and cannot use them.
func TestReadKeyAsksForNoChange(t *testing.T) {
	f := &fake{answer: resources}
	endpoint, _ := start(t, f)
	count := func(key string) int {
		tools := must.Get(connectWith(t, endpoint, key).ListTools(t.Context(), nil))(t)
		return len(tools.Tools)
	}
	if read, write := count("rly_live_read"), count("rly_live_write"); read != 8 || write != 12 {
		t.Errorf("%d and %d tools", read, write)
	}
	text, failed := call(t, connect(t, endpoint), "event_replay", map[string]any{"id": "evt_1"})
	if !failed || !strings.Contains(text, "may only read") || len(f.actions) != 0 {
		t.Errorf("%s", text)
	}
}

// The text by which a person approves a replay names its destinations, whatever type the event has and however many
// destinations there are.
func TestReplaySummaryNamesTheDestinations(t *testing.T) {
	id := func(prefix string, n int) string { return fmt.Sprintf("%s_%026d", prefix, n) }
	var destinations []string
	for n := range 8 {
		destinations = append(destinations, fmt.Sprintf(
			`{"id":%q,"name":"%s%d","enabled":true,"url":"https://%d.example.com/"}`, id("dst", n),
			strings.Repeat("d", 20), n, n))
	}
	f := &fake{answer: func(path string, _ url.Values) (int, http.Header, string) {
		if strings.HasPrefix(path, "/v1/events/") {
			return 200, http.Header{}, fmt.Sprintf(`{"object":"event","id":%q,"type":%q,"status":"failed","endpoint_id":%q}`,
				id("evt", 1), strings.Repeat("\u00a0", 64), id("ep", 1))
		}
		return 200, http.Header{}, fmt.Sprintf(`{"object":"endpoint","id":%q,"name":%q,"destinations":[%s]}`, id("ep", 1),
			strings.Repeat("\u3000", 100), strings.Join(destinations, ","))
	}}
	endpoint, _ := start(t, f)
	text, failed := call(t, connectWith(t, endpoint, "rly_live_write"), "event_replay", map[string]any{"id": id("evt", 1)})
	if failed || len(f.actions) != 1 {
		t.Fatal(text)
	}
	for _, a := range f.actions {
		for _, want := range []string{id("ep", 1), id("dst", 0), `"0.example.com"`, id("dst", 1),
			" and 5 more: " + id("evt", 1), ", now failed, type \"\\u00a0"} {
			is.Has(t, a.Summary, want)
		}
		if n := utf8.RuneCountInString(a.Summary); n >= 500 || !strings.HasSuffix(a.Summary, `…"`) {
			t.Errorf("%d characters: %s", n, a.Summary)
		}
	}
}
