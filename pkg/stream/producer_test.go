package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A broker rejects whole batches. With a batch of its own the error is about one record.
func TestProduceInOwnBatch(t *testing.T) {
	cluster, _, p := broker(t)
	refuse := func(err *kerr.Error) {
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t." + Events, Err: err})
	}
	for _, f := range []struct {
		err     *kerr.Error
		refused bool
	}{{kerr.MessageTooLarge, true}, {kerr.RecordListTooLarge, true}, {kerr.InvalidRecord, true},
		{kerr.InvalidTimestamp, false}, {kerr.TopicAuthorizationFailed, false}} {
		refuse(f.err)
		r := &Record{Value: []byte("x")}
		err := p.ProduceInOwnBatch(t.Context(), Events, 0, r)
		if !errors.Is(err, f.err) || RejectedByBroker(err) != f.refused || !r.Timestamp.IsZero() {
			t.Errorf("%v: %v, refused %v, time %v", f.err, err, RejectedByBroker(err), r.Timestamp)
		}
		is.OK(t, p.ProduceInOwnBatch(t.Context(), Events, 0, r), "after %v", f.err)
	}
	cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: "t." + Events, Err: kerr.NotLeaderForPartition, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := p.ProduceInOwnBatch(ctx, Events, 0, &Record{Value: []byte("x")})
	if !errors.Is(err, context.DeadlineExceeded) || RejectedByBroker(err) {
		t.Errorf("without an answer: %v", err)
	}
}

// WaitForRoom waits while the buffer is too full for the record, and no longer.
func TestWaitForRoom(t *testing.T) {
	cluster, c, _ := broker(t)
	c.ProducerBufferBytes = 1000
	p := must.Get(NewProducer(c, "small"))(t)
	defer p.Close()
	hasRoom := func(r *Record) {
		t.Helper()
		is.OK(t, p.WaitForRoom(t.Context(), r))
	}
	sized := func(n int) *Record {
		return &Record{Value: make([]byte, n), Headers: []Header{{Key: "k", Value: make([]byte, 99)}}}
	}
	hasRoom(sized(5000)) // beyond the limit: only Produce can reject it
	accept := cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: "t." + Events, Err: kerr.NotLeaderForPartition, Count: -1}).Remove
	taken := make(chan error, 1)
	p.Produce(Events, 0, sized(600), func(_ *Record, err error) { taken <- err })
	hasRoom(sized(200)) // beside 700 of 1000 buffered bytes
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	is.ErrorIs(t, p.WaitForRoom(ctx, sized(201)), context.DeadlineExceeded,
		"beside 700 of 1000 buffered bytes there is room for 301")
	accept()
	hasRoom(sized(201))
	is.OK(t, <-taken)
}

// The first DeadHeaderCount headers of a dead letter are its own.
func TestDeadLetterRecord(t *testing.T) {
	r := &Record{Topic: "t.events", Partition: 3, Offset: 7, Key: []byte("k"), Value: []byte("v"),
		Headers: []Header{{Key: "h"}}}
	letter := Config{Prefix: "t."}.DeadLetterRecord(r, "dispatch", errors.New("why"))
	if string(letter.Headers[DeadHeaderCount].Key) != "h" || letter.Headers[DeadHeaderCount-1].Key != HeaderDeadError ||
		string(letter.Headers[0].Value) != "events" {
		t.Errorf("%v", letter.Headers)
	}
}

// Unordered records share requests while many wait for their acknowledgement, however few arrive a second. Those that
// were answered, or never queued, no longer wait.
func TestWaitingRecordsShareRequests(t *testing.T) {
	_, _, p := broker(t)
	kafka := p.Appender.(*kafkaProducer)
	for i := range 2 * manyUnanswered {
		want := kafka.noLinger
		if i >= manyUnanswered {
			want = kafka.shortLinger
		}
		is.Equal(t, kafka.clientOfUnordered(), want, "the record after %d that wait goes to another client", i)
	}
	kafka.unanswered.Store(0)
	answered := make(chan error)
	for _, topic := range []string{Events, "no such topic"} {
		go p.ProduceUnordered(topic, 0, &Record{Value: []byte("x")}, func(_ *Record, err error) { answered <- err })
		if err := <-answered; (err == nil) != (topic == Events) {
			t.Errorf("%s: %v", topic, err)
		}
	}
	is.Equal(t, kafka.unanswered.Load(), 0, "records still wait")
}

// Outcomes and retries linger, and so do unordered records while they arrive fast. All other records are sent at once.
func TestRecordsThatLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen)))(t)
		defer cluster.Close()
		c := Config{Brokers: cluster.ListenAddrs(), DialFunc: network.DialContext}
		must.Get(Migrate(t.Context(), c, 1, 1))(t)
		p := must.Get(NewProducer(c, "test"))(t)
		defer p.Close()
		took := func(topic string) time.Duration {
			began := time.Now()
			must.Do(t, p.ProduceSync(t.Context(), topic, 0, &Record{Value: []byte("x")}))
			return time.Since(began)
		}
		for topic, want := range map[string]time.Duration{
			Events: 0, Commands: 0, Control: 0, Tiers()[0].Topic: outcomeLinger, Outcomes: outcomeLinger} {
			took(topic) // its client connects
			is.Equal(t, took(topic), want, "a record of %s took", topic)
		}
		// lateOf returns how many of 200 records at 10,000 a second lingered.
		lateOf := func(produce func(string, int32, *Record, func(*Record, error))) int64 {
			var all sync.WaitGroup
			var late atomic.Int64
			for range 200 {
				all.Add(1)
				began := time.Now()
				produce(Events, 0, &Record{Value: []byte("x")}, func(_ *Record, err error) {
					is.OK(t, err)
					if time.Since(began) >= unorderedLinger {
						late.Add(1)
					}
					all.Done()
				})
				time.Sleep(100 * time.Microsecond)
			}
			all.Wait()
			return late.Load()
		}
		if n := lateOf(p.ProduceUnordered); n < 10 || n > 100 { // the first of each batch waits for the whole linger
			t.Errorf("%d of 200 unordered records lingered", n)
		}
		is.Equal(t, lateOf(p.Produce), 0, "of 200 ordered records lingered")
		time.Sleep(time.Second)
		lone := func() time.Duration {
			began, done := time.Now(), make(chan error, 1)
			p.ProduceUnordered(Events, 0, &Record{Value: []byte("x")}, func(_ *Record, err error) { done <- err })
			must.Do(t, <-done)
			return time.Since(began)
		}
		if lone(); lone() != 0 {
			t.Error("a single record lingers after a fast period")
		}
	})
}

// Batches are compressed, but none that would become more than ten times as large when it is read.
func TestCompressionIsBounded(t *testing.T) {
	c := must.Get(newCompressor())(t)
	var different strings.Builder
	for i := range 200 {
		fmt.Fprintf(&different, `{"id":"%08x","amount":%d}`, i*2_654_435_761, i*i*7919%100_003)
	}
	for name, x := range map[string]struct {
		batch string
		want  kgo.CompressionCodecType
	}{
		"events": {different.String(), kgo.CodecZstd}, "zeros": {strings.Repeat("\x00", 1<<20), kgo.CodecNone},
		"one event again and again": {strings.Repeat(`{"type":"order.paid","data":{"id":"o_1"}}`, 100), kgo.CodecNone},
	} {
		out, codec := c.Compress(new(bytes.Buffer), []byte(x.batch))
		if codec != x.want || len(out)*maxExpansion < len(x.batch) {
			t.Errorf("%s: %d of %d bytes, codec %d", name, len(out), len(x.batch), codec)
		}
	}
}
