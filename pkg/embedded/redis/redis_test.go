package redis

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T) (*Server, func() error) {
	t.Helper()
	s, err := New(DefaultConfig(), Deps{})
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)

	start := time.Now()
	call(t, c, r, "SET", "stays", "1")
	call(t, c, r, "SET", "later", "1", "EX", "600")
	call(t, c, r, "SET", "goes", "1", "PX", "300")
	if got := call(t, c, r, "INCRBY", "later", "2"); got != ":3" {
		t.Errorf("INCRBY answered %s", got)
	}
	for call(t, c, r, "EXISTS", "goes") == ":1" {
		if time.Since(start) > 20*time.Second {
			t.Fatal("the key does not expire")
		}
		time.Sleep(5 * time.Millisecond)
	}
	for key, want := range map[string]string{"stays": "1", "later": "3"} {
		if got := call(t, c, r, "GET", key); got != want {
			t.Errorf("key %s answered %s", key, got)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", s.Addr()); err == nil {
		t.Error("it still listens after the end")
	}
}

func TestListenError(t *testing.T) {
	s, stop := serve(t)
	other, err := New(Config{Listen: s.Addr()}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Run(t.Context()); err == nil {
		t.Error("two servers on one address")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Listen: "nowhere"}, Deps{}); err == nil {
		t.Error("an address without a port was accepted")
	}
}
