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
	"encoding/json"
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

	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/stream"
)

const (
	baseURL      = "https://relay.test"
	bootstrapKey = "rly_live_simulation_0123456789"
)

// Config is the size of a world.
type Config struct {
	Seed    uint64
	Nodes   int
	Minutes int // with faults
	Quiet   bool
	Skip    []int     // numbers of faults that do not happen
	Machine bool      // one node with its log on a disk, without Kafka
	First   bool      // the program ends when a promise does not hold
	Kfake   bool      // the client of Kafka speaks its protocol with kfake, instead of a model of both
	Verbose io.Writer // gets the log of the nodes; nil: nobody does
}

// World is one cluster with all around it.
type World struct {
	cfg        Config
	began      time.Time
	partitions int32
	keyring    *seal.Keyring
	log        *slog.Logger
	kafka      kafka
	machine    *machine // nil: the nodes share a Kafka
	redis      *miniredis.Miniredis
	redisDown  atomic.Bool
	direct     *link // of the world itself, without faults
	nodes      []*Node
	store      *storeModel
	oracle     *oracle
	ledger     *ledger
	calm       atomic.Bool    // the faults are over
	quiet      atomic.Bool    // and all that they have held up has ended
	strict     *endpoint      // with few attempts
	lives      sync.WaitGroup // processes of nodes
	calls      sync.WaitGroup // requests to nodes

	mu        sync.Mutex // guards the fields below
	rand      *rand.Rand
	lines     []string
	hash      hash.Hash
	faults    int
	made      int       // endpoints that are deleted again
	skewing   int       // clocks that are wrong
	skewEnded time.Time // when the last one was set right
	ending    bool
	dests     map[string]*destination // by host
	running   map[string]int          // requests that nodes work on, by path
	redisAt   time.Time               // up to when keys of Redis have expired
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
	if cfg.Machine {
		enterDir(t)
	}
	synctest.Test(t, func(t *testing.T) {
		w := &World{cfg: cfg, began: time.Now(), partitions: 4, hash: sha256.New(),
			rand: rand.New(rand.NewPCG(cfg.Seed, 0x5eed)), dests: make(map[string]*destination),
			running: make(map[string]int)}
		w.log = slog.New(slog.DiscardHandler)
		if cfg.Verbose != nil {
			w.log = slog.New(slog.NewTextHandler(cfg.Verbose, &slog.HandlerOptions{Level: slog.LevelDebug}))
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
	if w.cfg.Machine {
		w.machine = newMachine(w)
		w.kafka, w.cfg.Nodes = w.machine, 1
	} else {
		w.kafka = newBrokers(w)
	}
	if w.cfg.Kfake {
		if w.kafka, err = newKfake(w); err != nil {
			t.Fatal(err)
		}
	}
	if !w.cfg.Kfake && !w.cfg.Machine {
		w.ledger = newLedger(w)
	}
	defer w.kafka.close()
	w.redis, w.redisAt = miniredis.NewMiniRedis(), time.Now()
	w.redis.Seed(int(w.cfg.Seed))
	first, err := w.redis.Dial() // starts it without a listener
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	defer w.redis.Close()
	ctx, stop := context.WithCancel(context.Background())
	w.oracle = newOracle(w)
	w.store = newStoreModel(w)
	var reading sync.WaitGroup
	if w.machine == nil {
		reading.Go(func() { w.store.run(ctx) })
	}
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
func (w *World) stream() stream.Config { return w.kafka.config(w.direct, "world", time.Now) }

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
	ours.(*conn).before = w.expireKeys
	return ours, nil
}

// expiry is how late keys of Redis expire: with its own clock it looks at all of them before each command.
const expiry = 20 * time.Millisecond

// expireKeys is called before a command.
func (w *World) expireKeys() {
	w.mu.Lock()
	passed := time.Since(w.redisAt)
	if passed >= expiry {
		w.redisAt = time.Now()
	}
	w.mu.Unlock()
	if passed >= expiry {
		w.redis.FastForward(passed)
	}
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

// reseed lets what is random from now on follow from the number of a fault.
func (w *World) reseed(fault, part int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rand = rand.New(rand.NewPCG(w.cfg.Seed, uint64(2*fault+part+1)<<16))
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
	again := 2 * time.Second
	if n.lives > 300 { // it may never start; GOGC is off
		again = 10 * time.Minute
	}
	time.Sleep(again)
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
	refusesSome // it refuses some events, and requests with one of them
	modes
)

// askToWait returns the header of an answer.
func (w *World) askToWait(t *target, sent []sentEvent, status int) http.Header {
	header := http.Header{}
	if status == http.StatusTooManyRequests {
		header.Set("Retry-After", "30")
		for _, e := range sent {
			w.oracle.asked(t, e, 30*time.Second)
		}
	}
	return header
}

// deliver is what a request to a destination comes to.
func (w *World) deliver(l *life, r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	d, t := w.dest(r.URL.Host), w.oracle.host(r.URL.Host)
	sent := eventsOf(r.Header.Get("Webhook-Id"), body)
	for i := range sent {
		sent[i].parse(r.Header.Get("Relay-Attempt"), r.Header.Get("Relay-Trigger"))
		w.oracle.begins(l, t, sent[i].ID)
		w.oracle.attempted(t, sent[i])
	}
	record := func(status int) {
		for _, e := range sent {
			w.oracle.attempt(l, t, e.ID, e.Body, status)
		}
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
	if down && mode == refuses {
		return nil, errRefused
	}
	if down && mode == hangs {
		record(0)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if !down {
		status = http.StatusOK
	}
	if down && mode == answersLate {
		status = http.StatusOK
	}
	if down && mode == refusesSome {
		status = http.StatusOK
		if slices.ContainsFunc(sent, func(e sentEvent) bool { return e.refused() }) {
			status = http.StatusUnprocessableEntity
		}
	}
	header := w.askToWait(t, sent, status)
	record(status)
	took := w.latency()
	if w.intn(20) == 0 {
		took = w.between(time.Millisecond, 3*time.Second)
	}
	if down && mode == answersLate {
		took = 10 * time.Minute
		for _, e := range sent {
			w.oracle.answersLate(t, e.ID)
		}
	}
	if err := pause(took); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader("")),
		Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

// set lets a destination fail until a time.
func (d *destination) set(until time.Time, mode, status int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down, d.mode, d.status = until, mode, status
}

// dest returns the destination of a host.
func (w *World) dest(host string) *destination {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dests[host] == nil {
		w.dests[host] = &destination{host: host}
	}
	return w.dests[host]
}

// sentEvent is an event in a request.
type sentEvent struct {
	ID       string            `json:"id"`
	Body     json.RawMessage   `json:"body"`
	Attempt  int               `json:"attempt"`
	Headers  map[string]string `json:"headers"`
	isReplay bool              // or a delivery of a recovery job
	isJob    bool
}

// eventsOf returns the events of a request: of a batch, or the one that the header names.
func eventsOf(webhookID string, body []byte) []sentEvent {
	if all := []sentEvent(nil); len(body) > 0 && body[0] == '[' && json.Unmarshal(body, &all) == nil {
		return all
	}
	return []sentEvent{{ID: webhookID, Body: body}}
}

// alive are the nodes that run.
func (w *World) alive() (all []*Node) {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *Node) bool { return n.current() == nil })
}
