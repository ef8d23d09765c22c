package dashboard

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// What the layout, the session and the checks of a page cost, without its data.
func BenchmarkPage(b *testing.B) {
	rig := newRig(b)
	rig.addPage(route{"GET", "/app/test", reader, func(v *visit) error { return v.page("test", nil) }}, "test", "<p>here")
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
