package read_test

import (
	"testing"

	"github.com/eventrelay/relay/test/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// bench extends storetest.Bench with the helpers of this package's tests.
type bench struct{ *storetest.Bench }

func newBench(t testing.TB) *bench {
	t.Helper()
	return &bench{storetest.NewBench(t)}
}

func newIndexed(t testing.TB) *bench {
	t.Helper()
	return &bench{storetest.NewBenchWithSearchIndex(t)}
}
