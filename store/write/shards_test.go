package write_test

import (
	"testing"

	"github.com/eventrelay/relay/store/internal/storetest"
)

// What holds of one server holds of two that share the rows.
func TestOnTwoShardsW(t *testing.T) {
	tests := map[string]func(*testing.T){
		"versions": TestVersions, "away": TestClickHouseAway, "erased": TestErasedPayload,
		"not recovered": TestErasedIsNotRecovered, "expired": TestExpiredDaysAreDropped, "retention": TestRetention,
	}
	thorough := map[string]func(*testing.T){
		"poison": TestPoison, "writers": TestWritersShareTheLog, "write and read": TestWriteAndRead,
	}
	storetest.OnTwoShards(t, tests, thorough, "away", "erased")
}
