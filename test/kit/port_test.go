package kit

import (
	"fmt"
	"net"
	"testing"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	port := FreePort(t)
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	if _, err := claim(port); err == nil {
		t.Error("a port that a test has is given to another")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal("the claim keeps its own server from the port: ", err)
	}
	defer l.Close()

	var mine int
	t.Run("first", func(t *testing.T) { mine = FreePort(t) })
	release, err := claim(mine)
	if err != nil {
		t.Fatal("a port is not given back when its test ends: ", err)
	}
	release()
	foreign, err := net.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", mine))
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	if _, err := claim(mine); err == nil {
		t.Error("a port where another program listens is given to a test")
	}
}
