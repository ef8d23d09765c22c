// Package websites has a DNS server and websites on loopback, for tests of what makes requests to websites.
package websites

import (
	"encoding/binary"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/eventrelay/relay/pkg/egress"
)

// DNS is a name server. Names without an address or a record do not exist.
type DNS struct {
	Address string

	mu    sync.Mutex                            // guards the fields below
	addrs map[string]func(nth int) []netip.Addr // by name; nth is the number of the question, from 1
	texts map[string][]string
	asked map[string]int
	fails bool
}

// StartDNS starts a name server, which ends with the test.
func StartDNS(t testing.TB) *DNS {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &DNS{Address: conn.LocalAddr().String(), addrs: map[string]func(int) []netip.Addr{},
		texts: map[string][]string{}, asked: map[string]int{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := s.reply(buf[:n]); reply != nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	})
	t.Cleanup(func() {
		conn.Close()
		wg.Wait()
	})
	return s
}

// StartTCP starts the name server at a TCP address too, with one question for each connection (RFC 7766).
func (s *DNS) StartTCP(t testing.TB) (address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 1500)
			if n, err := io.ReadAtLeast(conn, buf, 2); err == nil && n > 2 {
				reply := s.reply(buf[2:n])
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
			}
			conn.Close()
		}
	})
	t.Cleanup(func() {
		listener.Close()
		wg.Wait()
	})
	return listener.Addr().String()
}

// SetAddrs sets the addresses of a name.
func (s *DNS) SetAddrs(name string, addrs ...string) {
	s.SetAddrsByQuestion(name, func(int) []string { return addrs })
}

// SetAddrsByQuestion sets the addresses of a name that differ from question to question, counted from 1.
func (s *DNS) SetAddrsByQuestion(name string, addrs func(nth int) []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addrs[name] = func(nth int) (parsed []netip.Addr) {
		for _, a := range addrs(nth) {
			parsed = append(parsed, netip.MustParseAddr(a))
		}
		return parsed
	}
}

// SetTexts sets the TXT records of a name; none removes it.
func (s *DNS) SetTexts(name string, texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts[name] = texts
}

// SetFailing makes the server answer every question with a failure.
func (s *DNS) SetFailing(fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
}

// Asked returns how often the addresses of a name were asked for.
func (s *DNS) Asked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

func (s *DNS) reply(packet []byte) []byte {
	var in dnsmessage.Message
	if err := in.Unpack(packet); err != nil || len(in.Questions) != 1 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := in.Questions[0]
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	out := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: in.ID, Response: true, RecursionAvailable: true},
		Questions: in.Questions,
	}
	addrs, texts := s.addrs[name], s.texts[name]
	switch {
	case s.fails:
		out.RCode = dnsmessage.RCodeServerFailure
	case addrs == nil && len(texts) == 0:
		out.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeTXT:
		for _, text := range texts {
			out.Answers = append(out.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.TXTResource{TXT: []string{text}}})
		}
	case q.Type == dnsmessage.TypeA && addrs != nil:
		s.asked[name]++
		for _, a := range addrs(s.asked[name]) {
			out.Answers = append(out.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.AResource{A: a.As4()}})
		}
	}
	packed, err := out.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// Site is a website with a certificate for example.com and the names below it.
type Site struct {
	*httptest.Server
	Port string
}

// StartSite starts a website on loopback, which ends with the test.
func StartSite(t testing.TB, handler http.Handler) *Site {
	t.Helper()
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return &Site{srv, port}
}

// Transport returns a transport that trusts the certificate of websites, asks the name server, and reaches 127.0.0.0/16
// but no other address of loopback.
func Transport(t testing.TB, dns *DNS, site *Site) *egress.Transport {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	policy := egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/16")}}
	tr, err := egress.NewTransport(egress.Config{Policy: policy, CAFile: ca, DNSServer: dns.Address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}
