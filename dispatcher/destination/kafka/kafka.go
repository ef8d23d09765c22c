// Package kafka delivers events as records of a topic in a customer's Kafka. A delivery has succeeded when all in-sync
// replicas have the record.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/brokers"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
)

const (
	// keepUnused is how long a client is kept without a delivery.
	keepUnused = time.Minute
	// recordOverhead is what a batch of one record has beside key, value and headers, at most, in bytes.
	recordOverhead = 256
	// inFlight is how many batches of a destination are sent to a broker at a time.
	inFlight = 5
	// maxAnswer bounds an answer of a broker, in bytes. The client makes room for as much as a broker announces.
	maxAnswer = 2 << 20
)

// Kind delivers to Kafka. Run closes what it has opened.
type Kind struct {
	Deps
	userAgent string
	names     destination.Names

	mu      sync.Mutex // guards clients and their fields users and used
	clients map[string]*client
}

// Deps are the dependencies of a Kind.
type Deps struct {
	Dial    brokers.DialFunc
	Keyring *seal.Keyring
	Now     func() time.Time
	Version string
}

// New makes a Kind. It starts nothing.
func New(deps Deps) *Kind {
	return &Kind{Deps: deps, userAgent: "EventRelay/" + deps.Version, clients: map[string]*client{}}
}

// client is the connection to the brokers of one destination, which its targets share.
type client struct {
	ready chan struct{} // closed when it is open, or err is set
	kgo   *kgo.Client
	err   error
	dials atomic.Pointer[error] // of the last connection that could not be made; nil after one that was made
	users int
	used  time.Time
}

// target is an opened destination.
type target struct {
	destination.Opened
	kind     *Kind
	settings kinds.Kafka
	address  string
	id       string // of the client: another one after a change
	key      destination.Key
}

// Open decrypts the settings.
func (k *Kind) Open(e *config.Endpoint, d *config.Destination) (destination.Target, error) {
	opened, err := destination.Open(k.Keyring, e, d)
	if err != nil {
		return nil, err
	}
	settings, err := d.Settings.Open(k.Keyring, d.ID)
	if err != nil {
		return nil, err
	}
	t := &target{Opened: opened, kind: k, settings: *settings.Kafka, address: d.URL}
	if t.key, err = destination.ParseKey(t.settings.Key); err != nil {
		return nil, fmt.Errorf("read key of %s: %w", d.ID, err)
	}
	t.id = fmt.Sprintf("%s %v %+v", d.ID, t.Timeout, t.settings)
	return t, nil
}

// Run closes clients that nobody uses, and all when ctx ends. Nothing is sent after that.
func (k *Kind) Run(ctx context.Context) {
	tick := time.NewTicker(keepUnused)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		k.mu.Lock()
		var unused []*client
		for name, c := range k.clients {
			if c.users == 0 && (ctx.Err() != nil || k.Now().Sub(c.used) >= keepUnused) {
				unused = append(unused, c)
				delete(k.clients, name)
			}
		}
		k.mu.Unlock()
		for _, c := range unused {
			c.close()
		}
	}
}

func (c *client) close() {
	if c.kgo != nil {
		c.kgo.Close()
	}
}

// acquire returns the client of a target, and a function that releases it. A client that has failed is closed when
// nobody uses it any more; the next one says why, since it checks the topic first.
func (t *target) acquire(ctx context.Context) (c *client, release func(failed bool), err error) {
	k := t.kind
	k.mu.Lock()
	c = k.clients[t.id]
	isNew := c == nil
	if isNew {
		c = &client{ready: make(chan struct{})}
		k.clients[t.id] = c
	}
	c.users++
	k.mu.Unlock()
	release = func(failed bool) {
		k.mu.Lock()
		c.users, c.used = c.users-1, k.Now()
		if failed && k.clients[t.id] == c {
			delete(k.clients, t.id)
		}
		last := c.users == 0 && k.clients[t.id] != c
		k.mu.Unlock()
		if last {
			c.close()
		}
	}
	if isNew {
		c.kgo, c.err = t.open(ctx, &c.dials)
		close(c.ready)
	}
	select {
	case <-c.ready:
		err = c.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		release(c.err != nil)
		return nil, nil, err
	}
	return c, release, nil
}

