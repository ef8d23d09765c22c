package e2e

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

// sink is an HTTPS destination that keeps the requests that it receives.
type sink struct {
	*httptest.Server
	answer func(received) (status int)

	mu   sync.Mutex // guards what follows
	got  []received
	seen map[string]int // requests by event
}

type received struct {
	path    string
	header  http.Header
	body    []byte
	at      time.Time
	earlier int // how many requests for the event arrived earlier
	status  int // of the answer; 0 until it is sent
}

func (r received) event() string { return r.header.Get("Webhook-Id") }

// newSink starts a sink that answers with the status that answer returns; nil answers 200.
func newSink(t *testing.T, answer func(received) (status int)) *sink {
	t.Helper()
	s := &sink{answer: answer, seen: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a killed relay leaves broken connections
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// sinkCA is a file with the certificate of all sinks, for RELAY_EGRESS_CA_FILE. TestMain sets it.
var sinkCA string

// writeSinkCA writes the certificate of all sinks into a directory and returns the file.
func writeSinkCA(dir string) (path string, err error) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	path = filepath.Join(dir, "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return path, os.WriteFile(path, block, 0o600)
}

func (s *sink) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	got := received{path: r.URL.Path, header: r.Header.Clone(), body: body, at: time.Now()}
	s.mu.Lock()
	got.earlier = s.seen[got.event()]
	s.seen[got.event()]++
	at := len(s.got)
	s.got = append(s.got, got)
	s.mu.Unlock()
	status := http.StatusOK
	if s.answer != nil {
		status = s.answer(got)
	}
	s.mu.Lock()
	s.got[at].status = status
	s.mu.Unlock()
	w.WriteHeader(status)
}

func (s *sink) received() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.got...)
}

// wait waits until n requests have arrived and returns them.
func (s *sink) wait(t *testing.T, n int, limit time.Duration) []received {
	t.Helper()
	for deadline := time.Now().Add(busy * limit); ; time.Sleep(10 * time.Millisecond) {
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
