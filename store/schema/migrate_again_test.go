package schema_test

import (
	"testing"

	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

func TestMigrateRunsAgain(t *testing.T) {
	b := newBench(t)
	for _, days := range []int{30, 7, 7} {
		must.Do(t, storetest.Migrate(t.Context(), b.URL, days))
	}
}
