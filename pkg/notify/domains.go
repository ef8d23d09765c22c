package notify

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// Domains are those that mail may go to, in lower-case ASCII; none = any.
type Domains []string

// ParseDomains reads names of domains.
func ParseDomains(names []string) (Domains, error) {
	var all Domains
	for _, name := range names {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil || ascii == "" || strings.ContainsAny(name, "@*[ ") {
			return nil, fmt.Errorf("%q is not the name of a domain such as example.com", name)
		}
		all = append(all, ascii)
	}
	return all, nil
}

// Allow reports whether mail may go to an address: its domain is named. A domain above it does not suffice. Servers
// may send an address with % or ! or another @ before its domain on to another one.
func (d Domains) Allow(address string) bool {
	if len(d) == 0 {
		return true
	}
	at := strings.LastIndexByte(address, '@')
	ascii, err := idna.Lookup.ToASCII(address[at+1:])
	return err == nil && slices.Contains(d, ascii) && !strings.ContainsAny(address[:max(at, 0)], "%!@")
}

// ASCIIAddress is an address with its domain as Allow compares it, so that no mail server reads another one in it. What
// has no ASCII form stays.
func ASCIIAddress(address string) string {
	at := strings.LastIndexByte(address, '@')
	if ascii, err := idna.Lookup.ToASCII(address[at+1:]); err == nil {
		return address[:at+1] + ascii
	}
	return address
}

// String names them for people.
func (d Domains) String() string { return strings.Join(d, ", ") }
