package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// sink is a destination over TLS that keeps what it got.
type sink struct {
	*httptest.Server
	answer func(http.ResponseWriter, *http.Request, []byte)

	mu  sync.Mutex // guards got
	got []received
}

type received struct {
	path   string
	header http.Header
	body   []byte
	at     time.Time
}

func (r received) event() string { return r.header.Get("Webhook-Id") }

// newSink answers 200, or whatever answer does.
func newSink(t *testing.T, answer func(http.ResponseWriter, *http.Request, []byte)) *sink {
	t.Helper()
	s := &sink{answer: answer}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a killed relay leaves broken connections
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// sinkCA is a file with the certificate of all sinks, for the relay to trust.
func sinkCA(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	path := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s *sink) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.got = append(s.got, received{r.URL.Path, r.Header.Clone(), body, time.Now()})
	s.mu.Unlock()
	if s.answer != nil {
		s.answer(w, r, body)
	}
}

func (s *sink) received() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.got...)
}

// wait returns what arrived once there are n.
func (s *sink) wait(t *testing.T, n int, limit time.Duration) []received {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if got := s.received(); len(got) >= n {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d requests arrived, want %d", len(s.received()), n)
		}
	}
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}
