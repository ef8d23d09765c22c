package frame

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

// A cursor stays valid with a relative time, although that is another moment on each page.
func TestTimesAgoOfACursor(t *testing.T) {
	hash := func(query string) string {
		q := NewQuery(httptest.NewRequest("GET", "/?"+query, nil), "x")
		q.Time("since")
		return q.Hash.Cursor(RowKey{})
	}
	first := hash("since=1h")
	time.Sleep(2 * time.Millisecond)
	if first != hash("since=1h") || first == hash("since=2h") ||
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
		is.Equal(t, didYouMean(name, known), want, name)
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
