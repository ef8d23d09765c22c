package node

import (
	"slices"
	"testing"
)

// A destination cannot lead to an engine, however its address is written in the settings.
func TestEngineHosts(t *testing.T) {
	s := Settings{
		KafkaBrokers:  []string{"kafka-1.example:9092", "[2001:db8::1]:9092"},
		ClickHouseURL: "https://user:secret@ch-1.example:8443/relay,clickhouse://ch-2.example:9000/relay",
		SearchURL:     "http://search.example/relay", RedisURL: "rediss://:secret@redis.example:6380",
	}
	want := []string{"kafka-1.example", "2001:db8::1", "ch-1.example", "ch-2.example", "search.example", "redis.example"}
	if got := s.engineHosts(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := (Settings{RedisURL: "unix:///run/redis.sock"}).engineHosts(); len(got) != 0 {
		t.Errorf("%v, of a socket", got)
	}
}
