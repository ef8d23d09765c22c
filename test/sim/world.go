// Package sim runs whole clusters in one process, on fake time, with a seed: the real stages of nodes between engines
// and destinations of the simulation. Faults come by the seed. What clients were promised is compared with what
// destinations got.
//
// Begin reading at [Run]. node.go has the nodes, network.go what connects them, faults.go what happens to them,
// clients.go who sends, oracle.go what must hold.
package sim

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/stream"
)

const (
	baseURL      = "https://relay.test"
	kafkaAddr    = "localhost:9092"
	bootstrapKey = "rly_live_simulation_0123456789"
)

// Config is the size of a world.
type Config struct {
	Seed    uint64
	Nodes   int
	Minutes int // with faults
	Quiet   bool
	Verbose io.Writer // gets the log of the nodes; nil: nobody does
}

// World is one cluster with all around it.
type World struct {
	cfg        Config
	began      time.Time
	partitions int32
	keyring    *seal.Keyring
	log        *slog.Logger
	brokers    *listener
	kafka      *kfake.Cluster
	redis      *miniredis.Miniredis
	redisDown  atomic.Bool
	direct     *link // of the world itself, without faults
	nodes      []*Node
	store      *storeModel
	oracle     *oracle
	dests      map[string]*destination // by host
	lives      sync.WaitGroup          // processes of nodes
	calls      sync.WaitGroup          // requests to nodes

	mu     sync.Mutex // guards the fields below
	rand   *rand.Rand
	lines  []string
	hash   hash.Hash
	faults int
	ending bool
}

// Result is what came of a world.
type Result struct {
	Hash     string // of the trace: the same for the same seed
	Trace    []string
	Faults   int
	Accepted int
	Requests int
	Fake     time.Duration
	Broken   []string // promises that did not hold
}

// Run runs the world of a seed.
func Run(t *testing.T, cfg Config) (result Result) {
	synctest.Test(t, func(t *testing.T) {
		w := &World{cfg: cfg, began: time.Now(), partitions: 4, hash: sha256.New(),
			rand: rand.New(rand.NewPCG(cfg.Seed, 0x5eed)), dests: make(map[string]*destination)}
		w.log = slog.New(slog.DiscardHandler)
		if cfg.Verbose != nil {
			w.log = slog.New(slog.NewTextHandler(cfg.Verbose, &slog.HandlerOptions{Level: slog.LevelInfo}))
		}
		result = w.run(t)
	})
	return result
}

func (w *World) run(t *testing.T) Result {
	var err error
	if w.keyring, err = seal.NewKeyring(seal.GenerateKey("sim")); err != nil {
		t.Fatal(err)
	}
	w.direct = newLink(w, nil)
	w.brokers = newListener(kafkaAddr)
	w.kafka, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return w.brokers, nil }))
	if err != nil {
		t.Fatal(err)
	}
	defer w.kafka.Close()
	w.redis = miniredis.NewMiniRedis()
	w.redis.ClockTTL(true)
	w.redis.Seed(int(w.cfg.Seed))
	first, err := w.redis.Dial() // starts it without a listener
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	defer w.redis.Close()
	if _, err := stream.Migrate(t.Context(), w.stream(), w.partitions, 1); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.oracle = newOracle(w)
	w.store = newStoreModel(w)
	var reading sync.WaitGroup
	reading.Go(func() { w.store.run(ctx) })
	for i := range w.cfg.Nodes {
		n := &Node{w: w, name: string(rune('a' + i))}
		w.nodes = append(w.nodes, n)
		n.Start()
	}
	w.scenario(ctx)
	w.mu.Lock()
	w.ending = true
	w.mu.Unlock()
	for _, n := range w.nodes {
		n.Stop()
	}
	w.calls.Wait()
	w.lives.Wait()
	stop()
	reading.Wait()
	return Result{Hash: fmt.Sprintf("%x", w.hash.Sum(nil)[:8]), Trace: w.lines, Faults: w.faults,
		Accepted: w.oracle.accepted(), Requests: w.oracle.requests, Fake: time.Since(w.began), Broken: w.oracle.broken}
}

// stream is how the world itself reaches the log.
func (w *World) stream() stream.Config {
	return stream.Config{Brokers: []string{kafkaAddr}, Prefix: "relay.", Log: w.log,
		DialFunc: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.brokers.connect(ctx, w.direct) }}
}

var errRedisDown = errors.New("connection refused")

func (w *World) dialRedis(ctx context.Context, over *link) (net.Conn, error) {
	if w.redisDown.Load() {
		return nil, errRedisDown
	}
	ours, theirs, err := over.dial(ctx)
	if err != nil {
		return nil, err
	}
	w.redis.Server().ServeConn(theirs)
	return ours, nil
}

// trace adds a line to the trace, which the same seed gives again.
func (w *World) trace(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := fmt.Sprintf("%11s  %s", time.Since(w.began).Round(time.Microsecond), fmt.Sprintf(format, args...))
	io.WriteString(w.hash, line)
	w.lines = append(w.lines, line)
}

// intn is a random number below n.
func (w *World) intn(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.IntN(n)
}

func (w *World) latency() time.Duration {
	return time.Duration(50+w.intn(1950)) * time.Microsecond
}

// between is a random time in [a, b).
func (w *World) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.intn(int((b-a)/time.Millisecond)))*time.Millisecond
}

// crashed restarts a node whose process has ended by itself, as a supervisor does.
func (w *World) crashed(n *Node, l *life, err error) {
	w.mu.Lock()
	ending := w.ending
	w.mu.Unlock()
	if ending {
		return
	}
	n.mu.Lock()
	if n.life != l {
		n.mu.Unlock()
		return
	}
	n.life = nil
	n.mu.Unlock()
	time.Sleep(2 * time.Second)
	n.Start()
}

// destination is one receiver. What it answers follows from the world's faults.
type destination struct {
	host string

	mu     sync.Mutex
	down   time.Time // until when it fails
	mode   int
	status int
}

// Modes of a destination that is down.
const (
	answersError = iota
	refuses
	hangs
	answersLate // it accepts, and answers after the time-out
	modes
)

// deliver is what a request to a destination comes to.
func (w *World) deliver(l *life, r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	d := w.dests[r.URL.Host]
	if d == nil {
		return nil, fmt.Errorf("no such host %s", r.URL.Host)
	}
	pause := func(p time.Duration) error {
		select {
		case <-time.After(p):
			return nil
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	if err := pause(w.latency()); err != nil {
		return nil, err
	}
	if l.dead.Load() {
		return nil, errCut
	}
	d.mu.Lock()
	down, mode, status := time.Now().Before(d.down), d.mode, d.status
	d.mu.Unlock()
	event := r.Header.Get("Webhook-Id")
	if down && mode == refuses {
		return nil, errRefused
	}
	if down && mode == hangs {
		w.oracle.attempt(l, d.host, event, body, 0)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if !down {
		status = http.StatusOK
	}
	if down && mode == answersLate {
		status = http.StatusOK
	}
	w.oracle.attempt(l, d.host, event, body, status)
	took := w.latency()
	if w.intn(20) == 0 {
		took = w.between(time.Millisecond, 3*time.Second)
	}
	if down && mode == answersLate {
		took = 10 * time.Minute
	}
	if err := pause(took); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")),
		Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

// alive are the nodes that run.
func (w *World) alive() (all []*Node) {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *Node) bool { return n.current() == nil })
}
