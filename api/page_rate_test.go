package api_test

import (
	"net/http"
	"testing"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/test/is"
)

// One address gets a bounded number of large pages, and none under the portal's own host name. Small pages and those
// that the client has are not counted.
func TestLargePagesAreBounded(t *testing.T) {
	c := newClient(t, func(cfg *api.Config, _ *api.Deps) { cfg.Portal.URL = "https://portal.example.com/portal/" })
	etag := c.do("GET", "/docs/api", nil).want(200).Header.Get("ETag")
	statuses := map[int]int{}
	for range 30 {
		statuses[c.do("GET", "/docs/api", nil).Status]++
	}
	if statuses[http.StatusOK] != 19 || statuses[http.StatusTooManyRequests] != 11 {
		t.Errorf("answers %v", statuses)
	}
	c.do("GET", "/docs/deprecations", nil).want(200)
	c.do("GET", "/docs/api", nil, "If-None-Match", etag).want(304)
	is.Equal(t, c.do("GET", "https://portal.example.com/docs", nil).Status, 404, "under the portal's name")
}
