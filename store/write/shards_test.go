package write_test

import (
	"testing"

	"github.com/eventrelay/relay/test/storetest"
)

// TestOnTwoShardsWrites runs tests of one ClickHouse server on two shards.
func TestOnTwoShardsWrites(t *testing.T) {
	tests := map[string]func(*testing.T){
		"versions": TestDeliveryVersions, "unavailable": TestClickHouseUnavailable, "erased": TestErasedPayloadStaysErased,
		"not recovered": TestErasedEventsAreNotRecovered, "expired": TestExpiredDaysAreDropped,
	}
	thorough := map[string]func(*testing.T){
		"retention": TestRetention,
		"poison":    TestPoisonBecomesDeadLetters, "writers": TestWritersShareTheLog, "write and read": TestWriteAndRead,
	}
	storetest.OnTwoShards(t, tests, thorough, "unavailable", "erased")
}