// open makes a client and asks for the topic.
func (t *target) open(ctx context.Context, failed *atomic.Pointer[error], more ...kgo.Opt) (*kgo.Client, error) {
	s := t.settings
	return brokers.Open(ctx, s, t.kind.Dial, failed, append([]kgo.Opt{
		kgo.RequestRetries(0), kgo.RecordRetries(2), kgo.UnknownTopicRetries(1), kgo.RecordDeliveryTimeout(t.Timeout),
		kgo.ProduceRequestTimeout(t.Timeout), kgo.ProducerLinger(0),
		// Without it a record that was sent cannot be given up when its attempt ends, and brokers before Kafka 3 ask for a
		// right that the customer may not give. A retry is another record in any case.
		kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(inFlight),
		kgo.FetchMaxBytes(maxAnswer), kgo.BrokerMaxReadBytes(maxAnswer), // the first may not be more than the second
		kgo.ProducerBatchMaxBytes(int32(s.MaxRecord)), kgo.ProducerBatchCompression(codecs[s.Compression]),
	}, more...)...)
}

var codecs = map[string]kgo.CompressionCodec{
	"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(),
	"zstd": kgo.ZstdCompression(), "none": kgo.NoCompression(),
}

// Send produces one record. The attempt records its headers, and the partition and offset that it got.
func (t *target) Send(ctx context.Context, m destination.Message) destination.Result {
	attempt := m.Attempt
	attempt.URL, attempt.Method = t.address, event.Produce
	header := m.Header(&t.Opened, t.kind.userAgent)
	attempt.RequestHeader = t.kind.names.Recorded(header, t.Header)
	record := &kgo.Record{Topic: t.settings.Topic, Value: m.Content.Body}
	if key := t.key.Of(m, header); key != "" {
		record.Key = []byte(key)
	}
	size := len(record.Key) + len(record.Value) + recordOverhead
	for name, values := range header {
		for _, value := range values {
			record.Headers = append(record.Headers, recordHeader(name, value, m.Content.Format))
			size += len(name) + len(value) + 2*recordOverhead/64
		}
	}
	slices.SortStableFunc(record.Headers, func(a, b kgo.RecordHeader) int { return strings.Compare(a.Key, b.Key) })
	limited, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	err := error(kerr.MessageTooLarge)
	if size <= t.settings.MaxRecord {
		err = t.produce(limited, record)
	}
	attempt.Duration = t.kind.Now().Sub(attempt.StartedAt)
	if err == nil {
		attempt.ResponseHeader = event.LinesOf([]event.Field{
			{Name: "Kafka-Offset", Value: strconv.FormatInt(record.Offset, 10)},
			{Name: "Kafka-Partition", Value: strconv.Itoa(int(record.Partition))}})
		return destination.Result{Lane: lane.Succeeded}
	}
	return destination.Failed(attempt, t.explain(err), t.Timeout)
}

// recordHeader is a header of a record. Those of the attributes of CloudEvents begin with ce_ there, and are UTF-8
// (Kafka protocol binding, 3.2.3).
func recordHeader(name, value, format string) kgo.RecordHeader {
	key := strings.ToLower(name)
	if attribute, is := strings.CutPrefix(key, "ce-"); is && format == config.FormatCloudEventsBinary {
		key = "ce_" + attribute
		value, _ = url.PathUnescape(value)
	}
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}

func (t *target) produce(ctx context.Context, record *kgo.Record) error {
	c, release, err := t.acquire(ctx)
	if err != nil {
		return err
	}
	err = c.kgo.ProduceSync(ctx, record).FirstErr()
	release(err != nil && !errors.Is(err, kerr.MessageTooLarge))
	if why := c.dials.Load(); why != nil && err != nil && !errors.As(err, new(*kerr.Error)) {
		return *why // it timed out because a broker cannot be reached
	}
	if !errors.Is(err, kerr.MessageTooLarge) {
		return err
	}
	// The broker may have refused a batch of several small records: this one decides alone.
	alone, err := t.open(ctx, &c.dials, kgo.MaxBufferedRecords(1))
	if err != nil {
		return err
	}
	defer alone.Close()
	return alone.ProduceSync(ctx, record).FirstErr()
}

// explain returns an error that names what a person can change, if that is known.
func (t *target) explain(err error) error {
	switch {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return destination.Faultf(event.CodeTooLarge, "the record is larger than topic %s or max_record_bytes (%d) allows",
			t.settings.Topic, t.settings.MaxRecord)
	case errors.Is(err, kgo.ErrRecordTimeout):
		return context.DeadlineExceeded
	}
	if code, message := brokers.Explain(err, t.settings); code != "" {
		return &destination.Fault{Code: code, Message: message}
	}
	return err
}
