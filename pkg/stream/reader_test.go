package stream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/must"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A lasting error of the brokers ends a read; a passing one does not.
func TestReadReturnsLastingErrors(t *testing.T) {
	for _, f := range []struct {
		err  *kerr.Error
		ends bool
	}{{kerr.TopicAuthorizationFailed, true}, {kerr.UnknownServerError, true}, {kerr.NotLeaderForPartition, false},
		{kerr.KafkaStorageError, false}} {
		t.Run(f.err.Message, func(t *testing.T) {
			cluster, c, p := broker(t)
			must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("x")}))
			r, err := NewReader(c, "test")
			must.Do(t, err)
			defer r.Close()
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t." + Events, Err: f.err, Count: 1})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			err = r.Read(ctx, Partition{Topic: Events}, 0, func(*Record) error { return ErrStop })
			switch {
			case f.ends && (!errors.Is(err, ErrRead) || !errors.Is(err, f.err)):
				t.Errorf("read: %v, want %v", err, f.err)
			case !f.ends && err != nil:
				t.Errorf("read: %v, want the record", err)
			}
		})
	}
}
