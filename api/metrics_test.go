package api_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Requests are counted by route template: ids, unknown paths and unknown methods do not become labels.
func TestRequestsAreCountedByRoute(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Metrics = reg })
	c.do("GET", "/v1/endpoints/ep_secret", nil).want(404)
	c.do("GET", "/v1/me", nil).want(200)
	c.do("GET", "/v1/me", nil).want(200)
	c.do("BREW", "/v1/unknown-path", nil).want(404)
	c.do("BREW", "/v1/me", nil).want(404)
	c.as("").do("GET", "/v1/me", nil).want(401)
	families := must.Get(reg.Gather())(t)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			got[f.GetName()+" "+strings.Join(labels, " ")] = m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"relay_api_requests_total GET /v1/endpoints/{endpoint} 404": 1,
		"relay_api_requests_total GET /v1/me 200":                   2,
		"relay_api_requests_total any none 404":                     2,
		"relay_api_requests_total any none 401":                     1,
		"relay_api_request_seconds GET /v1/me":                      2,
	} {
		is.Equal(t, got[name], want, "%s is: %v", name, got)
	}
	for name := range got {
		if strings.Contains(name, "ep_secret") || strings.Contains(name, "unknown") || strings.Contains(name, "BREW") {
			t.Errorf("label %s", name)
		}
	}
}
