package ingest

import (
	"fmt"
	"github.com/eventrelay/relay/test/is"
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// inUse returns the bytes of heap and stacks after a garbage collection.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// 2,000 clients announce a body of 1 MiB each and send one byte. Each uses no more than a connection and its first
// buffers, other clients are served, and everything is freed when they disconnect.
func TestSlowClientsUseLittleMemory(t *testing.T) {
	const clients, each = 2000, 64 << 10 // bytes; both ends of the connection are in this process
	w := newWorld(t, options{bodyTimeout: time.Minute})
	w.want(w.post("before"), 200)
	goroutines, before := runtime.NumGoroutine(), inUse()
	conns := make([]net.Conn, clients)
	for i := range conns {
		conns[i] = w.dial()
		framing := "Transfer-Encoding: chunked"
		part := "1\r\nx"
		if i%2 == 0 {
			framing, part = fmt.Sprint("Content-Length: ", maxBody), "x"
		}
		io.WriteString(conns[i], request("POST", []string{framing}, part))
	}
	eventually(t, "all are being read", func() bool { return w.ingest.bodies.readingBytes.Load() == clients })
	held := inUse() - before
	t.Logf("%d slow clients: %d KB in use, %d bytes each, %d goroutines", clients, held>>10, held/clients,
		runtime.NumGoroutine()-goroutines)
	if held > clients*each {
		t.Errorf("a slow client uses more than %d bytes", each)
	}
	w.want(w.post("meanwhile"), 200)
	for _, c := range conns {
		c.Close()
	}
	eventually(t, "nothing is left", func() bool {
		return runtime.NumGoroutine() <= goroutines+5 && w.ingest.bodies.readingBytes.Load() == 0
	})
	is.Equal(t, len(w.stored()), 2, "events are stored")
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}
