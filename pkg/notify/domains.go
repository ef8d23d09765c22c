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

// Allow reports whether mail may go to an address: its domain is named. A domain above it does not suffice.
func (d Domains) Allow(address string) bool {
	if len(d) == 0 {
		return true
	}
	ascii, err := idna.Lookup.ToASCII(address[strings.LastIndex(address, "@")+1:])
	return err == nil && slices.Contains(d, ascii)
}

// String names them for people.
func (d Domains) String() string { return strings.Join(d, ", ") }
