package write_test

import (
	"testing"

	"github.com/eventrelay/relay/test/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// bench adds helpers of this package's tests to storetest.Bench.
type bench struct{ *storetest.Bench }

func newBench(t testing.TB) *bench {
	t.Helper()
	return &bench{storetest.NewBench(t)}
}

func newBenchWithPartitions(t testing.TB, partitions int32) *bench {
	t.Helper()
	return &bench{storetest.NewBenchWithPartitions(t, partitions)}
}

func newBenchWithSearchIndex(t testing.TB) *bench {
	t.Helper()
	return &bench{storetest.NewBenchWithSearchIndex(t)}
}
