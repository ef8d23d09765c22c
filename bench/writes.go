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
	"sync"
	"sync/atomic"
	"time"
)

// writes sends events at a rate while something else is measured: in batches, each for a twentieth of a second, to an
// endpoint of their own, whose destination takes them.
type writes struct {
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	server  *http.Server
	began   time.Time
	sent    atomic.Int64
	refused atomic.Int64
}

const (
	batchesASecond = 20
	// largestBatch is that of the batch route.
	largestBatch = 1_000
)

// startWrites begins to send; nothing is sent at a rate of 0.
func (m *reading) startWrites(ctx context.Context) (*writes, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &writes{cancel: cancel, server: &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler:           http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }),
	}}
	if m.o.write == 0 {
		return w, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		cancel()
		return nil, err
	}
	w.wg.Go(func() { _ = w.server.Serve(listener) })
	endpoint, err := m.relay.createEndpoint(ctx, "http://"+listener.Addr().String()+"/")
	if err != nil {
		_ = w.stop()
		return nil, err
	}
	w.began = time.Now()
	w.wg.Go(func() { w.send(ctx, m.relay, "/v1/endpoints/"+endpoint+"/events/batch", m.o.write) })
	return w, nil
}

// send posts a batch whenever one is due, whether or not the last one was answered.
func (w *writes) send(ctx context.Context, r *relay, path string, rate int) {
	filler := make([]byte, 512)
	_, _ = rand.Read(filler) // never fails
	n := min(max(rate/batchesASecond, 1), largestBatch)
	var body []byte
	for i := range n {
		body = fmt.Appendf(body, `{"type":"bench.event","data":{"n":%d,"filler":%q}}`+"\n", i, hex.EncodeToString(filler))
	}
	tick := time.NewTicker(time.Duration(n) * time.Second / time.Duration(rate))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.wg.Go(func() {
				if err := postBatch(ctx, r, path, body); err != nil {
					w.refused.Add(int64(n))
				} else {
					w.sent.Add(int64(n))
				}
			})
		case <-ctx.Done():
			return
		}
	}
}

func postBatch(ctx context.Context, r *relay, path string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("send events: %s", resp.Status)
	}
	return nil
}

// figures are the events a second that were taken so far, and how many were not.
func (w *writes) figures() (rate float64, refused int64) {
	if w.began.IsZero() {
		return 0, 0
	}
	return float64(w.sent.Load()) / time.Since(w.began).Seconds(), w.refused.Load()
}

// stop ends the sending and waits for it.
func (w *writes) stop() error {
	w.cancel()
	err := w.server.Close()
	w.wg.Wait()
	return err
}
