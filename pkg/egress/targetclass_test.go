package egress

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestClassifyAddr(t *testing.T) {
	f := func(addr string, want TargetClass) {
		t.Helper()
		if got := ClassifyAddr(netip.MustParseAddr(addr)); got != want {
			t.Errorf("ClassifyAddr(%s) = %s, want %s", addr, got, want)
		}
		if blocked := want != Public; want.Blocked() != blocked {
			t.Errorf("%s: Blocked is %t", want, !blocked)
		}
	}
	// Both ends of every block and the public neighbours.
	f("0.0.0.0", Unspecified)
	f("0.255.255.255", Unspecified)
	f("1.0.0.0", Public)
	f("9.255.255.255", Public)
	f("10.0.0.0", Private)
	f("10.255.255.255", Private)
	f("11.0.0.0", Public)
	f("100.63.255.255", Public)
	f("100.64.0.0", CGNAT)
	f("100.100.100.200", CGNAT)
	f("100.127.255.255", CGNAT)
	f("100.128.0.0", Public)
	f("126.255.255.255", Public)
	f("127.0.0.0", Loopback)
	f("127.0.0.1", Loopback)
	f("127.255.255.255", Loopback)
	f("128.0.0.0", Public)
	f("168.63.129.15", Public)
	f("168.63.129.16", CloudMetadata)
	f("168.63.129.17", Public)
	f("169.253.255.255", Public)
	f("169.254.0.0", LinkLocal)
	f("169.254.169.254", LinkLocal)
	f("169.254.255.255", LinkLocal)
	f("169.255.0.0", Public)
	f("172.15.255.255", Public)
	f("172.16.0.0", Private)
	f("172.31.255.255", Private)
	f("172.32.0.0", Public)
	f("191.255.255.255", Public)
	f("192.0.0.0", ProtocolAssignments)
	f("192.0.0.192", ProtocolAssignments)
	f("192.0.0.255", ProtocolAssignments)
	f("192.0.1.255", Public)
	f("192.0.2.0", Documentation)
	f("192.0.2.255", Documentation)
	f("192.0.3.0", Public)
	f("192.88.98.255", Public)
	f("192.88.99.1", SixToFour)
	f("192.88.100.0", Public)
	f("192.167.255.255", Public)
	f("192.168.0.0", Private)
	f("192.168.255.255", Private)
	f("192.169.0.0", Public)
	f("198.17.255.255", Public)
	f("198.18.0.0", Benchmarking)
	f("198.19.255.255", Benchmarking)
	f("198.20.0.0", Public)
	f("198.51.100.0", Documentation)
	f("198.51.101.0", Public)
	f("203.0.113.255", Documentation)
	f("203.0.114.0", Public)
	f("223.255.255.255", Public)
	f("224.0.0.0", Multicast)
	f("239.255.255.255", Multicast)
	f("240.0.0.0", Reserved)
	f("255.255.255.254", Reserved)
	f("255.255.255.255", Broadcast)
	f("8.8.8.8", Public)

	f("::", Unspecified)
	f("::1", Loopback)
	f("::2", IPv4Compatible)
	f("::127.0.0.1", IPv4Compatible)
	f("::8.8.8.8", IPv4Compatible)
	f("::1:0:0", Reserved)
	f("::ffff:127.0.0.1", IPv4Mapped)
	f("::ffff:8.8.8.8", IPv4Mapped)
	f("::ffff:0:127.0.0.1", IPv4Translated)
	f("64:ff9b::7f00:1", NAT64)
	f("64:ff9b::808:808", NAT64)
	f("64:ff9b:1::a00:1", NAT64)
	f("64:ff9b:1:ffff:ffff:ffff:ffff:ffff", NAT64)
	f("64:ff9b:2::", Reserved)
	f("64:ff9b::1:0:0", Reserved)
	f("100::1", Discard)
	f("100:0:0:1::1", Discard)
	f("100:0:0:2::", Reserved)
	f("1fff:ffff::", Reserved)
	f("2000::", Public)
	f("2001::1", Teredo)
	f("2001:0:7f00:1::", Teredo)
	f("2001:1::1", ProtocolAssignments)
	f("2001:2::1", Benchmarking)
	f("2001:2:1::", ProtocolAssignments)
	f("2001:10::1", ORCHID)
	f("2001:2f:ffff::", ORCHID)
	f("2001:1ff:ffff::", ProtocolAssignments)
	f("2001:200::", Public)
	f("2001:db8::1", Documentation)
	f("2001:db9::1", Public)
	f("2002:7f00:1::", SixToFour)
	f("2002:808:808::1", SixToFour)
	f("2003::1", Public)
	f("2606:4700:4700::1111", Public)
	f("3fff::1", Documentation)
	f("3fff:1000::", Public)
	f("4000::", Reserved)
	f("5f00::1", SegmentRouting)
	f("fbff::1", Reserved)
	f("fc00::", UniqueLocal)
	f("fd00:ec2::254", UniqueLocal)
	f("fe00::1", Reserved)
	f("fe80::1", LinkLocal)
	f("fe80::1%eth0", LinkLocal)
	f("::1%lo", Loopback)
	f("fec0::1", SiteLocal)
	f("ff02::1", Multicast)
	f("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Multicast)

	if got := ClassifyAddr(netip.Addr{}); got != Invalid || !got.Blocked() {
		t.Errorf("the zero address is %s", got)
	}
	if !TargetClass("a word of tomorrow").Blocked() || !TargetClass("").Blocked() {
		t.Error("an unknown class is not blocked")
	}
}

func TestPolicyClassifyAddr(t *testing.T) {
	p := Policy{
		Allow:    []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
		OwnAddrs: ownOf("8.8.4.4", "10.0.0.1", "127.0.0.1", "2606:4700::1"),
	}
	f := func(addr string, want TargetClass) {
		t.Helper()
		if got := p.ClassifyAddr(netip.MustParseAddr(addr)); got != want {
			t.Errorf("ClassifyAddr(%s) = %s, want %s", addr, got, want)
		}
	}
	f("127.0.0.1", Allowed)
	f("127.1.2.3", Allowed)
	f("fd12::1", Allowed)
	f("fc00::1", UniqueLocal)
	f("8.8.4.4", OwnAddress)
	f("2606:4700::1", OwnAddress)
	f("10.0.0.1", Private)
	f("8.8.8.8", Public)
	f("::ffff:127.0.0.1", IPv4Mapped)
	f("::1", Loopback)
	f("fe80::1%eth0", LinkLocal)
	f("fd12::1%eth0", Allowed)
	f("2606:4700::1%eth0", OwnAddress)
}

// What is denied is blocked whatever else it is, also by its IPv4-mapped form, and named so.
func TestDeny(t *testing.T) {
	networks := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	p := Policy{Allow: networks("10.0.0.0/8", "::1/128", "::ffff:0:0/96"),
		Deny: networks("8.8.4.0/24", "10.1.0.0/16", "2600:1f00::/24")}
	for addr, want := range map[string]TargetClass{
		"8.8.4.4": Denied, "8.8.8.8": Public, "10.1.2.3": Denied, "10.2.0.1": Allowed, "2600:1f16::1": Denied,
		"2600:1f16::1%eth0": Denied, "2600:2000::1": Public, "::ffff:8.8.4.4": Denied, "::ffff:8.8.8.8": Allowed,
	} {
		is.Equal(t, p.ClassifyAddr(netip.MustParseAddr(addr)), want, "%s is", addr)
	}
	const text = "in a network that the operator of this relay has denied"
	is.Failed(t, newGuard(p, nil).checkCandidate("8.8.4.4:443", true), text, "the guard returns")
	if _, err := p.CheckURL("https://10.1.2.3/x"); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("a URL with a denied address returns %v", err)
	}
	if class := (Policy{Allow: networks("127.0.0.0/8"), Deny: networks("127.0.0.0/8")}); class.allowsLoopback() {
		t.Error("localhost is allowed although it is denied")
	}
}

