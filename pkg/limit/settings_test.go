package limit

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// What Redis evicts and forgets is read from a real one; one whose ACL hides it is no fault.
func TestReadSettings(t *testing.T) {
	engine := kit.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: engine.Addr})
	defer client.Close()
	set := func(name, value string) {
		t.Helper()
		must.Do(t, client.ConfigSet(t.Context(), name, value).Err())
	}
	cfg := Config{URL: "redis://" + engine.Addr}
	read := func(want Settings) {
		t.Helper()
		if s, err := ReadSettings(t.Context(), cfg); err != nil || s != want {
			t.Errorf("%+v, %v, want %+v", s, err, want)
		}
	}
	set("maxmemory-policy", "allkeys-lru")
	set("save", "")
	set("appendonly", "no")
	read(Settings{Eviction: "allkeys-lru", Volatile: true})
	set("maxmemory-policy", "noeviction")
	set("save", "60 1")
	read(Settings{Eviction: "noeviction"})
	must.Do(t, client.Do(t.Context(), "ACL", "SETUSER", "limited", "on", ">pw", "~*", "+ping").Err())
	cfg.URL = "redis://limited:pw@" + engine.Addr
	read(Settings{})
}
