package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T) (*Server, func() error) { return serveOn(t, "127.0.0.1:0") }

func serveOn(t *testing.T, listen string) (*Server, func() error) {
	t.Helper()
	s := must.Get(New(Config{Listen: listen}, Deps{}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-ended:
		t.Fatalf("Run ended early: %v", err)
	}
	return s, func() error { cancel(); return <-ended }
}

// call sends one command and returns the first line of the answer, and the value of a bulk answer.
func call(t *testing.T, c net.Conn, r *bufio.Reader, args ...string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.Write([]byte(b.String())); err != nil {
		t.Fatal(err)
	}
	line, err := r.ReadString('\n')
	must.Do(t, err)
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "$") && line != "$-1" {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return strings.TrimSpace(line)
}

func TestKeysExpire(t *testing.T) {
	s, stop := serve(t)
	c := must.Get(net.Dial("tcp", s.Addr()))(t)
	defer c.Close()
	r := bufio.NewReader(c)

	start := time.Now()
	call(t, c, r, "SET", "stays", "1")
	call(t, c, r, "SET", "later", "1", "EX", "600")
	call(t, c, r, "SET", "goes", "1", "PX", "300")
	is.Equal(t, call(t, c, r, "INCRBY", "later", "2"), ":3", "INCRBY answered")
	for call(t, c, r, "EXISTS", "goes") == ":1" {
		if time.Since(start) > 20*time.Second {
			t.Fatal("the key does not expire")
		}
		time.Sleep(5 * time.Millisecond)
	}
	for key, want := range map[string]string{"stays": "1", "later": "3"} {
		is.Equal(t, call(t, c, r, "GET", key), want, "key %s answered", key)
	}
	must.Do(t, stop())
	if _, err := net.Dial("tcp", s.Addr()); err == nil {
		t.Error("still listening after Run")
	}
}

func TestListenError(t *testing.T) {
	s, stop := serve(t)
	other := must.Get(New(Config{Listen: s.Addr()}, Deps{}))(t)
	if err := other.Run(t.Context()); err == nil {
		t.Error("two servers on one address")
	}
	must.Do(t, stop())
	if _, err := New(Config{Listen: "nowhere"}, Deps{}); err == nil {
		t.Error("an address without a port was accepted")
	}
}

// One packet can end the process, so it listens on loopback or a socket, never on the network.
func TestListenOnThisMachineOnly(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:6379", "[::ffff:192.0.2.1]:6379", ":6379", "unix:"} {
		if _, err := New(Config{Listen: listen}, Deps{}); err == nil {
			t.Errorf("%s was accepted", listen)
		}
	}
	for _, listen := range []string{"", "127.0.0.1:0", "[::1]:0", "127.9.9.9:0", "unix:/x/y.sock"} {
		if _, err := New(Config{Listen: listen}, Deps{}); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

// Without an address only this process connects, and may send more commands at once than a pipe would hold.
func TestDialInProcess(t *testing.T) {
	s, stop := serveOn(t, "")
	is.Equal(t, s.Addr(), "", "listens on")
	c, err := s.DialContext(t.Context(), "tcp", "anything:1")
	must.Do(t, err)
	defer c.Close()
	const many = 2_000
	must.Do(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	if _, err := c.Write([]byte(strings.Repeat("*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n", many))); err != nil {
		t.Fatal(err)
	}
	r, last := bufio.NewReader(c), ""
	for range many {
		if last, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	is.Equal(t, last, fmt.Sprintf(":%d\r\n", many), "the last answer")
	must.Do(t, stop())
	if _, err := s.DialContext(t.Context(), "", ""); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Run: %v", err)
	}
}

func TestListenOnSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "redis.sock")
	s, stop := serveOn(t, "unix:"+path)
	is.Equal(t, s.Addr(), "unix:"+path, "address")
	c := must.Get(net.Dial("unix", path))(t)
	defer c.Close()
	is.Equal(t, call(t, c, bufio.NewReader(c), "PING"), "+PONG", "PING answered")
	must.Do(t, stop())
}

// Counters of attempts survive the process, with what is left of their time; nothing else does. A damaged file is no
// reason not to start.
func TestCountersAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counters.json")
	run := func(commands ...string) (answers []string) {
		s := must.Get(New(Config{Counters: path}, Deps{}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		c := must.Get(s.DialContext(ctx, "", ""))(t)
		defer c.Close()
		r := bufio.NewReader(c)
		for _, command := range commands {
			answers = append(answers, call(t, c, r, strings.Fields(command)...))
		}
		cancel()
		must.Do(t, <-ended)
		return answers
	}
	run("SET window:a:x 5 PX 60000", "SADD distinct:b:y one two", "PEXPIRE distinct:b:y 60000", "SET claim:z 1 PX 60000",
		"SET window:a:short 1 PX 60")
	time.Sleep(70 * time.Millisecond)
	got := run("GET window:a:x", "SISMEMBER distinct:b:y two", "GET claim:z", "GET window:a:short", "PTTL window:a:x",
		"PTTL distinct:b:y", "INCR window:a:x")
	is.Same(t, got[:4], []string{"5", ":1", "$-1", "$-1"})
	for _, left := range got[4:6] {
		if n := must.Get(strconv.Atoi(strings.TrimPrefix(left, ":")))(t); n < 50_000 || n > 60_000 {
			t.Errorf("%d ms are left of 60,000", n)
		}
	}
	if got := run("GET window:a:x"); got[0] != "6" {
		t.Errorf("the count is %s", got[0])
	}
	must.Do(t, os.WriteFile(path, []byte(`{"window:a:x":{"va`), 0o600))
	if got := run("GET window:a:x", "SET window:a:x 1"); got[0] != "$-1" || got[1] != "+OK" {
		t.Errorf("after damage: %q", got)
	}
}
