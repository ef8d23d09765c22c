// Package floor is the bare pipeline, the lower bound of an event's cost with the same libraries: an HTTP request in, a
// record to a broker in the process with its barrier, a consumer, an HTTP request out, and an outcome record. It has no
// store, configuration, signatures, lanes, limits or retries: the benchmark counts an event as lost if the destination
// does not answer 2xx.
//
// It uses the log through pkg/stream, as the relay does, so the cost of that package is included.
//
// Its parts can run alone: http is a request in and a request out, without a log; log is a closed loop of records
// through the broker, without HTTP. Begin with Main.
package floor

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kafka"
)

// Parameters of the pipeline, close to those of the relay.
const (
	partition   = 0   // an endpoint has one partition
	inFlight    = 256 // requests to the destination at the same time
	maxBody     = 1 << 20
	commitEvery = time.Second
	wholePipe   = "pipe"
	httpPart    = "http"
	logPart     = "log"
	prefix      = "floor."
	group       = "floor"

	finishedMetric = "floor_finished_total"
)

// pipe is the running pipeline.
type pipe struct {
	part        string
	destination string // URL
	producer    *stream.Producer
	group       *stream.Group
	client      *http.Client
	work        chan *stream.Record // unbuffered, so that the consumer waits for deliveries
	log         *slog.Logger
	finished    prometheus.Counter

	mu         sync.Mutex // guards what follows
	lowestOpen int64      // lowest offset that is not completed
	done       map[int64]bool
}

// Main is the command `relay-bench floor-pipe`: it serves until ctx ends.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("relay-bench floor-pipe", flag.ContinueOnError)
	flags.SetOutput(stderr)
	data := flags.String("data", "", "data directory of the broker")
	deliver := flags.String("deliver", "", "URL of the destination")
	admin := flags.String("admin", "127.0.0.1:0", "address of metrics and pprof")
	fsync := flags.Bool("fsync", true, "acknowledge only what is on disk")
	part := flags.String("part", wholePipe, "the part to run: pipe, http or log")
	posters := flags.Int("posters", 32, "concurrent records of the part log")
	size := flags.Int("size", 1024, "bytes per record of the part log")
	if err := flags.Parse(args); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	p := &pipe{
		part: *part, destination: *deliver, work: make(chan *stream.Record), done: map[int64]bool{},
		finished: prometheus.NewCounter(
			prometheus.CounterOpts{Name: finishedMetric, Help: "Records whose outcome is in the log."}),
	}
	registry.MustRegister(p.finished)
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg := kafka.DefaultConfig()
	cfg.DataDir, cfg.Fsync, cfg.MaxMessageBytes = *data, *fsync, stream.MaxMessageBytes
	broker, err := kafka.New(cfg, kafka.Deps{Log: log})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	var ended error
	run, stop := context.WithCancel(context.WithoutCancel(ctx)) // the broker stops last
	wg.Go(func() { ended = broker.Run(run); cancel() })
	defer stop()
	select {
	case <-broker.Ready():
	case <-ctx.Done():
		return errors.Join(ctx.Err(), ended)
	}
	if err := serveAdmin(ctx, *admin, registry, &wg); err != nil {
		return err
	}
	p.log = log
	return p.serve(ctx, broker, *posters, *size, stdout)
}

