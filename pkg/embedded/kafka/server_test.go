package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/test/must"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		want []string // parts of the error; empty: no error
	}{
		{"default with a directory", Config{Listen: "127.0.0.1:0", DataDir: "x", MaxMessageBytes: 1 << 20}, nil},
		{"zero", Config{}, []string{"listen address", "no data directory", "max message bytes"}},
		{"unspecified host", Config{Listen: "0.0.0.0:9092", DataDir: "x", MaxMessageBytes: 1 << 20},
			[]string{"names no host", "10.0.0.5:9092"}},
		{"beyond loopback", Config{Listen: "192.0.2.1:9092", DataDir: "x", MaxMessageBytes: 1 << 20},
			[]string{"not loopback", "--key-file or RELAY_ENGINE_KEY"}},
		{
			"beyond loopback, with a secret",
			Config{Listen: "192.0.2.1:9092", DataDir: "x", MaxMessageBytes: 1 << 20, Secret: "0123456789abcdef"}, nil,
		},
		{
			"short secret",
			Config{Listen: "127.0.0.1:9092", DataDir: "x", MaxMessageBytes: 1 << 20, Secret: "0123456789abcde"},
			[]string{"at least 16"},
		},
		{"socket", Config{Listen: "unix:/x/y.sock", DataDir: "x", MaxMessageBytes: 1 << 20}, nil},
		{"host name", Config{Listen: "localhost:9092", DataDir: "x", MaxMessageBytes: 1 << 20},
			[]string{"parse listen address"}},
		{"too big", Config{Listen: "[::1]:9092", DataDir: "x", MaxMessageBytes: 1 << 30}, []string{"max message bytes"}},
	} {
		_, err := New(c.cfg, Deps{})
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: got %v", c.name, err)
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", c.name, err, part)
			}
		}
	}
}

func TestDataDirIsLocked(t *testing.T) {
	cfg := testConfig(t)
	first := serve(t, cfg)
	second := must.Get(New(cfg, Deps{}))(t)
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "used by another process") {
		t.Errorf("second broker on the directory: %v", err)
	}
	must.Do(t, first.stop())
	serve(t, cfg)
}

func TestAddressInUse(t *testing.T) {
	cfg := testConfig(t)
	cfg.Listen = serve(t, testConfig(t)).Addr()
	s := must.Get(New(cfg, Deps{}))(t)
	if err := s.Run(t.Context()); err == nil {
		t.Error("two brokers on one address")
	}
}

// If kfake's file layout is unknown, kfake syncs each batch itself, and a warning is logged.
func TestUnknownLayout(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, testConfig(t), func(s *Server) {
		s.log = slog.New(slog.NewTextHandler(&log, nil))
		s.probe = func(context.Context, string) error { return errors.New("no such layout") }
		s.disk.syncFile = func(path string) error { t.Errorf("the barrier synced %s", path); return nil }
	})
	createTopics(t, s.Addr(), 1, nil, "relay.events")
	produce(t, client(t, s.Addr()), "relay.events", 0, []byte("x"))
	must.Do(t, s.stop())
	if !strings.Contains(log.String(), "no such layout") || !strings.Contains(log.String(), "fsync per batch") {
		t.Errorf("log: %s", &log)
	}
}

func TestLayout(t *testing.T) {
	if err := probeLayout(t.Context(), t.TempDir()); err != nil {
		t.Errorf("this kfake: %v", err)
	}
	dir := t.TempDir()
	if err := checkLayout(filepath.Join(dir, "absent")); err == nil {
		t.Error("a missing directory passed")
	}
	for _, name := range []string{"0.dat", "1.dat"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("something else"), 0o600))
	}
	if err := checkLayout(dir); err == nil || !strings.Contains(err.Error(), "does not hold its record") {
		t.Errorf("files without the records: %v", err)
	}
}

// Records that a crashed process left in the page cache are synced before the next broker serves them, a topic before
// its creation is answered, and everything before a stop ends.
func TestWhenFilesAreSynced(t *testing.T) {
	cfg := testConfig(t)
	cfg.Fsync = false
	s := serve(t, cfg)
	createTopics(t, s.Addr(), 1, nil, "relay.retry.1s")
	produce(t, client(t, s.Addr()), "relay.retry.1s", 0, []byte("x"))
	cfg.DataDir, cfg.Fsync = crashCopy(t, cfg.DataDir), true

	var syncs syncLog
	s = serve(t, cfg, syncs.install)
	syncs.check(t, "at the start", "partitions/relay.retry.1s-0/0.dat", "partitions/relay.retry.1s-0", "partitions", ".")
	createTopics(t, s.Addr(), 1, nil, "relay.retry.2s")
	syncs.check(t, "with the new topic", ".")
	produce(t, client(t, s.Addr()), "relay.retry.2s", 0, []byte("x"))
	syncs.check(t, "with a record of a topic that is not durable")
	must.Do(t, s.stop())
	syncs.check(t, "at the end", "partitions/relay.retry.2s-0/0.dat", "partitions/relay.retry.2s-0", "partitions", ".",
		"groups.log")
}

