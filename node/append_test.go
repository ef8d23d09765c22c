package node

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// slowLog answers each record a second after it was produced.
type slowLog struct {
	room     int // records
	fails    int // the number of the record that fails, from 1
	produced int
	answered int32
}

func (l *slowLog) WaitForRoom(context.Context, *stream.Record) error {
	if l.produced == l.room {
		return errors.New("no room")
	}
	return nil
}

func (l *slowLog) Produce(_ string, _ int32, r *stream.Record, done func(*stream.Record, error)) {
	l.produced++
	var err error
	if l.produced == l.fails {
		err = errors.New("no leader")
	}
	time.AfterFunc(time.Second, func() { atomic.AddInt32(&l.answered, 1); done(r, err) })
}

// When appendAll returns an error, no record is in flight: a caller that repeats the call must not race with the
// records of the first.
func TestNothingIsInFlightAfterAnError(t *testing.T) {
	errRecord := errors.New("cannot be made")
	for name, c := range map[string]struct {
		log                    slowLog
		bad                    int // the number of the record that cannot be made, from 1
		want                   error
		produced, acknowledged int
	}{
		"all are durable":        {log: slowLog{room: 10}, produced: 5, acknowledged: 5},
		"one cannot be made":     {log: slowLog{room: 10}, bad: 4, want: errRecord, produced: 3, acknowledged: 3},
		"no room for the fourth": {log: slowLog{room: 3}, want: stream.ErrBufferFull, produced: 3, acknowledged: 3},
		"one is rejected":        {log: slowLog{room: 10, fails: 2}, want: errors.New("any"), produced: 5, acknowledged: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				record := func(n int) (int32, *stream.Record, error) {
					if n == c.bad {
						return 0, nil, errRecord
					}
					return 0, &stream.Record{}, nil
				}
				n, err := appendAll(t.Context(), &c.log, stream.Commands, []int{1, 2, 3, 4, 5}, record)
				if (err == nil) != (c.want == nil) || c.log.fails == 0 && !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				if n != c.acknowledged || c.log.produced != c.produced || int(c.log.answered) != c.produced {
					t.Errorf("%d of %d are durable, %d answered, want %d of %d",
						n, c.log.produced, c.log.answered, c.acknowledged, c.produced)
				}
			})
		})
	}
}

// When the context ends, appendAll does not wait for the answers.
func TestAppendingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		log := &slowLog{room: 10}
		record := func(int) (int32, *stream.Record, error) { return 0, &stream.Record{}, nil }
		n, err := appendAll(ctx, log, stream.Commands, []int{1, 2}, record)
		if n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d are durable, %v", n, err)
		}
		time.Sleep(2 * time.Second) // the late answers do not block the producer
	})
}
