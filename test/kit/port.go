package kit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports that are given to servers lie below those that systems give to outgoing connections (from 32768 on Linux, from
// 49152 elsewhere): a server that binds seconds later, or again after it was killed, finds its port free whatever
// connects meanwhile.
const (
	lowestPort = 20000
	portCount  = 12000
	portTries  = 200
)

// FreePort returns a TCP port that no other test of this machine gets until the test ends, this process or another.
func FreePort(t testing.TB) int {
	t.Helper()
	for range portTries {
		port := lowestPort + rand.IntN(portCount)
		release, err := claim(port)
		if err == nil {
			t.Cleanup(release)
			return port
		}
	}
	t.Fatalf("%d ports from %d on were tried, and none is free", portTries, lowestPort)
	return 0
}

// claim takes a port when nobody has it: the UDP port of that number is the claim, and ends with this process if not
// before. Whoever listens without asking, a program of the system, has the TCP port.
func claim(port int) (release func(), err error) {
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	held, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	if err := l.Close(); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return func() { _ = held.Close() }, nil // nothing was written to it
}
