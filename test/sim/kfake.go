package sim

import (
	"context"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/stream"
)

const kafkaAddr = "localhost:9092"

// fakeKafka is kfake: the client of Kafka speaks its protocol over connections of the simulation.
type fakeKafka struct {
	w *World
	*kfake.Cluster
	listener *listener
}

func newKfake(w *World) (*fakeKafka, error) {
	f := &fakeKafka{w: w, listener: newListener(kafkaAddr)}
	var err error
	f.Cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return f.listener, nil }))
	if err == nil {
		_, err = stream.Migrate(context.Background(), f.config(w.direct, "", nil), w.partitions, 1)
	}
	return f, err
}

func (f *fakeKafka) config(over *link, _ string, _ func() time.Time) stream.Config {
	return stream.Config{Brokers: []string{kafkaAddr}, Prefix: "relay.", Log: f.w.log,
		DialFunc: func(ctx context.Context, _, _ string) (net.Conn, error) { return f.listener.connect(ctx, over) }}
}

func (f *fakeKafka) end(p stream.Partition) int64 {
	return f.PartitionInfo("relay."+p.Topic, p.Index).HighWatermark
}

func (f *fakeKafka) close() { f.Close() }

func (f *fakeKafka) refuse(why *kerr.Error) (end func()) {
	return f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: why, Count: -1}).Remove
}

func (f *fakeKafka) dropCoordinators() (end func()) {
	return f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorNotAvailable, Count: -1}).Remove
}

// move does what refuse does: kfake has one broker.
func (f *fakeKafka) move(int32) (end func()) { return f.refuse(kerr.NotLeaderForPartition) }

func (f *fakeKafka) forgetMember() {
	f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: kerr.UnknownMemberID})
}
