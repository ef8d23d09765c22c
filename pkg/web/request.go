package web

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/event"
)

// Limits of the headers of a request. They keep the record of an event with the largest body below the limit of a Kafka
// record.
const (
	maxHeaderBytes = 64 << 10
	maxHeaderLines = 200
)

// CheckHeader returns an error if the headers of a request have more than 64 KiB or 200 lines. The caller chooses the
// status of the response.
func CheckHeader(r *http.Request) error {
	lines, size := 0, 0
	for name, values := range r.Header {
		lines += len(values)
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	switch {
	case lines > maxHeaderLines:
		return fmt.Errorf("the request has more than %d header lines; send fewer", maxHeaderLines)
	case size > maxHeaderBytes:
		return errors.New("the request has more than 64 KiB of headers; send less")
	}
	return nil
}

// HeaderFields returns the header lines of a request, sorted by name; lines of the same name keep their order. It
// includes Host, which net/http keeps apart: it says under which host name the sender reached the service.
func HeaderFields(r *http.Request) []event.Field {
	n := 1
	for _, values := range r.Header {
		n += len(values)
	}
	fields := make([]event.Field, 0, n)
	if r.Host != "" {
		fields = append(fields, event.Field{Name: "Host", Value: r.Host})
	}
	for name, values := range r.Header {
		for _, v := range values {
			fields = append(fields, event.Field{Name: name, Value: v})
		}
	}
	slices.SortStableFunc(fields, func(a, b event.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

// SessionCookie is how the names of the dashboard's cookies begin, with https after __Host-. The next characters are
// those of SessionCookieID.
const SessionCookie = "relay-"

// SessionCookieID is what tells the cookies of one relay from those of another on the same host: eight hexadecimal
// digits.
func SessionCookieID(account, baseURL string) string {
	sum := sha256.Sum256([]byte(account + " " + baseURL))
	return hex.EncodeToString(sum[:4])
}

// isSession matches a cookie of a dashboard.
var isSession = regexp.MustCompile(`^(?:__Host-)?` + SessionCookie + `[0-9a-f]{8}(?:-|=|$)`)

// WithoutSessions removes the cookies of dashboards from header fields: a browser that is signed in sends them to every
// path of the host, and who may read an event must not get the session of who has sent it.
func WithoutSessions(fields []event.Field) []event.Field {
	for i := range fields {
		if f := &fields[i]; f.Name == "Cookie" && strings.Contains(f.Value, SessionCookie) {
			pairs := slices.DeleteFunc(strings.Split(f.Value, ";"), func(pair string) bool {
				return isSession.MatchString(strings.TrimSpace(pair))
			})
			if f.Value = strings.TrimSpace(strings.Join(pairs, ";")); f.Value == "" {
				return WithoutSessions(slices.Delete(fields, i, i+1))
			}
		}
	}
	return fields
}

// ClientAddr returns the address of the client. If the peer is not in proxies, that is the peer. Otherwise it is the
// right-most entry of X-Forwarded-For that is not in proxies: the client itself may have written everything left of it.
// If all entries are in proxies, it is the left-most one; entries left of an invalid one do not count. The result is
// invalid for a connection without IP addresses, such as a unix socket.
func ClientAddr(r *http.Request, proxies []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // a unix socket
	}
	client := peer.Addr().Unmap().WithZone("")
	trusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	if !trusted(client) {
		return client
	}
	entries := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, entry := range slices.Backward(entries) {
		addr, ok := forwardedAddr(entry)
		if !ok {
			return client // invalid entry: the last address that a trusted proxy reported
		}
		client = addr
		if !trusted(addr) {
			return client
		}
	}
	return client
}

// NetworkOf returns what a limit per client counts for: the address, or its /64 of IPv6, because a provider assigns at
// least a /64 to one customer. It is invalid for a client without address.
func NetworkOf(client netip.Addr) netip.Addr {
	client = client.Unmap()
	if client.Is6() {
		prefix, _ := client.Prefix(64) // fails for no address of IPv6
		return prefix.Addr()
	}
	return client
}

// forwardedAddr parses one entry of X-Forwarded-For, an address with or without a port: some proxies add it.
func forwardedAddr(entry string) (netip.Addr, bool) {
	entry = strings.TrimSpace(entry)
	if ap, err := netip.ParseAddrPort(entry); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	addr, err := netip.ParseAddr(strings.Trim(entry, "[]"))
	return addr.Unmap().WithZone(""), err == nil
}

// typeName returns the Go type of v.
func typeName(v any) string { return fmt.Sprintf("%T", v) }

// HostName returns host in lower case without its port, the brackets of an IPv6 address and a trailing full stop. Only
// letters of ASCII are lowered, as in DNS (RFC 4343): no other character becomes one of a host that is allowed.
func HostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	name := []byte(strings.TrimSuffix(host, "."))
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			name[i] = c + 'a' - 'A'
		}
	}
	return string(name)
}

// Hosts are the host names, as HostName returns them, under which clients may reach a server.
type Hosts map[string]bool

// HostsOf returns the hosts of a base URL, and others.
func HostsOf(baseURL string, others []string) Hosts {
	hosts := Hosts{}
	if u, err := url.Parse(baseURL); err == nil {
		hosts[HostName(u.Host)] = true
	}
	for _, h := range others {
		hosts[HostName(h)] = true
	}
	return hosts
}

// Knows reports whether requests with this host are answered. Others are refused against DNS rebinding: a foreign page
// whose host name resolves to this server could make a browser call it. The attack needs a host name of the attacker's,
// so IP addresses and localhost pass.
func (h Hosts) Knows(host string) bool {
	name := HostName(host)
	_, err := netip.ParseAddr(name)
	return err == nil || name == "localhost" || h[name]
}

// Bearer returns the bearer token of a request.
func Bearer(r *http.Request) (string, bool) {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	return strings.TrimSpace(text), strings.EqualFold(scheme, "bearer") // RFC 9110, 11.1: schemes are case-insensitive
}
