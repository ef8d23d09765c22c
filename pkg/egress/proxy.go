package egress

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Bounds of connections through a proxy.
const (
	// maxCandidates is how many addresses of a name are tried.
	maxCandidates = 4
	// proxyTimeout is how long connecting to the proxy may take: less than the time-out of most destinations.
	proxyTimeout = 3 * time.Second
	// maxProxyAnswer bounds the header of the proxy's answer, in bytes.
	maxProxyAnswer = 8 << 10
)

// ProxyError means that the proxy of the operator does not connect, whatever the target is. It says nothing about the
// target, so the request counts as not made.
type ProxyError struct{ reason string }

func (e *ProxyError) Error() string { return "RELAY_EGRESS_PROXY " + e.reason }

// proxy connects to addresses through the operator's HTTP proxy. The guard has chosen the address, so a name that
// resolves differently for the proxy changes nothing.
type proxy struct {
	address       string // host:port
	authorization string // value of Proxy-Authorization; empty: none
	dialer        net.Dialer
}

// ParseProxy checks RELAY_EGRESS_PROXY: http://[user:password@]host:port. Its errors contain no password.
func ParseProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("must be http://host:port or http://user:password@host:port")
	}
	return u, nil
}

func newProxy(text string) (*proxy, error) {
	if text == "" {
		return nil, nil
	}
	u, err := ParseProxy(text)
	if err != nil {
		return nil, fmt.Errorf("RELAY_EGRESS_PROXY %w", err)
	}
	p := &proxy{address: u.Host, dialer: net.Dialer{Timeout: proxyTimeout}}
	if u.User != nil {
		password, _ := u.User.Password()
		p.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, nil
}

// dialThrough resolves host:port, checks each address as the guard does without a proxy, and has the proxy connect to
// the first that is allowed and answers.
func (g *guard) dialThrough(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	addresses, err := g.dottedNames.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var first error
	for _, addr := range addresses[:min(len(addresses), maxCandidates)] {
		target := netip.AddrPortFrom(addr.Unmap(), uint16(number))
		err := g.checkCandidate(target.String(), isDottedName(address))
		if err == nil {
			var conn net.Conn
			if conn, err = g.proxy.connect(ctx, target); err == nil {
				return conn, nil
			}
		}
		if proxy := (*ProxyError)(nil); errors.As(err, &proxy) {
			return nil, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// connect asks the proxy for a connection to an address. An answer about the address is an error of the target: 403,
// and 502, 503 and 504, with which proxies say that it does not answer.
func (p *proxy) connect(ctx context.Context, target netip.AddrPort) (net.Conn, error) {
	conn, err := p.dialer.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, proxyFault(ctx, "cannot be reached: "+Message(err))
	}
	status, err := p.ask(ctx, conn, target.String())
	if err != nil {
		conn.Close()
		return nil, err
	}
	switch {
	case status/100 == 2:
		return &proxied{conn, net.TCPAddrFromAddrPort(target)}, nil
	case status == http.StatusForbidden, status == http.StatusBadGateway, status == http.StatusServiceUnavailable,
		status == http.StatusGatewayTimeout:
		err = fmt.Errorf("the proxy of the relay's operator answered %d for the address of the destination", status)
	default:
		err = &ProxyError{fmt.Sprintf("answered %d to CONNECT", status)}
	}
	conn.Close()
	return nil, err
}

// ask sends CONNECT and returns the status of the answer, after which the connection is one to the target.
func (p *proxy) ask(ctx context.Context, conn net.Conn, target string) (status int, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	request := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if p.authorization != "" {
		request += "Proxy-Authorization: " + p.authorization + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return 0, proxyFault(ctx, "takes no request: "+Message(err))
	}
	reader := bufio.NewReader(io.LimitReader(conn, maxProxyAnswer))
	answer, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect}) //nolint:bodyclose // see conn
	switch {
	case err != nil:
		return 0, proxyFault(ctx, "gave no answer: "+Message(err))
	case !stop():
		return 0, ctx.Err()
	case reader.Buffered() > 0:
		return 0, &ProxyError{"sent more than an answer to CONNECT"}
	}
	return answer.StatusCode, nil // the body of an answer to CONNECT is the connection
}

// proxyFault is a ProxyError, unless time ran out: a proxy that waits for a silent target gives no answer either.
func proxyFault(ctx context.Context, reason string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &ProxyError{reason}
}

// proxied is a connection through a proxy, with the address of the target.
type proxied struct {
	net.Conn
	target net.Addr
}

func (c *proxied) RemoteAddr() net.Addr { return c.target }
