package egress

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/eventrelay/relay/test/must"
)

// answerFunc returns the addresses of a name, which is in lower case and without a dot at its end. n counts the
// questions of the same type for the name, from 1. nil means that the name does not exist.
type answerFunc func(name string, n int) []netip.Addr

// dnsServer is a name server on loopback that answers A and AAAA questions over UDP.
type dnsServer struct {
	conn   net.PacketConn
	answer answerFunc

	mu    sync.Mutex // guards asked
	asked map[string]int
}

// startDNS starts a name server for the test and returns its address.
func startDNS(tb testing.TB, answer answerFunc) string {
	tb.Helper()
	conn := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(tb)
	s := &dnsServer{conn: conn, answer: answer, asked: map[string]int{}}
	var wg sync.WaitGroup
	wg.Go(s.serve)
	tb.Cleanup(func() {
		conn.Close()
		wg.Wait()
	})
	return conn.LocalAddr().String()
}

func (s *dnsServer) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		s.conn.WriteTo(s.reply(buf[:n]), from)
	}
}

func (s *dnsServer) reply(packet []byte) []byte {
	var in dnsmessage.Message
	if err := in.Unpack(packet); err != nil || len(in.Questions) != 1 {
		panic(fmt.Sprintf("a question that cannot be read: %x: %v", packet, err))
	}
	q := in.Questions[0]
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	s.mu.Lock()
	key := q.Type.String() + " " + name
	s.asked[key]++
	n := s.asked[key]
	s.mu.Unlock()

	out := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: in.ID, Response: true, RecursionAvailable: true},
		Questions: in.Questions,
	}
	addrs := s.answer(name, n)
	if addrs == nil {
		out.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addrs {
		h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET}
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			out.Answers = append(out.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			out.Answers = append(out.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	reply, err := out.Pack()
	if err != nil {
		panic(err)
	}
	return reply
}

// always returns an answerFunc with the same addresses for every name.
func always(addrs ...string) answerFunc {
	parsed := []netip.Addr{}
	for _, a := range addrs {
		parsed = append(parsed, netip.MustParseAddr(a))
	}
	return func(string, int) []netip.Addr { return parsed }
}
