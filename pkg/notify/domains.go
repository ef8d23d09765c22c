package notify

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// Domains are the domains that mail may go to, in lower-case ASCII; empty = any.
type Domains []string

// ParseDomains validates names of domains and converts them to ASCII (IDNA).
func ParseDomains(names []string) (Domains, error) {
	var all Domains
	for _, name := range names {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil || ascii == "" || strings.ContainsAny(name, "@*[ ") {
			return nil, fmt.Errorf("%q is not a domain name such as example.com", name)
		}
		all = append(all, ascii)
	}
	return all, nil
}

// Allow reports whether mail may go to an address: its domain must be listed; a listed parent domain is not enough.
// Addresses with %, ! or a second @ before the domain are rejected, because some servers forward them to another
// address.
func (d Domains) Allow(address string) bool {
	if len(d) == 0 {
		return true
	}
	at := strings.LastIndexByte(address, '@')
	ascii, err := idna.Lookup.ToASCII(address[at+1:])
	return err == nil && slices.Contains(d, ascii) && !strings.ContainsAny(address[:max(at, 0)], "%!@")
}

// ASCIIAddress returns an address with its domain in ASCII, as Allow compares it, so that no mail server interprets
// it differently. A domain without an ASCII form stays as it is.
func ASCIIAddress(address string) string {
	at := strings.LastIndexByte(address, '@')
	if ascii, err := idna.Lookup.ToASCII(address[at+1:]); err == nil {
		return address[:at+1] + ascii
	}
	return address
}

// String returns the domains for messages to people.
func (d Domains) String() string { return strings.Join(d, ", ") }
