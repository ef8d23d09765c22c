package kit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports for servers lie below the ephemeral ports of outgoing connections (from 32768 on Linux, from 49152 elsewhere),
// so that no connection takes a port before its server binds it, or while the server restarts.
const (
	lowestPort = 20000
	portCount  = 12000
	portTries  = 200
)

// FreePort returns a free TCP port. No other test on this machine, in this process or another, gets it before the test
// ends.
func FreePort(t testing.TB) int {
	t.Helper()
	for range portTries {
		port := lowestPort + rand.IntN(portCount)
		release, err := reservePort(port)
		if err == nil {
			t.Cleanup(release)
			return port
		}
	}
	t.Fatalf("none of %d random ports from %d on is free", portTries, lowestPort)
	return 0
}

// reservePort reserves a TCP port by binding the UDP port of the same number, which the kernel releases when this
// process ends. It fails if another test holds the reservation or any program listens on the TCP port.
func reservePort(port int) (release func(), err error) {
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
	return func() { _ = held.Close() }, nil // closing an unused UDP socket loses nothing
}
