package dashboard

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/eventrelay/relay/dashboard/frame"
)

// What the layout, the session and the checks of a page cost, without its data.
func BenchmarkPage(b *testing.B) {
	rig := newRig(b)
	rig.addPage(frame.Route{"GET", "/app/test", frame.Reader, func(v *frame.Visit) error { return v.Page("test", nil) }},
		"test", "<p>here")
	cookies := rig.signedIn().cookies
	handler := rig.d.Handler()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodGet, "/app/test", nil)
		r.Host = "relay.example.com"
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}
