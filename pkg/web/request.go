package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/event"
)

// Bounds of the header block of a request that reaches a handler. They keep an event's record under what
// the log takes beside a full body.
const (
	maxHeaderBytes = 64 << 10
	maxHeaderLines = 200
)

// CheckHeader refuses a header block over 64 KB or 200 lines. Which status that is depends on the surface.
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
		return fmt.Errorf("the request has more than %d header lines", maxHeaderLines)
	case size > maxHeaderBytes:
		return errors.New("the request has more than 64 KB of headers")
	}
	return nil
}

// HeaderFields are the header lines of a request, names sorted, the lines of one name in their order. Host
// is among them: net/http keeps it apart, but it was received, and it says by which name the sender called.
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

// ClientAddr is the address of whoever sent the request: the peer's, or behind trusted proxies the
// right-most entry of X-Forwarded-For that no trusted proxy has. Everything left of that entry was
// written by the client and means nothing.
func ClientAddr(r *http.Request, proxies []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // a socket without addresses
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
			return client // unreadable: the nearest address that a trusted proxy vouched for
		}
		client = addr
		if !trusted(addr) {
			return client
		}
	}
	return client
}

// forwardedAddr reads one entry of X-Forwarded-For; some proxies write the port too.
func forwardedAddr(entry string) (netip.Addr, bool) {
	entry = strings.TrimSpace(entry)
	if ap, err := netip.ParseAddrPort(entry); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	addr, err := netip.ParseAddr(strings.Trim(entry, "[]"))
	return addr.Unmap().WithZone(""), err == nil
}

func typeName(v any) string { return fmt.Sprintf("%T", v) }

// HostName is a host without its port, in one spelling.
func HostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
