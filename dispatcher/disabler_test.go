package dispatcher

import (
	"errors"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
)

// The count of 410 answers starts again once the destination is disabled or is no longer the one that answered. It
// stays if the write failed, so that the next 410 asks again.
func TestDisablingResetsTheCountOf410(t *testing.T) {
	const url = "http://a.example/hook"
	f := func(what string, change func(v *view), reset, disabled bool) {
		t.Helper()
		v := newView(&config.Endpoint{ID: testEndpoint,
			Destinations: []config.Destination{{ID: testDest, URL: url, Enabled: true}}})
		change(v)
		var forgotten []string
		r := &disabler{log: testLog(), updater: v, resetGone: func(dest string) { forgotten = append(forgotten, dest) },
			disabled: prometheus.NewCounter(prometheus.CounterOpts{Name: "disabled"})}
		r.disable(t.Context(), disableRequest{testEndpoint, testDest, url, event.Gone410})
		if got := slices.Equal(forgotten, []string{testDest}); got != reset || len(forgotten) > 1 {
			t.Errorf("%s: the counts of %q start again", what, forgotten)
		}
		endpoint, _ := v.Endpoint(testEndpoint)
		if got := endpoint != nil && endpoint.Destinations[0].StateReason == "gone_410"; got != disabled {
			t.Errorf("%s: disabled: %v", what, got)
		}
	}
	destination := func(change func(*config.Destination)) func(*view) {
		return func(v *view) {
			v.change(testEndpoint, func(endpoint *config.Endpoint) { change(&endpoint.Destinations[0]) })
		}
	}
	f("unchanged", func(*view) {}, true, true)
	f("another URL", destination(func(d *config.Destination) { d.URL += "/new" }), true, false)
	f("disabled", destination(func(d *config.Destination) { d.Enabled = false }), true, false)
	f("another destination", destination(func(d *config.Destination) { d.ID = "dst_2" }), true, false)
	f("deleted endpoint", func(v *view) { v.remove(testEndpoint) }, true, false)
	f("failed write", func(v *view) { v.during(func() error { return errors.New("away") }) }, false, false)
}
