package node

import (
	"log/slog"
	"syscall"
	"testing"

	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Connections to destinations use at most half of the files that the process may open.
func TestOutboundFiles(t *testing.T) {
	for _, c := range []struct{ files, sending, idle int }{
		{1, 1, 1}, {256, 96, 32}, {1024, 384, 128}, {20_000, 7500, 2500}, {524_288, 8192, 65_536},
	} {
		if sending, idle := outboundLimits(c.files, 8192); sending != c.sending || idle != c.idle {
			t.Errorf("%d files: %d requests and %d idle connections, want %d and %d", c.files, sending, idle, c.sending, c.idle)
		}
	}
}

// Package os raises the soft limit of open files to the hard one.
func TestOpenFilesAreRaised(t *testing.T) {
	var limit syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	is.Equal(t, openFiles(), int(min(uint64(limit.Max), maxFiles)), "open files, the hard limit is %d", limit.Max)
}

// EngineHosts finds the hosts of the engines in every form of address that the settings allow.
func TestEngineHosts(t *testing.T) {
	s := nodeconfig.Config{
		KafkaBrokers:  []string{"kafka-1.example:9092", "[2001:db8::1]:9092"},
		ClickHouseURL: "https://user:secret@ch-1.example:8443/relay,clickhouse://ch-2.example:9000/relay",
		SearchURL:     "http://search.example/relay", RedisURL: "rediss://:secret@redis.example:6380",
	}
	want := []string{"kafka-1.example", "2001:db8::1", "ch-1.example", "ch-2.example", "search.example", "redis.example"}
	is.List(t, s.EngineHosts(), want)
	if got := (nodeconfig.Config{RedisURL: "unix:///run/redis.sock"}).EngineHosts(); len(got) != 0 {
		t.Errorf("a unix socket gave the hosts %v", got)
	}
}

// Clients can connect to the base URL, also if the node listens on all addresses.
func TestBaseURLIsCallable(t *testing.T) {
	f := func(s nodeconfig.Config, listening, want string) {
		t.Helper()
		is.Equal(t, s.URL(listening), want, listening)
	}
	f(nodeconfig.Config{}, "127.0.0.1:8080", "http://127.0.0.1:8080")
	f(nodeconfig.Config{}, "0.0.0.0:8080", "http://localhost:8080")
	f(nodeconfig.Config{TLSCertFile: "c"}, "[::]:443", "https://localhost:443")
	f(nodeconfig.Config{BaseURL: "https://relay.example/"}, "[::]:443", "https://relay.example")
}

// Requests to customers' addresses do not reach this machine and the engines, which the node learns while it starts.
func TestOutboundRefusesOwnAddresses(t *testing.T) {
	n := &Node{stack: NewStack(t.Context(), slog.New(slog.DiscardHandler)),
		Host: features.Host{Settings: &nodeconfig.Config{Embedded: true}}}
	n.Log = slog.New(slog.DiscardHandler)
	if _, err := newOwn(n); err != nil || n.outbound().Policy.OwnAddrs == nil {
		t.Errorf("%v, %+v", err, n.outbound())
	}
}
