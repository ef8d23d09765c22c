package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/dispatcher"
	"github.com/eventrelay/relay/dispatcher/recovery"
	"github.com/eventrelay/relay/ingest"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/pull"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

// Node is one relay: the real stages between engines and destinations of the world. The package node wires the same
// stages to real engines.
type Node struct {
	w    *World
	name string

	mu     sync.Mutex // guards the fields below
	life   *life      // nil: it is down
	lives  int
	paused chan struct{} // closed when it runs again; nil: it runs
	pauses []window      // newest last
	skew   atomic.Int64  // of its clock
}

// life is one process of a node.
type life struct {
	node         *Node
	number       int
	kafka, redis *link
	ctx          context.Context
	end          context.CancelCauseFunc
	running      sync.WaitGroup
	dead         atomic.Bool
	ready        atomic.Bool
	unlocked     atomic.Bool  // it has closed its log
	fuse         atomic.Int64 // the process is killed after so many steps of its calls; 0: it is not

	metrics  *prometheus.Registry
	ids      *id.Generator
	stream   stream.Config
	control  *config.Control
	limiter  *limit.Limiter
	claims   claim.Store
	producer *stream.Producer
	handler  http.Handler
	pulls    *pull.Router
	recovery *recovery.Runner
	owned    atomic.Pointer[[]int32]
	requests sync.WaitGroup
	last     []func() // called in reverse when all else has ended
}

// gate returns when the node is not paused: a process that is stopped does nothing until it goes on. Everything that
// it sends, receives or asks of its clock passes here.
func (n *Node) gate() {
	n.mu.Lock()
	paused := n.paused
	n.mu.Unlock()
	if paused != nil {
		<-paused
	}
}

// now is the clock of the node. One that was set shows another time; its monotonic reading stays.
func (n *Node) now() time.Time {
	n.gate()
	real := time.Now()
	shown := real.Add(time.Duration(n.skew.Load()))
	type timeValue struct { // as time.Time
		wall      uint64
		monotonic int64
	}
	(*timeValue)(unsafe.Pointer(&shown)).monotonic = (*timeValue)(unsafe.Pointer(&real)).monotonic
	return shown
}

func (n *Node) current() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

// Start starts a process of the node, which becomes ready later.
func (n *Node) Start() {
	n.mu.Lock()
	if n.life != nil {
		n.mu.Unlock()
		return
	}
	n.lives++
	ctx, end := context.WithCancelCause(context.Background())
	l := &life{node: n, number: n.lives, kafka: newLink(n.w, n.gate), redis: newLink(n.w, n.gate), ctx: ctx, end: end}
	l.kafka.step, l.redis.step = l.step, l.step
	n.life = l
	n.mu.Unlock()
	n.w.trace("%s starts (life %d)", n.name, l.number)
	n.w.lives.Go(func() {
		err := l.run()
		l.running.Wait()
		l.requests.Wait()
		for _, end := range slices.Backward(l.last) {
			end()
		}
		if cause := context.Cause(ctx); !errors.Is(cause, errKilled) && !errors.Is(cause, errStopped) {
			n.w.trace("%s ends by itself: %v, %v", n.name, cause, err)
			n.w.crashed(n, l, errors.Join(cause, err))
		}
	})
}

var (
	errKilled  = errors.New("killed")
	errStopped = errors.New("stopped")
)

// Kill ends the process at once: nothing that it does from now on reaches anyone.
func (n *Node) Kill() {
	n.mu.Lock()
	l := n.life
	n.life = nil
	n.mu.Unlock()
	if l == nil {
		return
	}
	n.w.trace("%s is killed", n.name)
	l.kill(errKilled)
	n.resume()
}

// step is called before and after each call of the process: a fault may kill it between the two.
func (l *life) step() {
	if l.fuse.Load() > 0 && l.fuse.Add(-1) == 0 && l.node.current() == l {
		l.node.Kill()
	}
}

func (l *life) kill(why error) {
	l.dead.Store(true)
	if m := l.node.w.machine; m != nil {
		m.died(l)
	}
	for _, link := range []*link{l.kafka, l.redis} {
		link.change(func() { link.cut = true })
		link.reset()
	}
	l.end(why)
}

// Stop ends the process as a deploy does.
func (n *Node) Stop() {
	n.mu.Lock()
	l := n.life
	n.life = nil
	n.mu.Unlock()
	if l != nil {
		n.w.trace("%s stops", n.name)
		l.end(errStopped)
	}
}

// Pause stops the process, as SIGSTOP or a frozen virtual machine does.
func (n *Node) Pause() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused == nil && n.life != nil {
		n.w.trace("%s is paused", n.name)
		n.paused = make(chan struct{})
		n.pauses = append(n.pauses, window{from: time.Now()})
	}
}

