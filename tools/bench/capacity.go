package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/tools/bench/fill"
	"github.com/eventrelay/relay/tools/bench/sink"
)

// capacityRoles are the roles of the nodes of capacity: each node shows what its roles cost. Events are posted to the
// first one through the API, because ingest and the API accept them in the same way.
var capacityRoles = []string{"ingest,api", "dispatch", "write"}

// nodeKinds are the kinds of their processes.
var nodeKinds = []string{"relay ingest,api", "relay dispatch", "relay write"}

// textBytes is the size of the text from which the bodies are taken. ClickHouse compresses blocks of up to 1 MiB, so a
// body that comes again after so many bytes is compressed like a new one.
const textBytes = 4 << 20

// capacityEndpoints is how many endpoints get events in turn, so that all partitions have work.
const capacityEndpoints = 16

func capacityFlags(o *options, fs *flag.FlagSet) {
	fs.IntVar(&o.destinations, "destinations", 1, "destinations of each endpoint")
	fs.IntVar(&o.failing, "failing", 0, "percent of the requests that the destinations answer with 500")
	o.endpoints, o.roles = capacityEndpoints, capacityRoles
}

// validateCapacity reports the faults of the flags of capacity.
func (o *options) validateCapacity() error {
	var errs []error
	if o.serve != len(capacityRoles) {
		errs = append(errs, fmt.Errorf("--serve: %d is out of range, capacity takes %d: a node for each role", o.serve,
			len(capacityRoles)))
	}
	if o.kafka == "" {
		errs = append(errs, errors.New("--kafka: is missing; the embedded Kafka has no sizes of topics"))
	}
	if o.destinations < 1 || o.destinations > sink.MaxDestinations {
		errs = append(errs, fmt.Errorf("--destinations: %d is out of range, use 1 to %d", o.destinations,
			sink.MaxDestinations))
	}
	if o.failing < 0 || o.failing > 90 {
		errs = append(errs, fmt.Errorf("--failing: %d is out of range, use 0 to 90", o.failing))
	}
	return errors.Join(errs...)
}

// capacity posts events whose bodies differ and compress like real ones, and adds what they take in the log and, after
// merges, in ClickHouse. `relay plan` is made from these figures.
func capacity(ctx context.Context, b *benchRun) error {
	behaviour, to := "ok", make([]int, b.o.destinations)
	if b.o.failing > 0 {
		behaviour = fmt.Sprintf("fail%d", b.o.failing)
	}
	var destinations []object
	for i := range to {
		to[i] = i
		destinations = append(destinations, b.destinationAt(i, behaviour)[0])
	}
	ids, err := b.r.makeEndpoints(ctx, b.o.endpoints,
		object{"destinations": destinations, "retry_policy": quickRetries})
	if err != nil {
		return err
	}
	p := b.post("events", b.r.eventsURL(ids[0]), to...).roundRobin(ids)
	p.Body = `{"type":"bench.event","data":{"text":"{{text}}","mark":"{{mark}}"}}`
	p.Text, p.TextSize = fill.Text(textBytes), b.o.size
	p.Conns = b.o.posters // the load is far below what the nodes can take
	before, err := b.logBytes(ctx)
	if err != nil {
		return err
	}
	if err := b.run(ctx, 2*arrivalLimit, p); err != nil {
		return err
	}
	return b.addBytes(ctx, before)
}

// addBytes adds the requests of an event, and its bytes in the log and in ClickHouse. The warm-up's events, one for
// each endpoint, count too.
func (b *benchRun) addBytes(ctx context.Context, before map[string]int64) error {
	res := &b.result
	events := float64(res.Accepted) + float64(b.o.endpoints)
	var requests int64
	for _, a := range res.Streams[0].Arrivals {
		requests += a.Requests
	}
	b.addFigures(Figure{"requests", float64(requests) / float64(max(res.Accepted, 1)), "an event"})
	after, err := b.logBytes(ctx)
	if err != nil {
		return err
	}
	for _, kind := range logKinds {
		b.addFigures(Figure{"log: " + kind, float64(after[kind]-before[kind]) / events, "B an event"})
	}
	unmerged := b.r.currentCost()
	sizes, err := b.storeSizes(ctx)
	if err != nil {
		return err
	}
	merging := b.r.currentCost().since(unmerged).byKind["clickhouse"]
	b.addFigures(Figure{"merging all parts", float64(merging.Microseconds()) / events, "µs of ClickHouse's CPU an event"})
	all := 0.0
	for _, t := range sizes {
		each := float64(t.Bytes) / events
		if all += each; each >= 1 {
			b.addFigures(Figure{"store: " + t.Table, each, "B an event"})
		}
	}
	b.addFigures(Figure{"store", all, "B an event"})
	return nil
}

// logKinds are the groups of topics whose bytes are shown.
var logKinds = []string{"events", "outcomes", "retry", "others"}

// logBytes returns the bytes of one replica of the topics, by kind.
func (b *benchRun) logBytes(ctx context.Context) (map[string]int64, error) {
	c := stream.Config{Brokers: strings.Split(b.r.broker, ","), Prefix: b.r.topicPrefix}
	sizes, err := stream.TopicSizes(ctx, c)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for topic, bytes := range sizes {
		kind, _, _ := strings.Cut(topic, ".")
		if !slices.Contains(logKinds, kind) {
			kind = "others"
		}
		out[kind] += bytes / int64(max(b.o.replicas, 1))
	}
	return out, nil
}

// storeSizes merges all parts, as ClickHouse does over time, and returns the size of each table.
func (b *benchRun) storeSizes(ctx context.Context) (_ []fill.TableSize, err error) {
	bulk, err := fill.OpenBulk(b.r.store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bulk.Close()) }()
	if err := bulk.Merge(ctx); err != nil {
		return nil, err
	}
	return bulk.Sizes(ctx)
}
