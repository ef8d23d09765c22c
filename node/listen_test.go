package node

import (
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"net"
	"testing"
)

// The error for an address in use names the address, its setting and how to choose another.
func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer func() { _ = taken.Close() }()
	n := &Node{settings: Config{Listen: taken.Addr().String()}}
	if _, err = newListener(n); err == nil {
		_ = n.listener.Close()
		t.Fatal("listens at an address that is in use")
	}
	for _, want := range []string{"RELAY_LISTEN", taken.Addr().String(), "choose another with --listen"} {
		is.Has(t, err.Error(), want, "%q does not name %q", err, want)
	}
}