func (n *Node) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused != nil {
		n.w.trace("%s goes on", n.name)
		close(n.paused)
		n.paused = nil
		n.pauses[len(n.pauses)-1].until = time.Now()
	}
}

// pausedSince reports whether the node was paused at or after a time.
func (n *Node) pausedSince(t time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.pauses, func(x window) bool { return x.until.IsZero() || x.until.After(t) })
}

// start runs a component; the first that ends by itself ends the process.
func (l *life) start(name string, run func(context.Context) error) {
	l.running.Go(func() {
		err := run(l.ctx)
		if l.ctx.Err() == nil {
			l.end(fmt.Errorf("%s ended: %w", name, errors.Join(err, errEnded)))
		}
	})
}

var errEnded = errors.New("by itself")

func (l *life) await(ready <-chan struct{}) bool {
	select {
	case <-ready:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// run starts the stages in the order of the package node, and returns when the process ends.
func (l *life) run() error {
	ok, err := l.startLog()
	if err == nil && ok {
		err = errors.Join(l.startDelivery(), l.startServing())
	}
	if err != nil {
		l.end(err)
		return err
	}
	if ok {
		l.ready.Store(true)
		l.node.w.trace("%s is ready", l.node.name)
	}
	<-l.ctx.Done()
	return nil
}

// startLog starts the configuration, the limiter and the producer. It returns false if the process ends meanwhile.
func (l *life) startLog() (ok bool, err error) {
	w, n := l.node.w, l.node
	l.owned.Store(new([]int32))
	l.metrics, l.ids = prometheus.NewRegistry(), id.NewGenerator(n.now)
	if w.machine == nil {
		l.stream = w.kafka.config(l.kafka, fmt.Sprint(n.name, l.number), n.now)
	} else if err := w.machine.open(l); err != nil {
		return false, err
	}
	l.control, err = config.New(config.Config{Node: n.name, Version: "sim", Partitions: w.partitions,
		BootstrapKey: bootstrapKey, RetentionDays: 30, SingleNode: w.machine != nil},
		config.Deps{Log: w.log, Stream: l.stream, Keyring: w.keyring, Now: n.now, Metrics: l.metrics})
	if err != nil {
		return false, err
	}
	l.start("configuration", l.control.Run)
	if !l.await(l.control.Ready()) {
		return false, nil
	}
	if l.limiter, err = limit.New(l.limits(), limit.Deps{Log: w.log, Metrics: l.metrics, Now: n.now}); err != nil {
		return false, err
	}
	l.start("limiter", l.limiter.Run)
	if l.producer, err = stream.NewProducer(l.stream, "producer"); err != nil {
		return false, err
	}
	l.start("producer", func(ctx context.Context) error {
		<-ctx.Done()
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		defer l.producer.Close()
		return l.producer.Flush(flush)
	})
	if l.claims = l.limiter; w.machine != nil {
		if err := w.machine.start(l); err != nil {
			return false, err
		}
	}
	return l.await(l.control.ClockKnown()), nil
}

// own passes on which partitions the process dispatches.
func (l *life) own(partitions []int32) {
	l.owned.Store(&partitions)
	l.control.SetOwner(slices.Contains(partitions, 0))
	l.pulls.Changed()
	l.recovery.SetOwned(partitions)
}

// limits is how the process reaches Redis.
func (l *life) limits() limit.Config {
	c := limit.DefaultConfig()
	c.URL = "redis://redis.test:6379"
	c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return l.node.w.dialRedis(ctx, l.redis) }
	return c
}

func (l *life) startDelivery() error {
	var err error
	if l.recovery, err = recovery.New(recovery.Deps{Log: l.node.w.log, Jobs: l.control, Endpoints: l.control,
		Store: recoveryStore{s: l.node.w.store, l: l}, Submitter: commander{l.producer}, Now: l.control.Now,
		NewName: func() string { return id.Random("") }}); err != nil {
		return err
	}
	l.start("recovery jobs", l.recovery.Run)
	cfg := dispatcher.DefaultConfig()
	cfg.InstanceID, cfg.RetentionDays, cfg.Version = fmt.Sprint(l.node.name, "-", l.number), 30, "sim"
	cfg.Drain = 16 * time.Second
	d, err := dispatcher.New(cfg, dispatcher.Deps{
		Log: l.node.w.log, Stream: l.stream, Producer: l.producer, Config: l.control, Updater: l.control,
		Keyring: l.node.w.keyring, Transport: outbound{l}, IDs: l.ids, Now: l.control.Now, Metrics: l.metrics,
		Limiter: l.limiter, Held: l.limiter, Erased: l.control.Erased, OnOwned: l.own,
	})
	if err != nil {
		return err
	}
	l.pulls = pull.NewRouter(pull.RouterDeps{Local: d.Pulls(), Key: l.control.PullKey, Bus: l.limits().NewBus(),
		Owned: func() []int32 { return *l.owned.Load() }})
	l.start("dispatcher", d.Run)
	l.start("router of pulls", l.pulls.Run)
	return nil
}

func (l *life) startServing() error {
	w, n := l.node.w, l.node
	in := ingest.New(ingest.Config{BaseURL: baseURL, MaxBody: 1 << 20}, ingest.Deps{
		Metrics: l.metrics, Endpoints: l.control, Keyring: w.keyring, Producer: l.producer, IDs: l.ids, Now: n.now,
		ClockSkew: l.control.ClockSkew, Claims: l.claims, Limits: l.limiter, HasEvent: w.store.has(l),
		Rejected: l.limiter.NewWindow("rejected-bytes", time.Minute),
		Front:    &web.Front{Log: w.log, BaseURL: baseURL}, Transport: outbound{l},
	})
	topic, err := stream.NewReader(l.stream, "feed")
	if err != nil {
		return err
	}
	watched, err := feed.New(feed.Deps{Log: w.log, Topic: topic, Store: unread{}, Now: n.now, Retention: 24 * time.Hour,
		Erased: l.control.Erased})
	if err != nil {
		return err
	}
	l.start("feed", func(ctx context.Context) error {
		defer topic.Close()
		return watched.Run(ctx)
	})
	uses, err := audit.NewUses(n.name, audit.UsesDeps{Log: w.log, Producer: l.producer, Now: n.now})
	if err != nil {
		return err
	}
	l.start("uses of keys", uses.Run)
	not := unused{}
	a, err := api.New(api.Config{BaseURL: baseURL, MaxBody: 1 << 20, RetentionDays: 30, Version: "sim"}, api.Deps{
		Services: frame.Services{Log: w.log, Config: l.control, Keyring: w.keyring, Events: w.store.reader(l),
			Erasures: l.control, Limits: l.limiter, LimiterStore: limiterStore{l.claims, l.limiter},
			Answers: l.control, IDs: l.ids},
		EventsDeps: api.EventsDeps{Accept: in.Acceptor(), Receipts: receipts{s: w.store, l: l}, Feed: watched,
			Explain: in.Explain, Sample: in.Sample},
		JobsDeps: api.JobsDeps{Runs: l.control, Selection: noSelection{}, Commands: commander{l.producer},
			Reverify: in.Reverify, Recovery: recoveryStore{s: w.store, l: l}},
		AccountDeps:   api.AccountDeps{Notifier: not, Usage: noUsage{}, Audit: not},
		EndpointsDeps: api.EndpointsDeps{Traffic: not, Pulls: l.pulls, ValidateVerification: ingest.CheckVerification},
		KeyUses:       uses, Now: n.now, Metrics: l.metrics,
	})
	if err != nil {
		return err
	}
	ingestHandler, apiHandler := in.Handler(), a.Handler()
	l.handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, ingest.PathPrefix) {
			ingestHandler.ServeHTTP(rw, r)
			return
		}
		apiHandler.ServeHTTP(rw, r)
	})
	return nil
}

