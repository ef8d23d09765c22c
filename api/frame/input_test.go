package frame

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

func TestParseTime(t *testing.T) {
	f := func(s, want string) {
		t.Helper()
		got, ok := ParseTime(s)
		if !ok {
			got = time.Time{}
		}
		if ok != (want != "") || ok && got.Format(time.RFC3339Nano) != want {
			t.Errorf("%q: %v %v, want %q", s, got, ok, want)
		}
	}
	f("2026-08-21T22:24:36Z", "2026-08-21T22:24:36Z")
	f("2026-08-21t22:24:36z", "2026-08-21T22:24:36Z")
	f("2026-08-21T22:24:36.123456789Z", "2026-08-21T22:24:36.123456789Z")
	f("2026-08-22T00:24:36.5+02:00", "2026-08-21T22:24:36.5Z")
	f("2026-08-22T00:24:36 02:00", "2026-08-21T22:24:36Z") // a plus sign that a query string decoded to a space
	f("2026-08-21T19:24:36-03:00", "2026-08-21T22:24:36Z")
	f("2026-08-21T22:24:36", "2026-08-21T22:24:36Z")
	f("2026-08-21T22:24:36.25", "2026-08-21T22:24:36.25Z")
	f("2026-08-21", "2026-08-21T00:00:00Z")
	for _, bad := range []string{
		"", "now", "1755815076", "2026-13-01", "2026-02-30", "2026-08-21 22:24:36Z", "2026-08-21T22:24",
		"2026-08-21T25:00:00Z", "+12026-01-01", " 00:00", "2026-08-21T22:24:36Zx"} {
		f(bad, "")
	}
}

// A filter takes what people write, too.
func TestParseMoment(t *testing.T) {
	now := time.Date(2026, 8, 21, 22, 24, 36, 0, time.FixedZone("", 3600))
	for text, want := range map[string]string{
		"15m": "2026-08-21T21:09:36Z", "1H": "2026-08-21T20:24:36Z", "7d": "2026-08-14T21:24:36Z",
		"0s":  "2026-08-21T21:24:36Z",
		"now": "2026-08-21T21:24:36Z", "today": "2026-08-21T00:00:00Z", "Yesterday": "2026-08-20T00:00:00Z",
		"2026-08-21T22:24": "2026-08-21T22:24:00Z", "2026-08-21 22:24": "2026-08-21T22:24:00Z",
		"2026-08-21 22:24:36": "2026-08-21T22:24:36Z", "2026-08-22T00:24:36 02:00": "2026-08-21T22:24:36Z",
		"2026-08-21": "2026-08-21T00:00:00Z", "": "", "h": "", "-1h": "", "1.5h": "", "1h30m": "", "10000s": "",
		"9999d": "1999-04-06T21:24:36Z", "1w": "",
		"tomorrow": "", "2026-02-30 10:00": "", "+1h": "",
	} {
		got, ok := ParseMoment(text, now)
		if ok != (want != "") || ok && got.Format(time.RFC3339Nano) != want {
			t.Errorf("%q: %v %v, want %q", text, got, ok, want)
		}
	}
}

// The next page of a list whose time is told by how long ago it was is a page of the same list.
func TestTimesAgoOfACursor(t *testing.T) {
	hash := func(query string) string {
		q := NewQuery(httptest.NewRequest("GET", "/?"+query, nil), "x")
		q.Time("since")
		return q.Hash.Cursor(RowKey{})
	}
	first := hash("since=1h")
	time.Sleep(2 * time.Millisecond)
	if first != hash("since=1H") || first == hash("since=2h") ||
		hash("since=2026-08-21") != hash("since=2026-08-21T00:00:00Z") {
		t.Error("the filters of two pages differ")
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"endpoint_id", "destination_id", "status", "type", "since", "until", "limit"}
	f := func(name, want string) {
		t.Helper()
		if want != "" {
			want = "; did you mean " + want + "?"
		}
		if got := didYouMean(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	f("stauts", "status")
	f("Status", "status")
	f("endpointid", "endpoint_id")
	f("typ", "type")
	f("colour", "")
	f(strings.Repeat("status", 1000), "")
}

func TestSimilarNamesAreSuggested(t *testing.T) {
	in := &Input{}
	o := in.NewObject("", []byte(`{"action":"cancle"}`))
	var action string
	if o.Enum("action", &action, "canary", "continue", "cancel"); in.Err == nil ||
		!strings.Contains(in.Err.Error(), "did you mean cancel?") {
		t.Errorf("%v", in.Err)
	}
	q := NewQuery(httptest.NewRequestWithContext(t.Context(), "GET", "/?status=deliverd", nil), "")
	if EnumFilter(q, "status", event.Delivered, event.Failed); q.Err == nil ||
		!strings.Contains(q.Err.Error(), "did you mean delivered?") {
		t.Errorf("%v", q.Err)
	}
}
