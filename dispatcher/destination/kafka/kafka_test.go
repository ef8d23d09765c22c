package kafka

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/desttest"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/spanstest"
)

func TestMain(m *testing.M) { kit.Main(m) }

// rig delivers to one destination.
type rig struct {
	*Kind
	*desttest.Rig
}

func newRig(t *testing.T, policy egress.Policy, settings kinds.Kafka) *rig {
	t.Helper()
	x := &rig{}
	x.Rig = desttest.New(t, policy, kinds.Settings{Kafka: &settings}, func(r *desttest.Rig) destination.Kind {
		x.Kind = New(Deps{Dial: r.Transport.Dial, Keyring: r.Keyring, Now: time.Now, Version: "test"})
		return x.Kind
	})
	x.Dest.TimeoutSeconds = 10
	x.Rig.Open()
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { x.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return x
}

// fake runs a broker with the topic orders.
func fake(t *testing.T, more ...kfake.Opt) (*kfake.Cluster, kinds.Kafka) {
	cluster := must.Get(kfake.NewCluster(append(more, kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))...))(t)
	t.Cleanup(cluster.Close)
	return cluster, kinds.Kafka{Brokers: cluster.ListenAddrs(), Topic: "orders", Plaintext: true}
}

// A record has the body as its value, the headers of a delivery, and the key that the settings name.
func TestRecords(t *testing.T) {
	cluster, settings := fake(t)
	for key, want := range map[string]string{"body:$.customer": "c-7", "endpoint_id": "ep_test", "type": "order.paid",
		"none": "", "header:Content-Type": "application/json", "body:$.missing": ""} {
		settings.Key = key
		x := newRig(t, desttest.Loopback(), settings)
		a, r := x.Send(`{"customer":"c-7"}`)
		if !a.OK || r.Lane != lane.Succeeded || a.URL != "kafka://"+settings.Brokers[0]+"/orders" ||
			a.ResponseHeader.Value("Kafka-Partition") == "" || a.Duration == 0 {
			t.Fatalf("%s: %+v %+v", key, a, r)
		}
		partition := must.Get(strconv.Atoi(a.ResponseHeader.Value("Kafka-Partition")))(t)
		offset := must.Get(strconv.ParseInt(a.ResponseHeader.Value("Kafka-Offset"), 10, 64))(t)
		consumer := must.Get(kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumePartitions(
			map[string]map[int32]kgo.Offset{"orders": {int32(partition): kgo.NewOffset().At(offset)}})))(t)
		last := consumer.PollFetches(t.Context()).Records()[0]
		consumer.Close()
		is.Equal(t, string(last.Key), want, "%s: the key is %q", key, last.Key)
		header := map[string]string{}
		for _, h := range last.Headers {
			header[h.Key] = string(h.Value)
		}
		if string(last.Value) != `{"customer":"c-7"}` || header["webhook-id"] == "" || header["webhook-signature"] == "" ||
			header["x-team"] != "billing" || header["content-type"] != "application/json" {
			t.Errorf("%s: %s %v", key, last.Value, header)
		}
	}
}

// A record of a traced event names the span of its attempt.
func TestRecordOfATracedEvent(t *testing.T) {
	_, settings := fake(t)
	x, collector := newRig(t, desttest.Loopback(), settings), spanstest.New(t, nil)
	recorder, stop := collector.Recorder(t)
	x.Spans = recorder
	x.Rig.Open()
	a, _ := x.Send("{}")
	stop()
	attempt := spanstest.Named(collector.Wait(t, map[string]int{"attempt": 1}), "attempt")[0]
	if a.Trace == "" || attempt.Traceparent() != a.Trace || a.RequestHeader.Value("Traceparent") != a.Trace ||
		attempt.Failed || attempt.Attributes["messaging.operation.name"] != event.Produce {
		t.Errorf("%+v, %s", attempt, a.Trace)
	}
}

// An error names what a person can change. A record that is too large is not retried, others are.
func TestFaultsOfTheBroker(t *testing.T) {
	cluster, settings := fake(t)
	x := newRig(t, desttest.Loopback(), settings)
	var fault atomic.Int64
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		answer := request.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range request.(*kmsg.ProduceRequest).Topics {
			out := kmsg.NewProduceResponseTopic()
			out.Topic, out.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.ErrorCode = partition.Partition, int16(fault.Load())
				if fault.Load() == int64(kerr.PolicyViolation.Code) {
					p.ErrorMessage = kmsg.StringPtr(strings.Repeat("x", maxAnswer))
				}
				out.Partitions = append(out.Partitions, p)
			}
			answer.Topics = append(answer.Topics, out)
		}
		return answer, nil, fault.Load() != 0
	})
	for code, want := range map[int16]struct {
		code    event.ErrorCode
		message string
		class   destination.Class
	}{
		kerr.TopicAuthorizationFailed.Code: {event.CodeAccessDenied, "access denied for topic orders", destination.Retryable},
		kerr.MessageTooLarge.Code:          {event.CodeTooLarge, "larger than topic orders", destination.Final},
		kerr.InvalidRecord.Code:            {event.CodeRefused, "INVALID_RECORD", destination.Retryable},
	} {
		fault.Store(int64(code))
		x.Fails("{}", want.code, want.message, want.class)
	}
	fault.Store(int64(kerr.PolicyViolation.Code)) // in an answer that is too long to be read
	x.Dest.TimeoutSeconds = 1
	x.Rig.Open()
	x.Fails("{}", event.CodeTimeout, "", destination.Retryable)
	x.Dest.TimeoutSeconds = 10
	x.Rig.Open()
	fault.Store(0)
	if a, _ := x.Send("{}"); !a.OK {
		t.Errorf("after all faults: %s %s", a.ErrorCode, a.ErrorMessage)
	}
	x.Fails(strings.Repeat("x", 1_000_000), event.CodeTooLarge, "max_record_bytes (1000000)", destination.Final)

	settings.Topic = "other"
	newRig(t, desttest.Loopback(), settings).Fails("{}", event.CodeNotFound, "topic other not found",
		destination.Retryable)
	settings.Topic, settings.Brokers = "orders", []string{fmt.Sprintf("127.0.0.1:%d", kit.FreePort(t))}
	newRig(t, desttest.Loopback(), settings).Fails("{}", event.CodeConnectionRefused, "refused", destination.Retryable)
	settings.Brokers = []string{"10.0.0.1:9092"}
	newRig(t, desttest.Loopback(), settings).Fails("{}", event.CodeAddressBlocked, "not public", destination.Retryable)
}

