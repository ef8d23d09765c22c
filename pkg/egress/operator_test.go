package egress

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// An operator's host is resolved by the configured server and reached although it is not public, with the configured
// root certificates.
func TestOperatorDialer(t *testing.T) {
	srv, _ := startTLS(t, false, nil)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	o := must.Get(NewOperatorDialer(caFile(t, srv), startDNS(t, always("127.0.0.1"))))(t)
	conn := must.Get(o.Dial(t.Context(), "tcp", "example.com:"+port))(t)
	defer conn.Close()
	conf := o.TLS().Clone()
	conf.ServerName = "example.com"
	is.OK(t, tls.Client(conn, conf).HandshakeContext(t.Context()))
	if conf.MinVersion != tls.VersionTLS12 || o.dialer.Timeout != connectTimeout {
		t.Errorf("TLS from %x on, %s for a connection", conf.MinVersion, o.dialer.Timeout)
	}
	if _, err := NewOperatorDialer(filepath.Join(t.TempDir(), "missing.pem"), ""); err == nil {
		t.Error("a missing file of certificates is accepted")
	}
	if _, err := NewOperatorDialer("", "dns.example.com"); err == nil {
		t.Error("a DNS server that is not an address is accepted")
	}
}
