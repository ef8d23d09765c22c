package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// discardLog discards what net/http's servers log about the errors that the tests cause.
var discardLog = log.New(io.Discard, "", 0)

// rawServer accepts connections on 127.0.0.1 and calls serve for each, which is closed when serve returns.
func rawServer(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				serve(c)
			})
			wg.Go(func() { // connections that hang on purpose end with the test
				<-ended
				c.Close()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		close(ended)
		wg.Wait()
	})
	return l.Addr().String()
}

// answer reads a request's header block and writes text.
func answer(text string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, text)
		}
	}
}

// reset makes Close of c send a TCP reset.
func reset(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }

func refusedAddress(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// requestTimeout returns the time limit of a request: short if the test expects a timeout.
func requestTimeout(want event.ErrorCode) time.Duration {
	if want == event.CodeTimeout {
		return 300 * time.Millisecond
	}
	return 2 * time.Minute
}

// TestClassifyPlain checks the error codes of TCP and HTTP/1 errors on real sockets.
func TestClassifyPlain(t *testing.T) {
	tr := newTransport(t, Config{
		Policy: Policy{Allow: loopbackAllowed.Allow, AllowHTTP: true},
		DNSServer: startDNS(t, func(name string, _ int) []netip.Addr {
			switch name {
			case "nobody.example.com":
				return nil
			case "empty.example.com":
				return []netip.Addr{}
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}),
	})
	f := func(name, url string, want event.ErrorCode) {
		t.Helper()
		classifies(t, name, tr, url, want)
	}
	flood := "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", maxResponseHeader) + "\r\n\r\n"
	early := strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("a", 1000)+"\r\n\r\n", 100)

	f("a good answer", "http://"+rawServer(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")), "")
	f("a header block just within", "http://"+
		rawServer(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A: "+strings.Repeat("a", 60<<10)+"\r\n\r\n")), "")
	f("refused", "http://"+refusedAddress(t), event.CodeConnectionRefused)
	f("reset before the answer", "http://"+
		rawServer(t, func(c net.Conn) { http.ReadRequest(bufio.NewReader(c)); reset(c) }), event.CodeConnectionReset)
	f("closed before the answer", "http://"+rawServer(t, answer("")), event.CodeConnectionReset)
	f("closed within the header block", "http://"+rawServer(t, answer("HTTP/1.1 200 OK\r\nX-A: ")),
		event.CodeConnectionReset)
	f("closed within the body", "http://"+rawServer(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok")),
		event.CodeConnectionReset)
	f("reset within the body", "http://"+rawServer(t, func(c net.Conn) {
		answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")(c)
		reset(c)
	}), event.CodeConnectionReset)
	f("not HTTP", "http://"+rawServer(t, answer("220 mail.example.com ESMTP\r\n")), event.CodeNetwork)
	f("a broken chunk", "http://"+rawServer(t, answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")),
		event.CodeNetwork)
	f("a header flood", "http://"+rawServer(t, answer(flood)), event.CodeResponseTooLarge)
	f("a flood of early hints", "http://"+rawServer(t, answer(early)), event.CodeResponseTooLarge)
	f("a hung server", "http://"+rawServer(t, func(c net.Conn) { io.Copy(io.Discard, c) }), event.CodeTimeout)
	f("hung within the body", "http://"+rawServer(t, func(c net.Conn) {
		answer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok")(c)
		io.Copy(io.Discard, c)
	}), event.CodeTimeout)
	f("no such name", "http://nobody.example.com:8080/", event.CodeDNS)
	f("a name without an address", "http://empty.example.com:8080/", event.CodeDNS)
	f("a blocked address", "http://10.0.0.1/", event.CodeAddressBlocked)
	f("a scheme that nobody speaks", "ftp://127.0.0.1/", event.CodeInternal)
	f("no host", "http:///", event.CodeInternal)
}

// classifies checks the code of a request's error, which has a message.
func classifies(t *testing.T, name string, tr *Transport, url string, want event.ErrorCode) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout(want))
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}")))(t)
	res, err := tr.RoundTrip(req)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	is.Equal(t, Classify(err), want, "%s: %v", name, err)
	if err != nil && Message(err) == "" {
		t.Errorf("%s: no message for %v", name, err)
	}
}

// TestClassifyTLS checks the error codes of TLS and HTTP/2 errors on real sockets.
func TestClassifyTLS(t *testing.T) {
	srv, good := startTLS(t, true, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/cut":
			io.WriteString(w, "ok")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/flood":
			w.Header().Set("X-A", strings.Repeat("a", 2*maxResponseHeader))
		case "/lines":
			n, _ := strconv.Atoi(r.URL.RawQuery)
			for i := range n {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("a", 1000))
			}
		case "/early":
			w.Header().Set("Link", strings.Repeat("a", 1000))
			for range 100 {
				w.WriteHeader(http.StatusEarlyHints)
			}
		case "/hang":
			<-r.Context().Done()
		}
	})
	tr := transportTo(t, srv)
	strangers := newTransport(t, Config{Policy: loopbackAllowed, DNSServer: startDNS(t, always("127.0.0.1"))})
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())

	old := srv.TLS.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	wantsCert := srv.TLS.Clone()
	wantsCert.ClientAuth = tls.RequireAnyClientCert
	wantsCert.MaxVersion = tls.VersionTLS12 // in TLS 1.3 the alert comes after the handshake and races with the request
	handshake := func(cfg *tls.Config) func(net.Conn) {
		return func(c net.Conn) {
			tc := tls.Server(c, cfg)
			if tc.Handshake() == nil {
				io.Copy(io.Discard, tc)
			}
		}
	}
	f := func(name string, tr *Transport, url string, want event.ErrorCode) {
		t.Helper()
		classifies(t, name, tr, url, want)
	}
	f("a good answer", tr, good, "")
	f("an unknown issuer", strangers, good, event.CodeTLS)
	f("another name", tr, "https://example.org:"+port, event.CodeTLS)
	f("another name, an address", tr, "https://127.0.0.9:"+port, event.CodeConnectionRefused)
	f("TLS 1.1 at most", tr, "https://"+rawServer(t, handshake(old)), event.CodeTLS)
	f("a client certificate is wanted", tr, "https://"+rawServer(t, handshake(wantsCert)), event.CodeTLS)
	f("plain HTTP", tr, "https://"+
		rawServer(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }),
		event.CodeTLS)
	f("not TLS", tr, "https://"+rawServer(t, func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n") }),
		event.CodeTLS)
	f("closed within the handshake", tr, "https://"+rawServer(t, func(c net.Conn) { c.Read(make([]byte, 1)); reset(c) }),
		event.CodeConnectionReset)
	f("hung within the handshake", tr, "https://"+rawServer(t, func(c net.Conn) { io.Copy(io.Discard, c) }),
		event.CodeTimeout)
	f("stream reset before the answer", tr, good+"/abort", event.CodeConnectionReset)
	f("stream reset within the body", tr, good+"/cut", event.CodeConnectionReset)
	f("one header that is a flood", tr, good+"/flood", event.CodeResponseTooLarge)
	f("headers just within", tr, good+"/lines?60", "")
	f("headers just over", tr, good+"/lines?68", event.CodeResponseTooLarge)
	f("a flood of headers", tr, good+"/lines?2000", event.CodeNetwork) // see isHeaderTooLarge
	f("a flood of early hints", tr, good+"/early", event.CodeResponseTooLarge)
	f("a hung server", tr, good+"/hang", event.CodeTimeout)
}