// Brokers that another one names are checked by the guard, too: a customer's cluster cannot lead to an inner address.
func TestBrokersOfMetadataAreChecked(t *testing.T) {
	cluster, settings := fake(t)
	cluster.ControlKey(int16(kmsg.Metadata), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		answer := request.ResponseKind().(*kmsg.MetadataResponse)
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = 1, "10.0.0.1", 9092
		topic, partition := kmsg.NewMetadataResponseTopic(), kmsg.NewMetadataResponseTopicPartition()
		topic.Topic, partition.Leader = kmsg.StringPtr("orders"), 1
		topic.TopicID = [16]byte{1}
		topic.Partitions = append(topic.Partitions, partition)
		answer.Brokers, answer.Topics = append(answer.Brokers, b), append(answer.Topics, topic)
		return answer, nil, true
	})
	x := newRig(t, desttest.Loopback(), settings)
	x.Dest.TimeoutSeconds = 1
	x.Rig.Open()
	x.Fails("{}", event.CodeAddressBlocked, "not public", destination.Retryable)
}

// A client serves all deliveries, is closed when it is not used, and opened again.
func TestClientsAreShared(t *testing.T) {
	_, settings := fake(t)
	x := newRig(t, desttest.Loopback(), settings)
	var dialed atomic.Int64
	dial := x.Dial
	x.Dial = func(ctx context.Context, address string, plain bool, roots []byte) (net.Conn, error) {
		dialed.Add(1)
		return dial(ctx, address, plain, roots)
	}
	var all sync.WaitGroup
	for range 500 {
		all.Go(func() {
			if a, _ := x.Send("{}"); !a.OK {
				t.Errorf("%s %s", a.ErrorCode, a.ErrorMessage)
			}
		})
	}
	all.Wait()
	x.Rig.Open() // as after a change of something else
	x.Send("{}")
	if n := dialed.Load(); n > 6 || len(x.clients) != 1 {
		t.Errorf("%d connections, %d clients", n, len(x.clients))
	}
}

// Apache Kafka with TLS, SCRAM and ACLs.
func TestApacheKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an Apache Kafka")
	}
	b := kit.SecureKafka(t)
	b.AddUser(t, "relay", "hunter2")
	if _, err := b.Admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"max.message.bytes": kmsg.StringPtr("20000")},
		"orders"); err != nil {
		t.Fatal(err)
	}
	ca := must.Get(os.ReadFile(b.CA.File))(t)
	settings := kinds.Kafka{Brokers: []string{b.SASLAddr}, Topic: "orders", SASL: "scram-sha-512", Username: "relay",
		Password: "hunter2", CA: string(ca), Compression: "zstd"}
	x := newRig(t, desttest.Loopback(), settings)
	x.Fails("{}", event.CodeAccessDenied, "access denied for topic orders", destination.Retryable)
	b.Allow(t, "User:relay", "topics", "orders", kadm.OpDescribe, kadm.OpWrite)
	kit.WaitFor(t, "the right to write", func() bool { a, _ := x.Send("{}"); return a.OK })
	x.Fails(string(must.Get(randomText(30_000))(t)), event.CodeTooLarge, "topic orders", destination.Final)
	var all sync.WaitGroup // together they are too large for one batch
	for range 30 {
		all.Go(func() {
			if a, _ := x.Send(string(must.Get(randomText(5_000))(t))); !a.OK {
				t.Errorf("%s %s", a.ErrorCode, a.ErrorMessage)
			}
		})
	}
	all.Wait()
	wrong := settings
	wrong.Password = "hunter2-wrong"
	newRig(t, desttest.Loopback(), wrong).Fails("{}", event.CodeAccessDenied, "refused the user name or password",
		destination.Retryable)
	wrong = settings
	wrong.SASL = "plain"
	newRig(t, desttest.Loopback(), wrong).Fails("{}", event.CodeAccessDenied, "does not offer sasl plain",
		destination.Retryable)
	wrong = settings
	wrong.CA = ""
	newRig(t, desttest.Loopback(), wrong).Fails("{}", event.CodeTLS, "certificate", destination.Retryable)
	strict := desttest.Loopback()
	strict.AllowHTTP = false
	wrong = settings
	wrong.Plaintext = true
	newRig(t, strict, wrong).Fails("{}", event.CodeAddressBlocked, "http is not allowed", destination.Retryable)
}

// randomText returns n characters that do not compress well.
func randomText(n int) ([]byte, error) {
	random := make([]byte, n/2)
	_, err := rand.Read(random)
	return []byte(hex.EncodeToString(random)), err
}
