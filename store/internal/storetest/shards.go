package storetest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// onShards is the name of the test whose benches have two shards.
const onShards = "TestOnTwoShards"

// urlOf is the address of a bench's database, or of its shards.
func urlOf(t testing.TB, name string) string {
	url := "http://" + Engines.ClickHouse + "/" + name
	if TwoShards(t) {
		return url + "," + url + "_2"
	}
	return url
}

// TwoShards reports whether a test is one of OnTwoShards.
func TwoShards(t testing.TB) bool { return strings.HasPrefix(t.Name(), onShards+"/") }

// OnTwoShards runs tests on two shards: those of short are all that the race detector sees, for the others begin no
// goroutines that these do not; thorough ones are run by RELAY_TORTURE.
func OnTwoShards(t *testing.T, tests, thorough map[string]func(*testing.T), short ...string) {
	if Rounds(0, 0, 1) == 1 {
		maps.Copy(tests, thorough)
	}
	for name, test := range tests {
		if !testing.Short() || slices.Contains(short, name) {
			t.Run(name, test)
		}
	}
}
