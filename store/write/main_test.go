package write_test

import (
	"testing"

	"github.com/eventrelay/relay/store/internal/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// bench adds what this package's tests ask of a store to what all of them do.
type bench struct{ *storetest.Bench }

func newBench(t testing.TB) *bench {
	t.Helper()
	return &bench{storetest.NewBench(t)}
}

func newBenchOf(t testing.TB, partitions int32) *bench {
	t.Helper()
	return &bench{storetest.NewBenchWithPartitions(t, partitions)}
}

func newIndexed(t testing.TB) *bench {
	t.Helper()
	return &bench{storetest.NewBenchWithSearchIndex(t)}
}