// TestClassifyErrors checks errors that sockets on loopback do not cause.
func TestClassifyErrors(t *testing.T) {
	f := func(err error, want event.ErrorCode) {
		t.Helper()
		is.Equal(t, Classify(err), want, err)
	}
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	f(nil, "")
	f(dial(syscall.ENETUNREACH), event.CodeNetworkUnreachable)
	f(dial(syscall.EHOSTUNREACH), event.CodeNetworkUnreachable)
	f(dial(syscall.ENETDOWN), event.CodeNetworkUnreachable)
	f(dial(syscall.EHOSTDOWN), event.CodeNetworkUnreachable)
	f(dial(syscall.ETIMEDOUT), event.CodeTimeout)
	f(dial(syscall.EPIPE), event.CodeConnectionReset)
	f(dial(syscall.ECONNABORTED), event.CodeConnectionReset)
	f(fmt.Errorf("write: %w", net.ErrClosed), event.CodeConnectionReset)
	f(dial(syscall.EMFILE), event.CodeInternal)
	f(dial(syscall.ENFILE), event.CodeInternal)
	f(&net.DNSError{Err: "i/o timeout", Name: "a.example", IsTimeout: true}, event.CodeDNS)
	f(fmt.Errorf("read body: %w", context.DeadlineExceeded), event.CodeTimeout)
	f(fmt.Errorf("read body: %w", os.ErrDeadlineExceeded), event.CodeTimeout)
	f(context.Canceled, event.CodeNetwork)
	f(fmt.Errorf("send: %w", &AddressBlockedError{Class: Private}), event.CodeAddressBlocked)
	f(errors.New("tls: handshake failure"), event.CodeTLS)
	alert := &net.OpError{Op: "local error", Err: errors.New("tls: bad record MAC")}
	f(fmt.Errorf("dial: %w", alert), event.CodeTLS)
	f(fmt.Errorf("EHLO: %w, HELO: %w", errors.New("closed"), alert), event.CodeTLS)
	f(errors.Join(errors.New("closed"), tls.RecordHeaderError{Msg: "no record"}), event.CodeTLS)
	f(errors.New("anything else"), event.CodeNetwork)

	tr := newTransport(t, Config{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.com/", nil)
	must.Do(t, err)
	req.Header.Set("X-A", "a\r\nX-B: b")
	_, err = tr.RoundTrip(req)
	f(err, event.CodeInternal)
	_, err = tr.RoundTrip(&http.Request{Header: http.Header{}})
	f(err, event.CodeInternal)
}

func TestMessage(t *testing.T) {
	f := func(err error, want string) {
		t.Helper()
		is.Equal(t, Message(err), want)
	}
	f(nil, "")
	f(errors.New("plain"), "plain")
	f(errors.New("a\r\nb\x00c\u202ed\xff"), "a  b c d ")
	f(errors.New(strings.Repeat("é", maxMessage)), strings.Repeat("é", maxMessage))
	f(errors.New(strings.Repeat("é", maxMessage+1)), strings.Repeat("é", maxMessage-1)+"…")
	reset := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET,
		Source: net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[fd00::5]:40000")),
		Addr:   net.TCPAddrFromAddrPort(netip.MustParseAddrPort("198.51.100.7:443"))}
	f(reset, "read tcp 198.51.100.7:443: connection reset by peer")
	f(fmt.Errorf("readLoopPeekFailLocked: %w", reset),
		"readLoopPeekFailLocked: read tcp 198.51.100.7:443: connection reset by peer")
	server := "10.96.0.10:53"
	f(&net.DNSError{Name: "a.example", Err: "no such host", Server: server, IsNotFound: true},
		"look up a.example: no such host")
	f(&net.DNSError{Name: "a.example", Err: "read udp 10.1.1.1:5->" + server + ": i/o timeout", Server: server,
		IsTimeout: true}, "look up a.example: no answer in time")
	f(&net.DNSError{Name: "a.example", Err: "dial udp " + server + ": connection refused", Server: server},
		"look up a.example: the name server gave no usable answer")
	if !utf8.ValidString(Message(errors.New("\xff\xfe"))) {
		t.Error("a message is not UTF-8")
	}
}