// syncLog records the paths that were synced since the last check.
type syncLog struct {
	root string
	mu   sync.Mutex // guards seen
	seen []string
}

func (l *syncLog) install(s *Server) {
	l.root = s.cfg.DataDir
	add := func(path string) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		rel, err := filepath.Rel(l.root, path)
		l.seen = append(l.seen, rel)
		return err
	}
	s.disk.syncFile, s.disk.syncDir = add, add
}

func (l *syncLog) check(t *testing.T, when string, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, path := range want {
		if !slices.Contains(l.seen, path) {
			t.Errorf("%s: %s was not synced, only %v", when, path, l.seen)
		}
	}
	if len(want) == 0 && len(l.seen) > 0 {
		t.Errorf("%s: %v were synced", when, l.seen)
	}
	l.seen = nil
}

// A topic that is deleted and created again has new files with the old names, and is synced like any other.
func TestRecreatedTopicIsSynced(t *testing.T) {
	var syncs syncLog
	s := serve(t, testConfig(t), syncs.install)
	cl := client(t, s.Addr())
	for range 3 {
		createTopics(t, s.Addr(), 1, nil, "relay.events")
		syncs.check(t, "with the new topic", ".")
		produce(t, client(t, s.Addr()), "relay.events", 0, []byte("x"))
		syncs.check(t, "before the acknowledgement", "partitions/relay.events-0/0.dat")
		must.Get(kadm.NewClient(cl).DeleteTopics(t.Context(), "relay.events"))(t)
	}
}

// A broker whose data directory is removed ends, instead of writing records to unlinked files.
func TestRemovedDataDirEndsTheBroker(t *testing.T) {
	cfg := testConfig(t)
	s := serve(t, cfg)
	createTopics(t, s.Addr(), 1, nil, "relay.events")
	cl := client(t, s.Addr())
	produce(t, cl, "relay.events", 0, []byte("x"))
	must.Do(t, os.RemoveAll(cfg.DataDir))
	result := make(chan error, 1)
	cl.Produce(context.Background(), &kgo.Record{Topic: "relay.events", Value: []byte("y")},
		func(_ *kgo.Record, err error) { result <- err })
	if err := s.wait(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Run returned %v", err)
	}
	cl.Close()
	if err := <-result; err == nil {
		t.Error("a record was acknowledged without being stored")
	}
}

// Bytes that are no Kafka request end their connection and nothing else.
func TestBadRequests(t *testing.T) {
	s := serve(t, testConfig(t))
	frame := func(size uint32, key uint16) []byte {
		b := binary.BigEndian.AppendUint32(nil, size)
		b = binary.BigEndian.AppendUint16(b, key)
		return append(b, make([]byte, 32)...)
	}
	for name, bytes := range map[string][]byte{
		"an unknown kind":     frame(14, 999),
		"a negative kind":     frame(14, 0xffff),
		"too big":             frame(maxFrame+1, uint16(kmsg.Produce)),
		"too small":           frame(4, uint16(kmsg.Produce)),
		"another protocol":    []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"a body that is none": frame(34, uint16(kmsg.Produce)),
	} {
		c := must.Get(net.Dial("tcp", s.Addr()))(t)
		must.Get(c.Write(bytes))(t)
		if n, _ := io.Copy(io.Discard, c); n > 0 {
			t.Errorf("%s: %d bytes of answer", name, n)
		}
		c.Close()
	}
	createTopics(t, s.Addr(), 1, nil, "relay.events")
	produce(t, client(t, s.Addr()), "relay.events", 0, []byte("x"))
}

// Records without acknowledgement (acks=0) do not disturb the answers to later requests of their connection.
func TestRequestsWithoutAcks(t *testing.T) {
	s := serve(t, testConfig(t))
	createTopics(t, s.Addr(), 1, nil, "relay.events")
	cl := client(t, s.Addr(), kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite(),
		kgo.ConsumeTopics("relay.events"))
	for range 20 {
		produce(t, cl, "relay.events", 0, []byte("x"))
	}
	consume(t, cl, 20)
}
