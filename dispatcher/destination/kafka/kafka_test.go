package kafka

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

// rig delivers to one destination.
type rig struct {
	*Kind
	t      *testing.T
	sender *destination.Sender
	dest   *config.Destination
}

func newRig(t *testing.T, policy egress.Policy, settings kinds.Kafka) *rig {
	t.Helper()
	keyring := must.Get(seal.NewKeyring(seal.GenerateKey("test")))(t)
	transport := must.Get(egress.NewTransport(egress.Config{Policy: policy}))(t)
	waited := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "w"})
	x := &rig{t: t, sender: destination.NewSender(time.Now, 100, waited)}
	x.Kind = New(Deps{Dial: transport.Dial, Keyring: keyring, Now: time.Now, Version: "test"})
	all := kinds.Settings{Kafka: &settings}
	all.Trim()
	must.Do(t, all.Validate(kinds.Checks{Opened: true, URL: func(string) error { return nil }}))
	_, address := all.Kind()
	secret := keyring.SealString("dst_test", seal.FieldSecret, sign.NewSecret().Reveal())
	x.dest = &config.Destination{ID: "dst_test", URL: address, TimeoutSeconds: 10,
		Headers:  map[string]seal.Secret{"X-Team": keyring.SealString("dst_test", seal.FieldHeader("X-Team"), "billing")},
		Secrets:  []config.SigningSecret{{Secret: secret}},
		Settings: all.Seal(keyring, "dst_test", kinds.Settings{}, kinds.Settings{})}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { x.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return x
}

func loopback() egress.Policy {
	return egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHTTP: true}
}

// send makes one attempt, opening the destination anew.
func (x *rig) send(body string) (*event.Attempt, destination.Result) {
	x.t.Helper()
	to := must.Get(x.Open(&config.Endpoint{}, x.dest))(x.t)
	work := &event.Work{Event: &event.Event{ID: must.Get(id.NewGenerator(nil).New(0))(x.t), Endpoint: "ep_test",
		Source: event.SourceProvider, Type: "order.paid", Method: "POST", Body: []byte(body),
		Header: []event.Field{{Name: "Content-Type", Value: "application/json"}}},
		Dest: "dst_test", Trigger: event.TriggerInitial, Attempt: 1}
	attempt, result := x.sender.Send(x.t.Context(), work.Event.ID, to, work, destination.Stored(work), nil)
	if strings.Contains(attempt.ErrorMessage+string(attempt.RequestHeader), "hunter2") {
		x.t.Errorf("the attempt shows a secret: %s", attempt.ErrorMessage)
	}
	return attempt, result
}

// fails checks the code and the message of an attempt that fails.
func (x *rig) fails(body string, code event.ErrorCode, message string, class destination.Class) {
	x.t.Helper()
	a, r := x.send(body)
	if a.OK || a.ErrorCode != code || !strings.Contains(a.ErrorMessage, message) || r.Class != class {
		x.t.Errorf("%s %q, class %d; want %s %q, class %d", a.ErrorCode, a.ErrorMessage, r.Class, code, message, class)
	}
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
		x := newRig(t, loopback(), settings)
		a, r := x.send(`{"customer":"c-7"}`)
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
		if string(last.Key) != want {
			t.Errorf("%s: the key is %q", key, last.Key)
		}
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

// An error names what a person can change. A record that is too large is not retried, others are.
func TestFaultsOfTheBroker(t *testing.T) {
	cluster, settings := fake(t)
	x := newRig(t, loopback(), settings)
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
		x.fails("{}", want.code, want.message, want.class)
	}
	fault.Store(0)
	if a, _ := x.send("{}"); !a.OK {
		t.Errorf("after all faults: %s %s", a.ErrorCode, a.ErrorMessage)
	}
	x.fails(strings.Repeat("x", 1_000_000), event.CodeTooLarge, "max_record_bytes (1000000)", destination.Final)

	settings.Topic = "other"
	newRig(t, loopback(), settings).fails("{}", event.CodeNotFound, "topic other not found", destination.Retryable)
	settings.Topic, settings.Brokers = "orders", []string{fmt.Sprintf("127.0.0.1:%d", kit.FreePort(t))}
	newRig(t, loopback(), settings).fails("{}", event.CodeConnectionRefused, "refused", destination.Retryable)
	settings.Brokers = []string{"10.0.0.1:9092"}
	newRig(t, loopback(), settings).fails("{}", event.CodeAddressBlocked, "not public", destination.Retryable)
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
	x := newRig(t, loopback(), settings)
	x.dest.TimeoutSeconds = 1
	x.fails("{}", event.CodeAddressBlocked, "not public", destination.Retryable)
}

// A client serves all deliveries, is closed when it is not used, and opened again.
func TestClientsAreShared(t *testing.T) {
	_, settings := fake(t)
	x := newRig(t, loopback(), settings)
	var dialed atomic.Int64
	dial := x.Dial
	x.Dial = func(ctx context.Context, address string, plain bool, roots []byte) (net.Conn, error) {
		dialed.Add(1)
		return dial(ctx, address, plain, roots)
	}
	var all sync.WaitGroup
	for range 500 {
		all.Go(func() {
			if a, _ := x.send("{}"); !a.OK {
				t.Errorf("%s %s", a.ErrorCode, a.ErrorMessage)
			}
		})
	}
	all.Wait()
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
	x := newRig(t, loopback(), settings)
	x.fails("{}", event.CodeAccessDenied, "access denied for topic orders", destination.Retryable)
	b.Allow(t, "User:relay", "topics", "orders", kadm.OpDescribe, kadm.OpWrite)
	kit.WaitFor(t, "the right to write", func() bool { a, _ := x.send("{}"); return a.OK })
	x.fails(string(must.Get(randomText(30_000))(t)), event.CodeTooLarge, "topic orders", destination.Final)
	var all sync.WaitGroup // together they are too large for one batch
	for range 30 {
		all.Go(func() {
			if a, _ := x.send(string(must.Get(randomText(5_000))(t))); !a.OK {
				t.Errorf("%s %s", a.ErrorCode, a.ErrorMessage)
			}
		})
	}
	all.Wait()
	wrong := settings
	wrong.Password = "hunter2-wrong"
	newRig(t, loopback(), wrong).fails("{}", event.CodeAccessDenied, "refused the user name or password",
		destination.Retryable)
	wrong = settings
	wrong.SASL = "plain"
	newRig(t, loopback(), wrong).fails("{}", event.CodeAccessDenied, "does not offer sasl plain", destination.Retryable)
	wrong = settings
	wrong.CA = ""
	newRig(t, loopback(), wrong).fails("{}", event.CodeTLS, "certificate", destination.Retryable)
	strict := loopback()
	strict.AllowHTTP = false
	wrong = settings
	wrong.Plaintext = true
	newRig(t, strict, wrong).fails("{}", event.CodeAddressBlocked, "http is not allowed", destination.Retryable)
}

// randomText returns n characters that do not compress well.
func randomText(n int) ([]byte, error) {
	random := make([]byte, n/2)
	_, err := rand.Read(random)
	return []byte(hex.EncodeToString(random)), err
}
