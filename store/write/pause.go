package write

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/pkg/wait"
)

// pauses are the pauses between retries while ClickHouse is unavailable.
var pauses = wait.Backoff{First: 100 * time.Millisecond, Longest: 5 * time.Second}

// pingInterval is the longest time between two pings of ClickHouse during a pause; the shortest is half of it.
const pingInterval = time.Second

// pauseUntilReachable pauses after an insert that failed with cause. Retrying a whole batch in vain is expensive and a
// ping is cheap, so ClickHouse is pinged once or twice a second, and the pause ends early once an unreachable server
// answers again. A server that answers but fails inserts, for example for want of memory, gets the full pause.
func (l *loader) pauseUntilReachable(ctx context.Context, s *shard, pause time.Duration, cause error) error {
	end := time.Now().Add(pause)
	unreachable := !isServerAnswer(cause)
	for {
		left := time.Until(end)
		if err := wait.For(ctx, min(left, pingInterval/2+rand.N(pingInterval/2))); err != nil {
			return err
		}
		if !time.Now().Before(end) {
			return nil
		}
		pingCtx, cancel := context.WithTimeout(ctx, pingInterval)
		err := s.conn.Ping(pingCtx)
		cancel()
		if err == nil && unreachable {
			return nil
		}
		unreachable = err != nil
	}
}

// isServerAnswer reports whether an error was sent by ClickHouse itself, so that the server is reachable.
func isServerAnswer(err error) bool {
	var ex *clickhouse.Exception
	return errors.As(err, &ex)
}
