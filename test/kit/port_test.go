package kit

import (
	"fmt"
	"net"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

func TestReservedPortsAreExclusive(t *testing.T) {
	t.Parallel()
	port := FreePort(t)
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	if _, err := reservePort(port); err == nil {
		t.Error("a reserved port can be reserved again")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal("the server cannot bind its reserved port: ", err)
	}
	defer l.Close()

	var mine int
	t.Run("first", func(t *testing.T) { mine = FreePort(t) })
	release, err := reservePort(mine)
	if err != nil {
		t.Fatal("a port is still reserved after its test has ended: ", err)
	}
	release()
	foreign := must.Get(net.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", mine)))(t)
	defer foreign.Close()
	if _, err := reservePort(mine); err == nil {
		t.Error("a port on which another program listens can be reserved")
	}
}
