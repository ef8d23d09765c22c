package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/eventrelay/relay/pkg/wait"
)

// world is a relay of its own, what receives its deliveries, and what was sent.
type world struct {
	out      io.Writer
	look     string // a command that shows the result
	program  string
	dir      string
	url, key string
	log      *os.File
	child    *exec.Cmd
	ended    chan struct{} // closed when child has ended
	waits    sync.WaitGroup
	port     net.PacketConn // holds the number of the relay's port
	receiver *httptest.Server

	mu      sync.Mutex             // guards what follows
	sent    map[string]time.Time   // when an acknowledged event was sent, by its id
	arrived map[string][]time.Time // by the id of the event
	failing bool                   // the receiver answers 503
}

// slowly is how long /slow takes to answer.
const slowly = 100 * time.Millisecond

// newWorld starts a relay and a receiver: /hang never answers, others answer 204, or 503 while they fail.
func newWorld(ctx context.Context, program string, out io.Writer) (*world, error) {
	w := &world{out: out, program: program, key: "rly_live_" + rand.Text(), sent: map[string]time.Time{},
		arrived: map[string][]time.Time{}}
	var err error
	if w.dir, err = os.MkdirTemp("", "relay-demo-"); err != nil {
		return nil, err
	}
	if w.log, err = os.Create(filepath.Join(w.dir, "log")); err != nil {
		return nil, err
	}
	if w.port, w.url, err = freePort(ctx); err != nil {
		return nil, err
	}
	w.receiver = httptest.NewServer(http.HandlerFunc(w.receive))
	if err := w.start(ctx); err != nil {
		err = fmt.Errorf("%w; its log ends with\n%s", err, w.logEnd())
		w.close()
		return nil, err
	}
	return w, nil
}

// freePort finds a TCP port below those that systems give out themselves: while the relay starts again, nothing else
// may come to listen there and answer in its place. held keeps the number from other demonstrations.
func freePort(ctx context.Context) (held net.PacketConn, url string, err error) {
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+mathrand.IntN(12000))
		if held, err = new(net.ListenConfig).ListenPacket(ctx, "udp", address); err != nil {
			continue
		}
		var free net.Listener
		if free, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err == nil {
			return held, "http://" + address, free.Close()
		}
		_ = held.Close()
	}
	return nil, "", fmt.Errorf("no free port: %w", err)
}

func (w *world) receive(rw http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if r.URL.Path == "/hang" {
		<-r.Context().Done()
		return
	}
	if r.URL.Path == "/slow" {
		_ = wait.For(r.Context(), slowly)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	name := r.Header.Get("webhook-id")
	w.arrived[name] = append(w.arrived[name], time.Now())
	rw.WriteHeader(http.StatusNoContent)
}

// start starts the relay and waits until it is ready. Of the caller's settings only the place of the store's library
// reaches it.
func (w *world) start(ctx context.Context) error {
	w.child = exec.CommandContext(context.WithoutCancel(ctx), w.program, "dev") // close ends it
	w.child.Env = slices.DeleteFunc(os.Environ(), func(x string) bool {
		return strings.HasPrefix(x, "RELAY_") && !strings.HasPrefix(x, "RELAY_CHDB_LIB=")
	})
	w.child.Env = append(w.child.Env, "RELAY_LISTEN="+strings.TrimPrefix(w.url, "http://"), "RELAY_BASE_URL="+w.url,
		"RELAY_ADMIN_LISTEN=127.0.0.1:0", "RELAY_DATA_DIR="+filepath.Join(w.dir, "data"), "RELAY_BOOTSTRAP_KEY="+w.key,
		"RELAY_EGRESS_ALLOW=127.0.0.0/8", "RELAY_EGRESS_ALLOW_HTTP=true")
	w.child.Stdout, w.child.Stderr = w.log, w.log
	w.child.SysProcAttr = diesWithParent()
	if err := w.child.Start(); err != nil {
		return err
	}
	child, ended := w.child, make(chan struct{})
	w.ended = ended
	w.waits.Go(func() { _ = child.Wait(); close(ended) })
	return w.until(ctx, "the relay is ready", func() bool {
		_, err := w.call(ctx, "GET", "/v1/me", nil)
		return err == nil
	})
}

// kill ends the relay as a crash does.
func (w *world) kill() {
	_ = w.child.Process.Kill()
	<-w.ended
}

// stop ends the relay as an operator does.
func (w *world) stop() {
	_ = w.child.Process.Signal(os.Interrupt)
	select {
	case <-w.ended:
	case <-time.After(5 * time.Second):
		w.kill()
	}
}

func (w *world) close() {
	w.receiver.CloseClientConnections() // or the relay would wait for their answers
	w.receiver.Close()
	if w.child != nil && w.child.Process != nil {
		w.stop()
	}
	w.waits.Wait()
	_ = w.port.Close()
	_ = w.log.Close()
	_ = os.RemoveAll(w.dir)
}

// logEnd is the end of the relay's log.
func (w *world) logEnd() string {
	text, _ := os.ReadFile(w.log.Name())
	return string(text[max(0, len(text)-1000):])
}

func (w *world) say(format string, args ...any) { fmt.Fprintf(w.out, "  "+format+"\n", args...) }

// show remembers the path of an address that shows the result.
func (w *world) show(path string) {
	w.look = `curl -sS -H "Authorization: Bearer $KEY" "` + w.url + path + `"`
}

// until waits until what is so, or returns the error of ctx, or that the relay has ended.
func (w *world) until(ctx context.Context, what string, so func() bool) error {
	for tick := time.NewTicker(50 * time.Millisecond); !so(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s: %w", what, ctx.Err())
		case <-w.ended:
			return fmt.Errorf("waited until %s, but the relay has ended", what)
		}
	}
	return nil
}

