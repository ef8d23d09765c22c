package clickhouse

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/test/is"
)

// TestReadsLeaveSessionsToTheWriter: however many statements read, statements that write have their sessions and a ping
// its own. A statement that waits for a read session, or gives up, holds no other slot.
func TestReadsLeaveSessionsToTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(8)
		read := &request{query: " select * from events"}
		insert := &request{query: "INSERT INTO events", insert: strings.NewReader("")}
		ping := &request{query: pingQuery}
		take := func(q *request) (func(), bool) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			release, err := s.acquire(ctx, q)
			return release, err == nil
		}
		var reads []func()
		for range 100 {
			if release, ok := take(read); ok {
				reads = append(reads, release)
			}
		}
		is.Equal(t, len(reads), 6, "reads hold … of 8 sessions")
		var writes []func()
		for _, q := range []*request{insert, {query: "ALTER TABLE events DELETE WHERE 1"}} {
			release, ok := take(q)
			if !ok {
				t.Fatalf("%q waits although two sessions are free for it", q.query)
			}
			writes = append(writes, release)
		}
		if _, ok := take(insert); ok {
			t.Error("a ninth statement runs")
		}
		release, ok := take(ping)
		if !ok {
			t.Fatal("a ping waits for other statements")
		}
		release()
		for _, release := range append(reads, writes...) {
			release()
		}
		is.Equal(t, len(s.all)+len(s.reads)+len(s.ping), 0,
			"%d, %d and %d slots were not released", len(s.all), len(s.reads), len(s.ping))
	})
}