// Do makes a request to the node. The answer is lost if the node is killed meanwhile, or is paused for longer than the
// client waits.
func (n *Node) Do(ctx context.Context, method, path string, header http.Header, body []byte) (int, []byte, error) {
	l := n.current()
	if l == nil || !l.ready.Load() {
		return 0, nil, errRefused
	}
	type answer struct {
		code int
		body []byte
	}
	answered := make(chan answer, 1)
	l.requests.Add(1)
	n.w.runs(path, 1)
	n.w.calls.Go(func() {
		defer l.requests.Done()
		defer n.w.runs(path, -1)
		n.gate()
		r := httptest.NewRequestWithContext(ctx, method, baseURL+path, strings.NewReader(string(body)))
		for k, v := range header {
			r.Header[k] = v
		}
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		l.handler.ServeHTTP(rec, r)
		n.gate()
		if !l.dead.Load() {
			answered <- answer{rec.Code, rec.Body.Bytes()}
		}
	})
	select {
	case a := <-answered:
		return a.code, a.body, nil
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	case <-l.ctx.Done():
		if errors.Is(context.Cause(l.ctx), errKilled) {
			return 0, nil, errReset
		}
		select { // a stop lets requests end
		case a := <-answered:
			return a.code, a.body, nil
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
	}
}

var errRefused = errors.New("connection refused")

// outbound sends requests of a node to destinations.
type outbound struct{ *life }

// RoundTrip implements http.RoundTripper.
func (o outbound) RoundTrip(r *http.Request) (*http.Response, error) {
	o.node.gate()
	o.step()
	if o.dead.Load() {
		return nil, errCut
	}
	resp, err := o.node.w.deliver(o.life, r)
	o.node.gate()
	o.step()
	if o.dead.Load() {
		return nil, errCut
	}
	return resp, err
}