// call makes one call of the API.
func (w *world) call(ctx context.Context, method, path string, body any, headers ...string) (gjson.Result, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return gjson.Result{}, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, bytes.NewReader(text))
	if err != nil {
		return gjson.Result{}, err
	}
	req.Header.Set("Authorization", "Bearer "+w.key)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return answerOf(req)
}

func answerOf(req *http.Request) (gjson.Result, error) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return gjson.Result{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode > 299 {
		err = fmt.Errorf("%s %s: %s %s", req.Method, req.URL.Path, resp.Status, text)
	}
	return gjson.ParseBytes(text), err
}

type object = map[string]any

// endpoint creates an endpoint with a destination at a path of the receiver, and returns its id.
func (w *world) endpoint(ctx context.Context, path string, destination, members object) (string, error) {
	if destination == nil {
		destination = object{}
	}
	destination["url"] = w.receiver.URL + path
	body := object{"name": strings.TrimPrefix(path, "/"), "destinations": []object{destination}}
	for name, value := range members {
		body[name] = value
	}
	made, err := w.call(ctx, "POST", "/v1/endpoints", body)
	return made.Get("id").Str, err
}

// send sends n events to an endpoint, workers at a time, each until it is acknowledged: a request without an answer is
// repeated with the same Idempotency-Key. It returns their ids.
func (w *world) send(ctx context.Context, endpoint string, n, workers int) (ids []string, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	todo := make(chan int)
	for range workers {
		all.Go(func() {
			for i := range todo {
				event := object{"type": "order.paid", "data": object{"order": i}}
				for {
					began := time.Now()
					sent, failed := w.call(ctx, "POST", "/v1/endpoints/"+endpoint+"/events", event,
						"Idempotency-Key", fmt.Sprint(endpoint, i))
					mu.Lock()
					if failed == nil {
						ids = append(ids, sent.Get("id").Str)
						w.acknowledged(sent.Get("id").Str, began)
					} else if ctx.Err() != nil {
						err = failed
					}
					mu.Unlock()
					if failed == nil || wait.For(ctx, 50*time.Millisecond) != nil {
						break
					}
				}
			}
		})
	}
	for i := range n {
		todo <- i
	}
	close(todo)
	all.Wait()
	return ids, err
}

func (w *world) acknowledged(id string, sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent[id] = sent
}

// open returns how many events are acknowledged, and how many of these have not arrived yet.
func (w *world) open() (acknowledged, missing int) {
	w.mu.Lock()
	ids := slices.Collect(maps.Keys(w.sent))
	w.mu.Unlock()
	missing, _ = w.missing(ids)
	return len(ids), missing
}

// slowest returns the longest time from the request that sent an event to its arrival.
func (w *world) slowest(ids []string) (longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range ids {
		longest = max(longest, w.arrived[name][0].Sub(w.sent[name]))
	}
	return longest
}

// missing counts the events that have not arrived, and those that have arrived more than once.
func (w *world) missing(ids []string) (missing, twice int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range ids {
		switch n := len(w.arrived[name]); {
		case n == 0:
			missing++
		case n > 1:
			twice++
		}
	}
	return missing, twice
}

// setFailing makes the receiver fail, or mends it.
func (w *world) setFailing(failing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing = failing
}

// times returns when events arrived for the first time, earliest first.
func (w *world) times(ids []string) (all []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range ids {
		if at := w.arrived[name]; len(at) > 0 {
			all = append(all, at[0])
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}
