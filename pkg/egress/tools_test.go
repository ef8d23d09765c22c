package egress

import (
	"net/netip"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// The tools that run on a developer's machine refuse what specialPrefixes has, but private networks: a developer's
// target is there. Node.js checks an IPv4-mapped address as the IPv4 address that it holds.
func TestToolsRefuseTheSameAddresses(t *testing.T) {
	text := must.Get(os.ReadFile("../../sdk/shared/target.mjs"))(t)
	list := func(name string) (all []netip.Prefix) {
		statement := regexp.MustCompile(`(?s)const ` + name + ` = addressList\((.*?)\)`).FindSubmatch(text)
		if statement == nil {
			t.Fatalf("target.mjs has no list %s", name)
		}
		for _, m := range regexp.MustCompile(`'([^']+)'`).FindAllSubmatch(statement[1], -1) {
			all = append(all, netip.MustParsePrefix(string(m[1])))
		}
		return all
	}
	accepted := []TargetClass{Public, Loopback, Private, UniqueLocal, CGNAT, IPv4Mapped}
	reserved, metadata := list("reserved"), list("metadata")
	for _, s := range specialPrefixes {
		if slices.Contains(accepted, s.class) || s.prefix.Bits() == 0 {
			continue
		}
		if !slices.ContainsFunc(slices.Concat(reserved, metadata), func(p netip.Prefix) bool {
			return p.Bits() <= s.prefix.Bits() && p.Contains(s.prefix.Addr())
		}) {
			t.Errorf("target.mjs does not refuse %v (%s)", s.prefix, s.class)
		}
	}
	for _, p := range reserved {
		first := p.Addr()
		if p.Bits() == 96 {
			first = first.Next().Next() // ::/96 begins with :: and ::1
		}
		if class := ClassifyAddr(first); slices.Contains(accepted, class) {
			t.Errorf("target.mjs refuses %v, which is %s", p, class)
		}
	}
	for _, p := range metadata {
		if class := ClassifyAddr(p.Addr()); class == Public {
			t.Errorf("pkg/egress sends to %v", p)
		}
	}
}
