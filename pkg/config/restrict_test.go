package config

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
)

// TestRestrictionWaitsForEveryNode: like deleting, disabling, pausing, purging and removing wait for a frozen node;
// other updates do not.
func TestRestrictionWaitsForEveryNode(t *testing.T) {
	f := func(name string, strict bool, change func(*Endpoint)) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, conf stream.Config) {
				var cold kit.Freezer
				a, _ := pair(t, conf, freezable(&cold, conf))
				e, err := a.UpdateEndpoint(t.Context(), a.create(t).ID, func(e *Endpoint) error {
					e.Destinations = append(e.Destinations, e.Destinations[0])
					e.Destinations[1].ID = "dst_second"
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				cold.Freeze(t)
				began := time.Now()
				if _, err := a.UpdateEndpoint(t.Context(), e.ID, func(e *Endpoint) error { change(e); return nil }); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); (took > time.Second) != strict {
					t.Fatalf("took %s", took)
				}
			})
		})
	}
	f("rename", false, func(e *Endpoint) { e.Name = "x" })
	f("add a destination", false, func(e *Endpoint) {
		e.Destinations = append(e.Destinations, Destination{ID: "dst_third", URL: "https://example.com"})
	})
	f("disable the endpoint", true, func(e *Endpoint) { e.Enabled = false })
	f("disable a destination", true, func(e *Endpoint) { e.Destinations[1].Enabled = false })
	f("pause the endpoint", true, func(e *Endpoint) { e.Paused = true })
	f("pause a destination", true, func(e *Endpoint) { e.Destinations[1].Paused = true })
	f("purge a destination", true, func(e *Endpoint) { e.Destinations[1].PurgeBefore = time.Now() })
	f("remove a destination", true, func(e *Endpoint) { e.Destinations = e.Destinations[:1] })
}
