package write

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/pkg/wait"
)

// pauses lie between tries while ClickHouse is away.
var pauses = wait.Backoff{First: 100 * time.Millisecond, Longest: 5 * time.Second}

// askEvery is how often it is asked meanwhile whether it is back, halved at random.
const askEvery = time.Second

// rest pauses after an insert that failed with cause. A whole batch that is sent in vain costs much, the question
// whether anybody is there next to nothing: so it is asked every second, and the rest ends when ClickHouse is back.
// A server that is there and takes no rows, for want of memory perhaps, gets its rest.
func (w *Writer) rest(ctx context.Context, s *shard, pause time.Duration, cause error) error {
	end := time.Now().Add(pause)
	gone := !answered(cause)
	for {
		left := time.Until(end)
		if err := wait.For(ctx, min(left, askEvery/2+rand.N(askEvery/2))); err != nil {
			return err
		}
		if !time.Now().Before(end) {
			return nil
		}
		ask, cancel := context.WithTimeout(ctx, askEvery)
		err := s.conn.Ping(ask)
		cancel()
		if err == nil && gone {
			return nil
		}
		gone = err != nil
	}
}

// answered reports whether an error is ClickHouse's own word: then it is there.
func answered(err error) bool {
	var ex *clickhouse.Exception
	return errors.As(err, &ex)
}
