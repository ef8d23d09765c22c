package storetest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// onShards begins the names of the tests whose subtests run on two shards.
const onShards = "TestOnTwoShards"

// TwoShards reports whether t is a subtest of OnTwoShards.
func TwoShards(t testing.TB) bool { return strings.HasPrefix(t.Name(), onShards) }

// OnTwoShards runs tests on two shards. With -short only those named in short run: the race detector finds nothing new
// in the others, which start the same goroutines. thorough tests run with RELAY_TORTURE.
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
