package write

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// unavailableConn is a ClickHouse that cannot be reached before reachableFrom and rejects inserts before acceptsFrom.
type unavailableConn struct {
	driver.Conn
	reachableFrom, acceptsFrom time.Time
	inserts, pings             int
	acceptedAt                 time.Time
	code                       int32 // error code of rejected inserts
}

func (c *unavailableConn) Ping(context.Context) error {
	c.pings++
	if time.Now().Before(c.reachableFrom) {
		return errors.New("connection refused")
	}
	return nil
}

func (c *unavailableConn) PrepareBatch(context.Context, string, ...driver.PrepareBatchOption) (driver.Batch, error) {
	switch c.inserts++; {
	case time.Now().Before(c.reachableFrom):
		return nil, errors.New("connection refused")
	case time.Now().Before(c.acceptsFrom):
		return nil, &clickhouse.Exception{Code: c.code}
	}
	c.acceptedAt = time.Now()
	return nil, errRowsRejected // ends the retries as a success would
}

// TestWriterNoticesThatClickHouseIsBack: however long ClickHouse was unreachable, the writer notices within 1.5 s that
// it is back. It pings instead of sending batches, of which there are no more than the back-off allows. A server that
// answers but rejects inserts gets the full pauses.
func TestWriterNoticesThatClickHouseIsBack(t *testing.T) {
	for _, c := range []struct {
		name                   string
		unreachable, rejecting time.Duration
		maxDelay               time.Duration
		maxInserts, minPings   int
		code                   int32
	}{
		{"blink", 50 * time.Millisecond, 0, 200 * time.Millisecond, 3, 0, 0},
		{"half a minute", 30 * time.Second, 0, pingInterval, 16, 20, 0},
		// A pause takes 3.75 s on average: 23,040 a day, with a standard deviation of 29 (0.72 s each).
		{"a day", 24 * time.Hour, 0, pingInterval, 24_000, 50_000, 0},
		{"out of memory for a minute", 0, time.Minute, pauses.Longest * 3 / 2, 30, 0, 241},
		{"gone, then out of memory", time.Minute, 2 * time.Minute, pauses.Longest * 3 / 2, 60, 40, 241},
		{"too many parts", 0, 1400 * time.Millisecond, pauses.Longest * 3 / 2, 3, 0, codeTooManyParts},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				conn := &unavailableConn{
					reachableFrom: began.Add(c.unreachable), acceptsFrom: began.Add(max(c.unreachable, c.rejecting)), code: c.code}
				l := testLoader(WriterConfig{}.withDefaults())
				err := insertWithRetry(t.Context(), l, &shard{conn: conn}, eventsTable(), []*eventRow{})
				must.ErrorIs(t, err, errRowsRejected)
				if delay := conn.acceptedAt.Sub(conn.acceptsFrom); delay > c.maxDelay {
					t.Errorf("rows are inserted %v after ClickHouse accepts them, want %v at most", delay, c.maxDelay)
				}
				if conn.inserts > c.maxInserts || conn.pings < c.minPings {
					t.Errorf("%d inserts, want %d at most; %d pings, want %d at least", conn.inserts, c.maxInserts,
						conn.pings, c.minPings)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		l := testLoader(WriterConfig{})
		s := &shard{conn: &unavailableConn{reachableFrom: time.Now().Add(time.Hour)}}
		if err := l.pauseUntilReachable(ctx, s, time.Minute, errors.New("connection refused")); !errors.Is(
			err, context.DeadlineExceeded) {
			t.Errorf("a stop ends the pause with %v, want DeadlineExceeded", err)
		}
	})
}

// A count stops waiting for another one, whose statement may hang for a minute, when its context ends.
func TestCountWaitsForItsContext(t *testing.T) {
	usage := hoursOfEvents()
	must.Do(t, usage.counting.Acquire(t.Context(), 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is.Failed(t, usage.countAll(ctx, nil, time.Now()), "context canceled", "")
}
