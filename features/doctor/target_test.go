package doctor

import (
	"testing"

	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/test/is"
)

// The doctor asks every server of ClickHouse and Redis that uses TLS, each once.
func TestEndpointsOfEngines(t *testing.T) {
	s := nodeconfig.Config{ClickHouseURL: "https://a.example:8443,b.example:8443/relay,http://plain.example:8123/relay",
		ReadURL: "https://a.example:8443/relay,https://c.example:8443/relay", RedisURL: "rediss://redis.example:6380"}
	var got []string
	for _, e := range endpoints(s) {
		if e.TLS == nil {
			t.Errorf("%s has no TLS", e.Addr)
		}
		got = append(got, e.Engine+" "+e.Addr)
	}
	want := []string{"ClickHouse a.example:8443", "ClickHouse b.example:8443", "ClickHouse c.example:8443",
		"Redis redis.example:6380"}
	is.List(t, got, want)
	if got := endpoints(nodeconfig.Config{RedisURL: "redis://redis.example"}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