func TestClassifyTarget(t *testing.T) {
	strict := Policy{}
	withHTTP := Policy{AllowHTTP: true}
	inside := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	f := func(p Policy, target string, name bool, want TargetClass) {
		t.Helper()
		if got := p.classifyTarget(netip.MustParseAddrPort(target), name); got != want {
			t.Errorf("classifyTarget(%s, name %t) = %s, want %s", target, name, got, want)
		}
	}
	f(strict, "8.8.8.8:443", true, Public)
	f(strict, "8.8.8.8:1024", true, Public)
	f(strict, "8.8.8.8:65535", true, Public)
	f(strict, "8.8.8.8:1023", true, Port)
	f(strict, "8.8.8.8:80", true, Port)
	f(strict, "8.8.8.8:22", true, Port)
	f(strict, "8.8.8.8:0", true, Port)
	f(strict, "8.8.8.8:443", false, NotAName)
	f(strict, "10.0.0.1:443", true, Private)
	f(strict, "10.0.0.1:22", false, Private)
	f(withHTTP, "8.8.8.8:80", true, Public)
	f(withHTTP, "8.8.8.8:81", true, Port)
	f(withHTTP, "127.0.0.1:80", true, Loopback)
	f(inside, "10.0.0.1:22", false, Allowed)
	f(inside, "10.0.0.1:22", true, Allowed)
	f(inside, "192.168.0.1:443", true, Private)
	f(inside, "8.8.8.8:22", true, Port)
	f(inside, "8.8.8.8:443", false, NotAName)
}

func BenchmarkClassifyAddr(b *testing.B) {
	p := loopbackAllowed
	addr := netip.MustParseAddr("2606:4700:4700::1111") // matches the last but one of the prefixes
	for b.Loop() {
		p.ClassifyAddr(addr)
	}
}

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
