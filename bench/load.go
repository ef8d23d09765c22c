package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// load posts events numbered from 0.
type load struct {
	o        options
	url, key string
	kind     string // content type
	dest     *sink
	client   *http.Client
	filler   string
	next     atomic.Int64
	accepted atomic.Int64
	refused  atomic.Int64
	latency  samples
}

func newLoad(o options, url, key string, dest *sink) *load {
	random := make([]byte, o.size/2)
	_, _ = rand.Read(random)
	conns := max(o.posters, 256)
	kind := "application/json"
	if o.batch > 0 {
		url, kind = url+"/batch", "application/x-ndjson"
	}
	return &load{
		o: o, url: url, key: key, kind: kind, dest: dest, filler: hex.EncodeToString(random),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns, MaxConnsPerHost: conns}},
	}
}

// warm sends one event through the whole path, so that connections and tables exist.
func (l *load) warm(ctx context.Context) error {
	if !l.post(ctx, time.Now()) {
		return fmt.Errorf("first event was refused")
	}
	if l.dest.drain(l.accepted.Load(), 10*time.Second) > 0 {
		return fmt.Errorf("first event did not arrive")
	}
	l.latency.reset()
	l.dest.latency.reset()
	l.dest.got.Clear()
	l.next.Store(0)
	l.accepted.Store(0)
	l.dest.count.Store(0)
	return nil
}

func (l *load) run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.o.duration)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	if l.o.rate == 0 {
		for range l.o.posters {
			wg.Go(func() {
				for ctx.Err() == nil {
					l.post(context.WithoutCancel(ctx), time.Now())
				}
			})
		}
		return
	}
	// On time whatever the answers do: latency counts from when an event was due.
	started := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		due := started.Add(time.Duration(i) * time.Second / time.Duration(l.o.rate))
		timer := time.NewTimer(time.Until(due))
		select {
		case <-timer.C:
			wg.Go(func() { l.post(context.WithoutCancel(ctx), due) })
		case <-ctx.Done():
		}
	}
}

// post sends one event, or one batch of them, and reports whether all of it was accepted.
func (l *load) post(ctx context.Context, due time.Time) bool {
	n := int64(max(l.o.batch, 1))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(l.body(n, due)))
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+l.key)
	req.Header.Set("Content-Type", l.kind)
	resp, err := l.client.Do(req)
	if err != nil {
		l.refused.Add(n)
		return false
	}
	answer, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	accepted := n
	if resp.StatusCode != http.StatusAccepted {
		accepted = 0
	} else if l.o.batch > 0 {
		accepted -= int64(bytes.Count(answer, []byte(`"error":`)))
	}
	l.accepted.Add(accepted)
	if l.refused.Add(n - accepted); accepted < n {
		return false
	}
	l.latency.add(time.Since(due))
	return true
}

// body is n events, one a line.
func (l *load) body(n int64, due time.Time) (body []byte) {
	last := l.next.Add(n)
	for i := last - n; i < last; i++ {
		body = fmt.Appendf(body, `{"type":"bench.event","data":{"n":%d,"at":%d,"filler":%q}}`+"\n", i, due.UnixNano(), l.filler)
	}
	return body
}

// sink is the destination.
type sink struct {
	listener   net.Listener
	server     *http.Server
	got        sync.Map
	count      atomic.Int64
	duplicates atomic.Int64
	latency    samples

	mu   sync.Mutex // guards last
	last time.Time
	wg   sync.WaitGroup
}

func newSink() (*sink, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{listener: l}
	s.server = &http.Server{Handler: http.HandlerFunc(s.receive), ReadHeaderTimeout: time.Minute}
	s.wg.Go(func() { _ = s.server.Serve(l) })
	return s, nil
}

func (s *sink) url() string { return "http://" + s.listener.Addr().String() + "/hook" }

func (s *sink) close() {
	_ = s.server.Close()
	s.wg.Wait()
}

func (s *sink) receive(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	now := time.Now()
	n, at := number(body, `"n":`), number(body, `"at":`)
	if _, again := s.got.LoadOrStore(n, true); again {
		s.duplicates.Add(1)
		return
	}
	s.latency.add(now.Sub(time.Unix(0, at)))
	s.mu.Lock()
	s.last = now
	s.mu.Unlock()
	s.count.Add(1)
}

func number(body []byte, after string) int64 {
	_, rest, _ := bytes.Cut(body, []byte(after))
	end := bytes.IndexAny(rest, ",}")
	n, _ := strconv.ParseInt(string(rest[:max(end, 0)]), 10, 64)
	return n
}

// drain waits until n different events arrived and returns how many did not.
func (s *sink) drain(n int64, limit time.Duration) int64 {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.count.Load() < n && time.Now().Before(deadline) {
		<-tick.C
	}
	return max(n-s.count.Load(), 0)
}

// samples keeps every duration; a run has some hundred thousand.
type samples struct {
	mu sync.Mutex // guards all
	d  []time.Duration
}

func (s *samples) add(d time.Duration) {
	s.mu.Lock()
	s.d = append(s.d, d)
	s.mu.Unlock()
}

func (s *samples) reset() {
	s.mu.Lock()
	s.d = nil
	s.mu.Unlock()
}

func (s *samples) quantile(q float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.d) == 0 {
		return 0
	}
	slices.Sort(s.d)
	return s.d[min(int(q*float64(len(s.d))), len(s.d)-1)].Round(10 * time.Microsecond)
}
