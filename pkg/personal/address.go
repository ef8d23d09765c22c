package personal

import (
	"net/netip"
	"slices"
	"strings"
)

// Longest parts of an email address (RFC 5321, section 4.5.3.1), and of an IP address, in bytes.
const (
	maxLocal  = 64
	maxDomain = 255
	maxIP     = 45
)

// findEmails finds addresses around @, also when it is percent-encoded as in a URL.
func findEmails(text string, found func(Match)) {
	for i := 0; i < len(text); i++ {
		width := 1
		if text[i] != '@' {
			if width = 3; text[i] != '%' || !strings.HasPrefix(text[i:], "%40") {
				continue
			}
		}
		start := i
		for start > 0 && i-start < maxLocal && isLocal(text[start-1]) {
			start--
		}
		end := i + width
		for end < len(text) && end-i < maxDomain && isDomain(text[end]) {
			end++
		}
		end = i + width + len(strings.TrimRight(text[i+width:end], ".-"))
		if domain := strings.ToLower(text[i+width : end]); start < i && isPublicDomain(domain) {
			found(Match{Email, start, end})
			i = end - 1
		}
	}
}

func isLocal(c byte) bool {
	return isWord(c) || strings.IndexByte(".+-'%!#$&*/=?^`{|}~", c) >= 0
}

func isDomain(c byte) bool { return isWord(c) || c == '.' || c == '-' }

// isPublicDomain reports whether a domain has a top level of letters and is not reserved (RFC 2606).
func isPublicDomain(domain string) bool {
	i := strings.LastIndexByte(domain, '.')
	if i < 1 {
		return false
	}
	top := domain[i+1:]
	if len(top) < 2 || !isLetter(top[0]) && top[0] < 0x80 {
		return false
	}
	_, second, _ := strings.Cut("."+domain[:i], ".")
	second = second[strings.LastIndexByte(second, '.')+1:]
	return !slices.Contains([]string{"example", "test", "invalid", "localhost"}, top) &&
		!(second == "example" && slices.Contains([]string{"com", "org", "net"}, top))
}

// reserved are addresses of documentation (RFC 5737, RFC 3849) and those that name no host or this one.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::/127"),
}

// findIPs finds addresses of IP version 4 and 6.
func findIPs(text string, found func(Match)) {
	for i := 0; i < len(text); {
		if !isIP(text[i]) {
			i++
			continue
		}
		end, dots, colons := i, 0, 0
		for ; end < len(text) && isIP(text[end]); end++ {
			switch text[end] {
			case '.':
				dots++
			case ':':
				colons++
			}
		}
		if dots >= 3 || colons >= 2 {
			findIP(text, i, end, found)
		}
		i = end
	}
}

// findIP finds one address in a run of its characters. A port may follow an address of version 4.
func findIP(text string, start, end int, found func(Match)) {
	if wordBefore(text, start) || wordAfter(text, end) {
		return
	}
	run := strings.TrimRight(text[start:end], ".:")
	if host, _, ok := strings.Cut(run, ":"); ok && strings.Count(host, ".") == 3 {
		run = host
	}
	if len(run) > maxIP {
		return
	}
	address, err := netip.ParseAddr(run)
	if err != nil || slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(address.Unmap()) }) {
		return
	}
	found(Match{IP, start, start + len(run)})
}

func isIP(c byte) bool { return isDigit(c) || c == '.' || c == ':' || c|' ' >= 'a' && c|' ' <= 'f' }