// serve runs the pipeline on a ready broker until ctx ends.
func (p *pipe) serve(ctx context.Context, broker *kafka.Server, posters, size int, stdout io.Writer) error {
	cfg := stream.Config{Brokers: []string{broker.Addr()}, Prefix: prefix, DialFunc: broker.DialContext, Log: p.log}
	if _, err := stream.Migrate(ctx, cfg, 1, 1); err != nil {
		return err
	}
	producer, err := stream.NewProducer(cfg, "floor")
	if err != nil {
		return err
	}
	defer producer.Close()
	g, err := stream.NewGroup(cfg, stream.GroupConfig{Name: group, Topics: []string{stream.Events}})
	if err != nil {
		return err
	}
	defer g.Close()
	transport := &http.Transport{
		MaxIdleConns: inFlight, MaxIdleConnsPerHost: inFlight, MaxConnsPerHost: inFlight, DisableCompression: true}
	defer transport.CloseIdleConnections()
	p.producer, p.group, p.client = producer, g, &http.Client{Transport: transport, Timeout: 15 * time.Second}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(p.accept), ReadHeaderTimeout: time.Minute}
	closing := context.AfterFunc(ctx, func() { server.Close() })
	defer closing()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range inFlight {
		wg.Go(func() { p.deliverLoop(ctx) })
	}
	wg.Go(func() { p.consume(ctx) })
	wg.Go(func() { p.commit(ctx) })
	if p.part == logPart {
		for range posters {
			wg.Go(func() { p.produceLoop(ctx, size) })
		}
	}
	fmt.Fprintf(stdout, "floor is ready at http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// accept answers 202 when the event is durable.
func (p *pipe) accept(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if p.part == httpPart {
		p.request(r.Context(), body)
	} else if err := p.produce(body); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// produce produces a record and returns when it is durable.
func (p *pipe) produce(body []byte) error {
	durable := make(chan error, 1)
	p.producer.Produce(stream.Events, partition, &stream.Record{Value: body}, func(_ *stream.Record, err error) {
		durable <- err
	})
	return <-durable
}

// produceLoop produces one record after the other until ctx ends.
func (p *pipe) produceLoop(ctx context.Context, size int) {
	for ctx.Err() == nil {
		if err := p.produce(make([]byte, size)); err != nil && ctx.Err() == nil {
			p.log.Warn("cannot produce a record", "error", err)
		}
	}
}

func (p *pipe) consume(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.group.Poll(ctx, func(_ stream.Partition, records []*stream.Record) {
			for _, r := range records {
				select {
				case p.work <- r:
				case <-ctx.Done():
				}
			}
		})
		if err != nil && ctx.Err() == nil {
			p.log.Warn("cannot poll records", "error", err)
		}
	}
}

// deliverLoop is one of inFlight workers that deliver records until ctx ends.
func (p *pipe) deliverLoop(ctx context.Context) {
	for {
		select {
		case r := <-p.work:
			p.attempt(ctx, r)
		case <-ctx.Done():
			return
		}
	}
}

func (p *pipe) attempt(ctx context.Context, r *stream.Record) {
	status := 0
	if p.part != logPart {
		status = p.request(ctx, r.Value)
	}
	outcome := &stream.Record{
		Value: fmt.Appendf(nil, `{"offset":%d,"status":%d,"at":%d}`, r.Offset, status, time.Now().UnixNano())}
	p.producer.Produce(stream.Outcomes, partition, outcome, func(_ *stream.Record, err error) {
		if err == nil {
			p.finish(r.Offset)
		}
	})
}

// request sends a body to the destination and returns the status of the answer, 0 if there was none.
func (p *pipe) request(ctx context.Context, body []byte) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.destination, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	resp.Body.Close()
	return resp.StatusCode
}

// finish marks an offset as completed and advances lowestOpen.
func (p *pipe) finish(offset int64) {
	p.finished.Inc()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[offset] = true
	for p.done[p.lowestOpen] {
		delete(p.done, p.lowestOpen)
		p.lowestOpen++
	}
}

func (p *pipe) commit(ctx context.Context) {
	tick := time.NewTicker(commitEvery)
	defer tick.Stop()
	for last := int64(0); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		base := p.lowestOpen
		p.mu.Unlock()
		if base == last {
			continue
		}
		mark := map[stream.Partition]stream.Commit{{Topic: stream.Events, Index: partition}: {Offset: base, LeaderEpoch: -1}}
		if err := p.group.Commit(ctx, mark); err == nil {
			last = base
		} else if ctx.Err() == nil {
			p.log.Warn("cannot commit the offset", "error", err)
		}
	}
}

// serveAdmin serves what the benchmark reads: metrics, CPU profiles and allocation profiles.
func serveAdmin(ctx context.Context, address string, registry *prometheus.Registry, wg *sync.WaitGroup) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.Handle("/debug/pprof/allocs", pprof.Handler("allocs"))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { server.Close() })
	wg.Go(func() { _ = server.Serve(l) })
	return nil
}
